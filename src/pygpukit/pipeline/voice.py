"""A conversation by voice: detection, recognition, a language model, speech."""

from __future__ import annotations

import enum
import queue
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pygpukit.core.errors import InvalidTypeError, OperationError
from pygpukit.pipeline.speech import LLMToTTSPipeline, TTSChunk
from pygpukit.pipeline.stages import PipelineStats, Stages
from pygpukit.pipeline.voice_activity import VADConfig, VADEvent, VoiceActivityDetector

if TYPE_CHECKING:
    from pygpukit.scheduler import Scheduler


class PipelineState(enum.Enum):
    """What a VoicePipeline does."""

    IDLE = "idle"
    LISTENING = "listening"
    TRANSCRIBING = "transcribing"
    GENERATING = "generating"
    SPEAKING = "speaking"


@dataclass
class ConversationTurn:
    """What was said and answered. ``latencies_ms`` are those of this turn."""

    user_text: str
    assistant_text: str = ""
    user_seconds: float = 0.0
    spoken_seconds: float = 0.0
    interrupted: bool = False
    latencies_ms: dict[str, float] = field(default_factory=dict)


class VoicePipelineCallback:
    """What a VoicePipeline tells, from its own thread; override what is of interest.

    on_speech_start() comes from the thread that gives the sound. on_audio() may block while it
    plays the sound: the pipeline is SPEAKING until it returns. What a call in the pipeline's thread
    raises ends the turn and is raised by wait().
    """

    def on_state(self, state: PipelineState) -> None:
        """The state has changed."""

    def on_speech_start(self) -> None:
        """Somebody speaks."""

    def on_transcription(self, text: str) -> None:
        """What was said."""

    def on_text(self, text: str) -> None:
        """A piece of the reply."""

    def on_audio(self, chunk: TTSChunk) -> None:
        """A sentence of the reply."""

    def on_interrupt(self) -> None:
        """The reply was cut short."""

    def on_turn(self, turn: ConversationTurn) -> None:
        """The turn is over."""

    def on_error(self, error: BaseException) -> None:
        """A stage failed; wait() raises it, and the pipeline goes on listening."""


_STOP = object()


class VoicePipeline:
    """Listens, answers and lets itself be interrupted.

    ``asr`` has transcribe(audio, sample_rate=, language=) with a result that has ``text``; ``llm``
    and ``tts`` are those of LLMToTTSPipeline. Feed it with process_audio(), which never waits;
    replies come from a thread of the pipeline to ``callback``. A context manager.
    """

    def __init__(
        self,
        asr: Any,
        llm: Any,
        tts: Any,
        llm_tokenizer: Any = None,
        *,
        vad_config: VADConfig | None = None,
        callback: VoicePipelineCallback | None = None,
        system_prompt: str | None = None,
        language: str | None = None,
        voice: str | None = None,
        speed: float = 1.0,
        interruptible: bool = True,
        generation: dict[str, Any] | None = None,
        scheduler: Scheduler | None = None,
    ) -> None:
        if not callable(getattr(asr, "transcribe", None)):
            raise InvalidTypeError(
                f"VoicePipeline: asr is of type {type(asr).__name__}, "
                "expected an object with transcribe()"
            )
        self.asr = asr
        self.system_prompt = system_prompt
        self.language = language
        self.interruptible = interruptible
        self.history: list[ConversationTurn] = []
        self._speech = LLMToTTSPipeline(llm, tts, llm_tokenizer, voice, speed, scheduler=scheduler)
        self._stages: Stages = self._speech._stages
        self._generation = {"max_new_tokens": 256} if generation is None else dict(generation)
        self._vad = VoiceActivityDetector(vad_config)
        self._callback = VoicePipelineCallback() if callback is None else callback
        self._utterances: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._open = 0  # utterances without an answer
        self._changed = threading.Condition()
        self._state = PipelineState.IDLE
        self._interrupted = threading.Event()
        self._stopping = threading.Event()
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None

    # --- Life --------------------------------------------------------------------------------

    @property
    def state(self) -> PipelineState:
        """What it does now."""
        return self._state

    @property
    def stats(self) -> PipelineStats:
        """Counts and latencies so far."""
        return self._stages.stats()

    def start(self) -> None:
        """Begins to listen."""
        if self._thread is not None:
            raise OperationError("VoicePipeline.start: it has been started")
        self._vad.reset()
        self._error = None
        self._thread = threading.Thread(target=self._run, name="voice-pipeline", daemon=True)
        try:
            self._enter(PipelineState.LISTENING)
        except BaseException:
            self._thread, self._state = None, PipelineState.IDLE
            raise
        self._thread.start()

    def stop(self) -> None:
        """Drops what has not been answered, and ends. Nothing happens if it is not running."""
        if self._thread is None:
            return
        self._check_not_inside("stop")
        self._stopping.set()
        self._utterances.put(_STOP)
        self._thread.join()
        self._thread = None
        self._stopping.clear()
        with self._changed:
            self._utterances = queue.SimpleQueue()
            self._open = 0
            self._changed.notify_all()
        self._enter(PipelineState.IDLE)

    def __enter__(self) -> VoicePipeline:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    # --- Listening ---------------------------------------------------------------------------

    def process_audio(self, audio: Any) -> list[VADEvent]:
        """The next samples, float32 mono at the rate of the VADConfig. Never waits for a reply."""
        if self._thread is None:
            raise OperationError("VoicePipeline.process_audio: not started, call start()")
        events = self._vad.process_audio(audio)
        failure: BaseException | None = None
        for event in events:
            try:
                self._heard(event)
            except BaseException as error:  # the other events are heard first
                failure = failure or error
        if failure is not None:
            raise failure
        return events

    def finish(self) -> None:
        """The sound has ended: what is being said is answered without waiting for silence."""
        if self._thread is None:
            raise OperationError("VoicePipeline.finish: not started, call start()")
        event = self._vad.finish()
        if event is not None:
            self._heard(event)

    def interrupt(self) -> bool:
        """Cuts the reply short. False: it was not SPEAKING, and nothing has changed."""
        with self._changed:
            if self._state is not PipelineState.SPEAKING:
                return False
            self._interrupted.set()
            return True

    def wait(self, timeout: float | None = None) -> None:
        """Until all that was said has been answered; raises what a stage has raised meanwhile."""
        self._check_not_inside("wait")
        with self._changed:
            done = self._changed.wait_for(lambda: self._open == 0, timeout)
            error, self._error = self._error, None
        if error is not None:
            raise error
        if not done:
            raise TimeoutError(f"VoicePipeline.wait: no answer within {timeout} s")

    def _heard(self, event: VADEvent) -> None:
        if event.event_type == "speech_start":
            try:
                self._callback.on_speech_start()
            finally:
                if self.interruptible:
                    self.interrupt()
            return
        with self._changed:
            self._open += 1
        self._utterances.put((event.audio, time.perf_counter()))

    def _check_not_inside(self, method: str) -> None:
        if threading.current_thread() is self._thread:
            raise OperationError(
                f"VoicePipeline.{method}: called by a callback in the pipeline's own thread, which "
                "it would wait for"
            )

    # --- Answering, in the pipeline's thread -------------------------------------------------

    def _enter(self, state: PipelineState) -> None:
        with self._changed:
            if self._state is state:
                return
            self._state = state
            if state is PipelineState.SPEAKING:
                self._interrupted.clear()
        self._callback.on_state(state)

    def _run(self) -> None:
        while (item := self._utterances.get()) is not _STOP and not self._stopping.is_set():
            with self._errors():
                self._answer(*item)
            with self._errors():
                self._enter(PipelineState.LISTENING)
            with self._changed:
                self._open -= 1
                self._changed.notify_all()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Keeps what the block raises for wait()."""
        try:
            yield
        except BaseException as error:
            self._stages.count(errors=1)
            with self._changed:
                self._error = self._error or error
            with suppress(BaseException):  # wait() raises the first error, not that of on_error
                self._callback.on_error(error)

    def _answer(self, sound: NDArray[np.float32], heard: float) -> None:
        rate = self._vad.config.sample_rate
        self._enter(PipelineState.TRANSCRIBING)
        started = time.perf_counter()
        result = self._stages.submit("transcribe", self._transcribe, sound, rate).result()
        self._stages.note("transcribe", time.perf_counter() - started)
        text = result.text.strip()
        if not text:
            return
        turn = ConversationTurn(text, user_seconds=sound.size / rate)
        turn.latencies_ms["transcribe"] = 1e3 * (time.perf_counter() - heard)
        self._callback.on_transcription(text)
        self._enter(PipelineState.GENERATING)
        self._reply(turn, heard)
        self.history.append(turn)
        self._stages.count(turns=1)
        self._callback.on_turn(turn)

    def _transcribe(self, sound: NDArray[np.float32], rate: int) -> Any:
        return self.asr.transcribe(sound, sample_rate=rate, language=self.language)

    def _reply(self, turn: ConversationTurn, heard: float) -> None:
        prompt = self._messages(turn.user_text)

        def texts() -> Iterator[str]:
            return self._pieces(prompt)

        chunks = self._speech.speak(texts, on_text=self._callback.on_text)
        try:
            for chunk in chunks:
                if self._stopping.is_set():
                    turn.interrupted = True
                    break
                if self._state is PipelineState.GENERATING:
                    turn.latencies_ms["response"] = 1e3 * (time.perf_counter() - heard)
                    self._stages.note("response", time.perf_counter() - heard)
                    self._enter(PipelineState.SPEAKING)
                self._callback.on_audio(chunk)
                turn.assistant_text = f"{turn.assistant_text} {chunk.text}".strip()
                turn.spoken_seconds += chunk.duration_ms / 1e3
                if self._interrupted.is_set():
                    turn.interrupted = not chunk.is_final
                    break
        finally:
            chunks.close()  # type: ignore[attr-defined]
        if turn.interrupted:
            self._stages.count(interruptions=1)
            self._callback.on_interrupt()

    def _messages(self, text: str) -> list[dict[str, str]]:
        """The conversation so far. Of an interrupted reply, what was spoken."""
        messages = []
        if self.system_prompt is not None:
            messages.append({"role": "system", "content": self.system_prompt})
        for turn in self.history:
            messages.append({"role": "user", "content": turn.user_text})
            messages.append({"role": "assistant", "content": turn.assistant_text})
        messages.append({"role": "user", "content": text})
        return messages

    def _pieces(self, messages: Sequence[dict[str, str]]) -> Iterator[str]:
        llm = self._speech.llm
        if self._speech.llm_tokenizer is None and callable(getattr(llm, "chat", None)):
            chat: Iterator[str] = llm.chat(messages, **self._generation)
            return chat
        prompt = "\n".join(message["content"] for message in messages)
        return self._speech._texts(prompt, self._generation)()


def create_voice_pipeline(
    asr: Any, llm: Any, tts: Any, llm_tokenizer: Any = None, **options: Any
) -> VoicePipeline:
    """A VoicePipeline from models, or from folders (str or os.PathLike) that are loaded."""
    import os

    if isinstance(asr, (str, os.PathLike)):
        from pygpukit.asr import WhisperModel

        asr = WhisperModel.from_pretrained(asr)
    if isinstance(llm, (str, os.PathLike)):
        from pygpukit.llm import load

        llm = load(llm)
    if isinstance(tts, (str, os.PathLike)):
        from pygpukit.tts import KokoroModel

        tts = KokoroModel.from_pretrained(tts)
    return VoicePipeline(asr, llm, tts, llm_tokenizer, **options)

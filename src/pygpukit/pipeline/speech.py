"""Text of a language model, spoken sentence by sentence while it is generated."""

from __future__ import annotations

import queue
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pygpukit.core.arguments import positive
from pygpukit.core.errors import InvalidTypeError
from pygpukit.pipeline.stages import PipelineStats, Stages
from pygpukit.tts.sentences import SentenceSplitter

if TYPE_CHECKING:
    from pygpukit.scheduler import Scheduler, TaskFuture

Texts = Callable[[], Iterator[str]]
_END = object()  # event: no more text


@dataclass
class _Sentence:
    """A text on its way to a sound; also the event that its sound is there."""

    text: str
    whole_at: float
    sound: TaskFuture[tuple[NDArray[np.float32], int]]
    spoken: bool = False  # after its latency has been counted


@dataclass
class TTSChunk:
    """A spoken sentence. Times are seconds since the start of generate_speech()."""

    audio: NDArray[np.float32]
    sample_rate: int
    text: str
    start_time: float  # when its text was whole
    end_time: float  # when its sound was there
    is_final: bool = False

    @property
    def duration_ms(self) -> float:
        """Of the sound."""
        return 1e3 * self.audio.size / self.sample_rate

    @property
    def latency_ms(self) -> float:
        """From text to sound."""
        return 1e3 * (self.end_time - self.start_time)


class StreamingTTSCallback:
    """What generate_speech_with_callback() tells; override what is of interest."""

    def on_text(self, text: str) -> None:
        """A piece of generated text."""

    def on_audio(self, chunk: TTSChunk) -> None:
        """A spoken sentence."""

    def on_complete(self, stats: PipelineStats) -> None:
        """All has been spoken."""

    def on_error(self, error: BaseException) -> None:
        """A stage failed; the exception is raised afterwards."""


class LLMToTTSPipeline:
    """Speaks what a language model writes.

    ``llm`` is a gp.llm model; with ``llm_tokenizer``, any model with
    generate_stream(ids, ...) -> ids. ``tts`` has synthesize(text, voice=, speed=). Generation and
    synthesis are tasks of ``scheduler`` (default: gp.scheduler's), so that a sentence is spoken
    while the next one is generated.
    """

    def __init__(
        self,
        llm: Any,
        tts: Any,
        llm_tokenizer: Any = None,
        voice: str | None = None,
        speed: float = 1.0,
        *,
        scheduler: Scheduler | None = None,
    ) -> None:
        for name, stage, method in (("llm", llm, "generate_stream"), ("tts", tts, "synthesize")):
            if not callable(getattr(stage, method, None)):
                raise InvalidTypeError(
                    f"LLMToTTSPipeline: {name} is of type {type(stage).__name__}, "
                    f"expected an object with {method}()"
                )
        self.llm = llm
        self.tts = tts
        self.llm_tokenizer = llm_tokenizer
        self.voice = voice
        self.speed = positive("LLMToTTSPipeline", "speed", speed)
        self._stages = Stages(scheduler)

    @property
    def stats(self) -> PipelineStats:
        """Counts and latencies so far."""
        return self._stages.stats()

    def generate_speech(
        self,
        prompt: str,
        max_new_tokens: int = 256,
        temperature: float = 0.7,
        top_k: int = 50,
        top_p: float = 0.9,
        stream_sentences: bool = True,
    ) -> Iterator[TTSChunk]:
        """The reply to a prompt, as sound.

        Without ``stream_sentences`` the whole text is one chunk. Closing the iterator stops
        generation and synthesis.
        """
        options = {
            "max_new_tokens": max_new_tokens,
            "temperature": temperature,
            "top_k": top_k,
            "top_p": top_p,
        }
        texts = self._texts(prompt, options)
        return self.speak(texts, stream_sentences=stream_sentences)

    def generate_speech_with_callback(
        self, prompt: str, callback: StreamingTTSCallback, **options: Any
    ) -> None:
        """generate_speech(), told to a callback."""
        stream = options.pop("stream_sentences", True)
        defaults = {"max_new_tokens": 256, "temperature": 0.7, "top_k": 50, "top_p": 0.9}
        unknown = sorted(set(options) - set(defaults))
        if unknown:
            raise InvalidTypeError(
                f"generate_speech_with_callback: unknown option {unknown[0]!r}, "
                f"expected one of {', '.join([*defaults, 'stream_sentences'])}"
            )
        texts = self._texts(prompt, defaults | options)
        try:
            for chunk in self.speak(texts, stream_sentences=stream, on_text=callback.on_text):
                callback.on_audio(chunk)
        except BaseException as error:
            callback.on_error(error)
            raise
        callback.on_complete(self.stats)

    def synthesize_text(self, text: str) -> Iterator[TTSChunk]:
        """Speaks a text, sentence by sentence."""
        if not isinstance(text, str):
            raise InvalidTypeError(
                f"synthesize_text: text is of type {type(text).__name__}, expected str"
            )
        return self.speak(lambda: iter([text]))

    def speak(
        self,
        texts: Texts,
        *,
        stream_sentences: bool = True,
        on_text: Callable[[str], None] | None = None,
    ) -> Iterator[TTSChunk]:
        """Sound of the pieces of text that ``texts()`` yields in a task of stage "generate"."""
        run = _Run(self._stages, self._say, SentenceSplitter() if stream_sentences else None)
        try:
            yield from run.chunks(texts, on_text)
        finally:
            run.cancel()

    def _say(self, sentence: str) -> tuple[NDArray[np.float32], int]:
        result = self.tts.synthesize(sentence, voice=self.voice, speed=self.speed)
        return np.asarray(result.to_numpy(), np.float32), int(result.audio.sample_rate)

    def _texts(self, prompt: str, options: dict[str, Any]) -> Texts:
        if not isinstance(prompt, str):
            raise InvalidTypeError(
                f"generate_speech: prompt is of type {type(prompt).__name__}, expected str"
            )
        if self.llm_tokenizer is None:
            return lambda: self.llm.generate_stream(prompt, **options)
        return lambda: self._decoded(prompt, options)

    def _decoded(self, prompt: str, options: dict[str, Any]) -> Iterator[str]:
        """Pieces of text from a model of token ids. Characters cut in half wait for the rest."""
        ids: list[int] = []
        said = 0
        for token in self.llm.generate_stream(self.llm_tokenizer.encode(prompt), **options):
            ids.append(int(token))
            text = self.llm_tokenizer.decode(ids)
            whole = len(text.rstrip("\ufffd"))
            if whole > said:
                yield text[said:whole]
                said = whole
        text = self.llm_tokenizer.decode(ids)
        if len(text) > said:
            yield text[said:]


class _Run:
    """One call of speak(): the tasks under way, and what they have to say."""

    def __init__(
        self,
        stages: Stages,
        say: Callable[[str], tuple[NDArray[np.float32], int]],
        splitter: SentenceSplitter | None,
    ) -> None:
        self._stages = stages
        self._say = say
        self._splitter = splitter
        self._whole = ""  # of a text that is spoken at once
        self._events: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._sentences: deque[_Sentence] = deque()
        self._writer: TaskFuture[None] | None = None
        self._started = time.perf_counter()

    def chunks(self, texts: Texts, on_text: Callable[[str], None] | None) -> Iterator[TTSChunk]:
        self._writer = self._stages.submit("generate", _write, texts, self._events)
        # A task that never runs (cancelled, refused) puts nothing else.
        self._writer.add_done_callback(lambda _: self._events.put(_END))
        ended = False
        silent = True  # neither text nor sound so far
        while not ended or self._sentences:
            event = self._events.get()
            if event is _END:
                self._writer.result()
                ended = True
                self._start(self._rest())
            elif isinstance(event, _Sentence):
                event.spoken = True
            else:
                if silent:
                    self._stages.note("first_token", self._now())
                    silent = False
                if on_text is not None:
                    on_text(event)
                self._take(event)
            while self._sentences and self._sentences[0].spoken and (ended or self._more_to_say()):
                yield self._chunk(final=ended and len(self._sentences) == 1)

    def cancel(self) -> None:
        """Ends the tasks that wait, and asks those that run to stop."""
        if self._writer is not None:
            self._writer.cancel()
        for sentence in self._sentences:
            sentence.sound.cancel()

    def _now(self) -> float:
        return time.perf_counter() - self._started

    def _take(self, piece: str) -> None:
        if self._splitter is None:
            self._whole += piece
            return
        for sentence in self._splitter.push(piece):
            self._start(sentence)

    def _rest(self) -> str:
        return self._whole.strip() if self._splitter is None else self._splitter.finish()

    def _more_to_say(self) -> bool:
        """Whether the first sentence is not the last one."""
        pending = self._splitter is not None and self._splitter.pending
        return pending or len(self._sentences) > 1

    def _start(self, text: str) -> None:
        if not text:
            return
        sound = self._stages.timed("synthesize", self._say, text)
        sentence = _Sentence(text, self._now(), sound)
        self._sentences.append(sentence)
        sound.add_done_callback(lambda _: self._events.put(sentence))

    def _chunk(self, *, final: bool) -> TTSChunk:
        sentence = self._sentences.popleft()
        audio, rate = sentence.sound.result()
        self._stages.count(sentences=1, audio_seconds=audio.size / rate)
        return TTSChunk(audio, rate, sentence.text, sentence.whole_at, self._now(), final)


def _write(texts: Texts, pieces: queue.SimpleQueue[Any]) -> None:
    """The task: hands pieces on until it is asked to stop."""
    from pygpukit.scheduler import current_task

    task = current_task()
    for piece in texts():
        if task is not None and task.cancel_requested:
            return
        pieces.put(piece)

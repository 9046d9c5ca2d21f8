"""Voice pipelines: speech while text is generated, conversations, interruption."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from cases.pipeline import UTTERANCE, Chatter, Ear, Log, Voice, Writer, sound

import pygpukit as gp
from pygpukit import pipeline
from pygpukit.pipeline import (
    LLMToTTSPipeline,
    PipelineState,
    StreamingTTSCallback,
    TTSChunk,
    VoicePipeline,
)

# --- Language model to speech ----------------------------------------------------------------


def test_sentences_are_spoken_in_order() -> None:
    llm, tts = Writer("One two. Three! And the rest"), Voice()
    speech = LLMToTTSPipeline(llm, tts, voice="af", speed=1.5)
    chunks = list(speech.generate_speech("go"))
    assert [chunk.text for chunk in chunks] == ["One two.", "Three!", "And the rest"]
    assert [chunk.is_final for chunk in chunks] == [False, False, True]
    assert sorted(tts.said) == sorted((chunk.text, "af", 1.5) for chunk in chunks)
    assert chunks[0].audio.size == 800
    assert chunks[0].duration_ms == pytest.approx(800 / 24)
    assert all(0 <= chunk.start_time <= chunk.end_time for chunk in chunks)
    assert all(chunk.latency_ms >= 0 for chunk in chunks)
    stats = speech.stats
    assert stats.sentences == 3
    assert stats.latencies["synthesize"].count == 3
    assert stats.latencies["first_token"].count == 1
    assert stats.latencies["synthesize"].mean_ms <= stats.latencies["synthesize"].max_ms


def test_a_sentence_is_spoken_before_the_text_has_ended() -> None:
    llm = Writer("One. Two. " + "x" * 300, step=1)
    chunks = LLMToTTSPipeline(llm, Voice()).generate_speech("go")
    real = llm.generate_stream
    heard = threading.Event()

    def pausing(prompt: Any, **options: Any) -> Iterator[str]:
        for at, piece in enumerate(real(prompt, **options)):
            assert at < 20 or heard.wait(60)
            yield piece

    llm.generate_stream = pausing  # type: ignore[method-assign]
    assert next(chunks).text == "One."
    assert next(chunks).text == "Two."
    assert llm.written <= 20
    heard.set()
    assert next(chunks).is_final


def test_one_chunk_without_sentences() -> None:
    speech = LLMToTTSPipeline(Writer("One. Two."), Voice())
    assert [c.text for c in speech.generate_speech("go", stream_sentences=False)] == ["One. Two."]
    assert [c.text for c in speech.synthesize_text("Ah. So.")] == ["Ah.", "So."]
    assert list(speech.synthesize_text(" ")) == []


def test_a_tokenizer_of_bytes() -> None:
    class Bytes:
        def encode(self, text: str) -> list[int]:
            return list(text.encode())

        def decode(self, ids: list[int]) -> str:
            return bytes(ids).decode(errors="replace")

    class Ids:
        def generate_stream(self, ids: list[int], **options: Any) -> Iterator[int]:
            assert ids == [104, 105]
            yield from "h\u00e9 \u20ac.".encode()

    spoken = list(LLMToTTSPipeline(Ids(), Voice(), Bytes()).generate_speech("hi"))
    assert [chunk.text for chunk in spoken] == ["h\u00e9 \u20ac."]

    class ByteFallback(Bytes):
        """One mark for each byte of a character that is not whole, as SentencePiece has it."""

        def decode(self, ids: list[int]) -> str:
            text = bytes(ids)
            for left in range(4):
                with contextlib.suppress(UnicodeDecodeError):
                    return text[: len(text) - left].decode() + left * "\ufffd"
            raise AssertionError

    spoken = list(LLMToTTSPipeline(Ids(), Voice(), ByteFallback()).generate_speech("hi"))
    assert [chunk.text for chunk in spoken] == ["h\u00e9 \u20ac."]


def test_callbacks() -> None:
    log: list[Any] = []

    class Log(StreamingTTSCallback):
        def on_text(self, text: str) -> None:
            log.append(text)

        def on_audio(self, chunk: TTSChunk) -> None:
            log.append(chunk)

        def on_complete(self, stats: Any) -> None:
            log.append(stats)

        def on_error(self, error: BaseException) -> None:
            log.append(error)

    LLMToTTSPipeline(Writer("A b."), Voice()).generate_speech_with_callback("go", Log())
    assert "".join(x for x in log if isinstance(x, str)) == "A b."
    assert isinstance(log[-1], pipeline.PipelineStats)
    broken = LLMToTTSPipeline(Writer("Fine. boom."), Voice())
    with pytest.raises(RuntimeError, match="no voice"):
        broken.generate_speech_with_callback("go", Log())
    assert isinstance(log[-1], RuntimeError)
    with pytest.raises(TypeError, match="unknown option 'top'"):
        broken.generate_speech_with_callback("go", Log(), top=1)


def test_errors_of_the_model_are_raised() -> None:
    class Broken:
        def generate_stream(self, prompt: Any, **options: Any) -> Iterator[str]:
            yield "A"
            raise ValueError("out of words")

    with pytest.raises(ValueError, match="out of words"):
        list(LLMToTTSPipeline(Broken(), Voice()).generate_speech("go"))


def test_closing_stops_the_model() -> None:
    class Endless(Writer):
        def generate_stream(self, prompt: Any, **options: Any) -> Iterator[str]:
            try:
                yield from itertools.repeat("word. ")
            finally:
                self.gate.set()

    llm = Endless("")
    llm.gate.clear()
    chunks = LLMToTTSPipeline(llm, Voice()).generate_speech("go")
    next(chunks)
    chunks.close()  # type: ignore[attr-defined]
    assert llm.gate.wait(10)


def test_wrong_stages() -> None:
    with pytest.raises(TypeError, match=r"llm is of type int, expected .* generate_stream"):
        LLMToTTSPipeline(1, Voice())
    with pytest.raises(TypeError, match=r"tts is of type str, expected .* synthesize"):
        LLMToTTSPipeline(Writer(""), "voice")
    with pytest.raises(ValueError, match="speed is 0"):
        LLMToTTSPipeline(Writer(""), Voice(), speed=0)
    speech = LLMToTTSPipeline(Writer(""), Voice())
    with pytest.raises(TypeError, match="prompt is of type int"):
        speech.generate_speech(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="text is of type bytes"):
        speech.synthesize_text(b"")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"asr is of type int, expected .* transcribe"):
        VoicePipeline(1, Writer(""), Voice())


# --- Conversations ---------------------------------------------------------------------------


def test_two_turns() -> None:
    log, ear, llm = Log(), Ear(" hello ", "and you?"), Chatter("Hi. I am fine.")
    voice = VoicePipeline(ear, llm, Voice(), callback=log, system_prompt="Be kind.")
    assert voice.state is PipelineState.IDLE
    assert not voice.interrupt()
    with voice:
        for _ in range(2):
            for at in range(0, UTTERANCE.size, 1600):
                voice.process_audio(UTTERANCE[at : at + 1600])
            voice.wait(10)
        assert voice.state is PipelineState.LISTENING
    reply = ["said Hi.", "said I am fine."]
    assert log.events == ["heard hello", *reply, "heard and you?", *reply]
    S = PipelineState
    turn = [S.LISTENING, S.TRANSCRIBING, S.GENERATING, S.SPEAKING]
    assert log.states == [*turn, *turn, S.LISTENING, S.IDLE]
    roles = [message["role"] for message in llm.prompts[1]]
    assert roles == ["system", "user", "assistant", "user"]
    assert llm.prompts[1][2]["content"] == "Hi. I am fine."
    assert [t.user_text for t in voice.history] == ["hello", "and you?"]
    assert voice.history[0].latencies_ms["response"] > 0
    stats = voice.stats
    assert (stats.turns, stats.interruptions, stats.errors) == (2, 0, 0)
    assert stats.latencies["transcribe"].count == stats.latencies["response"].count == 2


def test_speech_interrupts_the_reply() -> None:
    log = Log()
    log.play.clear()
    voice = VoicePipeline(Ear("go", "stop"), Chatter("One. Two. Three."), Voice(), callback=log)
    with voice:
        voice.process_audio(UTTERANCE)
        assert log.playing.wait(10)
        assert voice.state is PipelineState.SPEAKING
        voice.process_audio(UTTERANCE)  # somebody speaks
        log.play.set()
        voice.wait(10)
    assert log.events[:3] == ["heard go", "said One.", "interrupted"]
    assert [t.interrupted for t in voice.history] == [True, False]
    assert voice.history[0].assistant_text == "One."
    assert voice.stats.interruptions == 1


def test_not_interruptible() -> None:
    log = Log()
    log.play.clear()
    ear = Ear("go", "stop")
    voice = VoicePipeline(ear, Chatter("One. Two."), Voice(), callback=log, interruptible=False)
    with voice:
        voice.process_audio(UTTERANCE)
        assert log.playing.wait(10)
        voice.process_audio(UTTERANCE)
        log.play.set()
        voice.wait(10)
    assert log.events.count("said Two.") == 2


def test_errors_end_a_turn_and_not_the_pipeline() -> None:
    log = Log()
    llm = Chatter("boom.")
    voice = VoicePipeline(Ear("a", "b"), llm, Voice(), callback=log)
    with voice:
        voice.process_audio(UTTERANCE)
        with pytest.raises(RuntimeError, match="no voice"):
            voice.wait(10)
        assert voice.state is PipelineState.LISTENING
        llm.text = "Better."
        voice.process_audio(UTTERANCE)
        voice.wait(10)
    assert log.events == ["heard a", "failed: no voice for it", "heard b", "said Better."]
    assert voice.stats.errors == 1


def test_silence_is_not_answered_and_the_end_of_sound_is() -> None:
    llm = Chatter("x.")
    voice = VoicePipeline(Ear("  ", "b"), llm, Voice())
    with voice:
        voice.process_audio(UTTERANCE)
        voice.wait(10)
        assert voice.history == []
        voice.process_audio(sound((0.5, 0.1)))
        voice.finish()
        voice.wait(10)
    assert [t.user_text for t in voice.history] == ["b"]


def test_stop_drops_what_waits() -> None:
    log = Log()
    log.play.clear()
    ear = Ear("a", "b", "c")
    voice = VoicePipeline(ear, Writer("One. Two. Three."), Voice(), callback=log)
    voice.start()
    with pytest.raises(RuntimeError, match="has been started"):
        voice.start()
    for _ in range(3):
        voice.process_audio(UTTERANCE)
    assert log.playing.wait(10)
    stopper = threading.Thread(target=voice.stop)
    stopper.start()
    log.play.set()
    stopper.join(10)
    assert voice.state is PipelineState.IDLE
    assert len(ear.texts) >= 1
    voice.wait(1)
    for call in (lambda: voice.process_audio(UTTERANCE), voice.finish):
        with pytest.raises(RuntimeError, match="not started"):
            call()
    voice.stop()


def test_a_reply_that_takes_too_long() -> None:
    llm = Chatter("One.")
    llm.gate.clear()
    with VoicePipeline(Ear("a"), llm, Voice()) as voice:
        voice.process_audio(UTTERANCE)
        with pytest.raises(TimeoutError, match=r"within 0\.05 s"):
            voice.wait(0.05)
        llm.gate.set()
        voice.wait(10)


def test_stages_have_classes_of_service() -> None:
    seen: dict[str, tuple[str, bool]] = {}

    class Looking(Voice):
        def synthesize(self, text: str, voice: Any = None, speed: float = 1.0) -> Any:
            task = gp.scheduler.current_task()
            assert task is not None
            seen["synthesize"] = (task.name, task.info().qos == gp.scheduler.QosClass.Guaranteed)
            return super().synthesize(text, voice, speed)

    with gp.scheduler.Scheduler(workers=2) as scheduler:
        speech = LLMToTTSPipeline(Writer("One."), Looking(), scheduler=scheduler)
        assert [chunk.text for chunk in speech.generate_speech("go")] == ["One."]
        assert speech.stats.sentences == 1
    assert seen["synthesize"] == ("synthesize", True)


def test_tiny_model_speaks() -> None:
    """The repository's language model, in the pipeline as it is."""
    pytest.importorskip("tokenizers")
    model = gp.llm.load("tests/data/tiny-qwen3-1m", "float32", max_length=128)
    speech = LLMToTTSPipeline(model, Voice())
    chunks = list(speech.generate_speech("In the beginning", max_new_tokens=12, temperature=0.0))
    text = str(model.generate("In the beginning", max_new_tokens=12, temperature=0.0, top_p=0.9))
    assert " ".join(chunk.text for chunk in chunks).split() == text.split()


def test_every_name_is_documented() -> None:
    assert gp.pipeline is pipeline
    for name in pipeline.__all__:
        assert (getattr(pipeline, name).__doc__ or "").strip(), name

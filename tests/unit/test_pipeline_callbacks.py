"""Callbacks of a voice pipeline that fail, or wait for what waits for them."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from cases.pipeline import UTTERANCE, Chatter, Ear, Log, Voice

import pygpukit as gp
from pygpukit.pipeline import PipelineState, VoicePipeline


def raiser(words: str) -> Any:
    def call(*_: object) -> None:
        raise RuntimeError(words)

    return call


def test_a_callback_that_fails_at_an_error() -> None:
    llm, log = Chatter("boom."), Log()
    log.on_error = raiser("on_error")  # type: ignore[method-assign]
    with VoicePipeline(Ear("a", "b"), llm, Voice(), callback=log) as voice:
        voice.process_audio(UTTERANCE)
        with pytest.raises(RuntimeError, match="no voice"):
            voice.wait(10)
        llm.text = "Better."
        voice.process_audio(UTTERANCE)
        voice.wait(10)
        assert voice.state is PipelineState.LISTENING
    assert log.events == ["heard a", "heard b", "said Better."]


def test_a_callback_that_fails_when_a_turn_has_ended() -> None:
    class Once(Log):
        def on_state(self, state: PipelineState) -> None:
            super().on_state(state)
            if self.states.count(PipelineState.LISTENING) == 2 and state is self.states[0]:
                raise RuntimeError("on_state")

    log = Once()
    with VoicePipeline(Ear("a", "b"), Chatter("Yes."), Voice(), callback=log) as voice:
        voice.process_audio(UTTERANCE)
        with pytest.raises(RuntimeError, match="on_state"):
            voice.wait(10)
        voice.process_audio(UTTERANCE)
        voice.wait(10)
    assert [turn.user_text for turn in voice.history] == ["a", "b"]


def test_a_callback_that_fails_at_the_start() -> None:
    log = Log()
    voice = VoicePipeline(Ear("a"), Chatter("Yes."), Voice(), callback=log)
    log.on_state = raiser("on_state")  # type: ignore[method-assign]
    with pytest.raises(RuntimeError, match="on_state"):
        voice.start()
    assert voice.state is PipelineState.IDLE
    voice.stop()
    del log.on_state
    with voice:
        voice.process_audio(UTTERANCE)
        voice.wait(10)
    assert len(voice.history) == 1


def test_a_callback_that_fails_when_somebody_speaks() -> None:
    """What was said is answered, and interrupts, all the same."""
    log = Log()
    log.play.clear()
    log.on_speech_start = raiser("on_speech_start")  # type: ignore[method-assign]
    llm = Chatter("One. Two. Three.")
    with VoicePipeline(Ear("go", "stop"), llm, Voice(), callback=log) as voice:
        for _ in range(2):
            with pytest.raises(RuntimeError, match="on_speech_start"):
                voice.process_audio(UTTERANCE)
            assert log.playing.wait(10)
        log.play.set()
        voice.wait(10)
    assert [turn.interrupted for turn in voice.history] == [True, False]


@pytest.mark.parametrize("method", ["stop", "wait"])
def test_a_callback_does_not_wait_for_itself(method: str) -> None:
    log = Log()
    voice = VoicePipeline(Ear("a", "b"), Chatter("Yes."), Voice(), callback=log)
    log.on_transcription = lambda _: getattr(voice, method)()  # type: ignore[method-assign]
    with voice:
        voice.process_audio(UTTERANCE)
        with pytest.raises(gp.PyGPUkitError, match=f"VoicePipeline.{method}: called by a callba"):
            voice.wait(10)
        del log.on_transcription
        voice.process_audio(UTTERANCE)
        voice.wait(10)
    assert len(voice.history) == 1


def test_a_new_start_has_no_old_error() -> None:
    llm = Chatter("boom.")
    voice = VoicePipeline(Ear("a"), llm, Voice(), callback=(log := Log()))
    failed = threading.Event()
    log.on_error = lambda _: failed.set()  # type: ignore[method-assign]
    with voice:
        voice.process_audio(UTTERANCE)
        assert failed.wait(10)
    with voice:
        voice.wait(10)

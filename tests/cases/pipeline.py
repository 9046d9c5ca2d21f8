"""What the tests of gp.pipeline share: models that write, speak and hear given texts."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np

from pygpukit.pipeline import PipelineState, TTSChunk, VoicePipelineCallback

RATE = 16000


class Writer:
    """A language model that writes a given text, a few characters at a time."""

    def __init__(self, text: str, step: int = 3) -> None:
        self.text, self.step = text, step
        self.prompts: list[Any] = []
        self.written = 0
        self.gate = threading.Event()
        self.gate.set()

    def generate_stream(self, prompt: Any, **options: Any) -> Iterator[str]:
        self.prompts.append(prompt)
        assert options["max_new_tokens"] > 0
        for at in range(0, len(self.text), self.step):
            assert self.gate.wait(10)
            self.written = at
            yield self.text[at : at + self.step]


class Chatter(Writer):
    def chat(self, messages: list[dict[str, str]], **options: Any) -> Iterator[str]:
        return self.generate_stream(messages, **options)


class Voice:
    """100 samples a character; says "boom" by failing."""

    def __init__(self) -> None:
        self.said: list[tuple[str, Any, float]] = []

    def synthesize(self, text: str, voice: Any = None, speed: float = 1.0) -> Any:
        if "boom" in text:
            raise RuntimeError("no voice for it")
        self.said.append((text, voice, speed))
        samples = np.full(100 * len(text), 0.5, np.float32)
        return SimpleNamespace(
            to_numpy=lambda: samples, audio=SimpleNamespace(sample_rate=24000), text=text
        )


class Ear:
    def __init__(self, *texts: str) -> None:
        self.texts = list(texts)
        self.heard: list[int] = []

    def transcribe(self, audio: Any, sample_rate: int, language: Any) -> Any:
        assert sample_rate == RATE
        self.heard.append(audio.size)
        return SimpleNamespace(text=self.texts.pop(0))


class Log(VoicePipelineCallback):
    def __init__(self) -> None:
        self.states: list[PipelineState] = []
        self.events: list[str] = []
        self.playing = threading.Event()
        self.play = threading.Event()
        self.play.set()

    def on_state(self, state: PipelineState) -> None:
        self.states.append(state)

    def on_transcription(self, text: str) -> None:
        self.events.append(f"heard {text}")

    def on_audio(self, chunk: TTSChunk) -> None:
        self.playing.set()
        assert self.play.wait(10)
        self.events.append(f"said {chunk.text}")

    def on_interrupt(self) -> None:
        self.events.append("interrupted")

    def on_error(self, error: BaseException) -> None:
        self.events.append(f"failed: {error}")


def sound(*parts: tuple[float, float]) -> np.ndarray[Any, Any]:
    """(seconds, level) after each other."""
    return np.concatenate([np.full(round(s * RATE), level, np.float32) for s, level in parts])


UTTERANCE = sound((0.2, 0.0), (0.5, 0.1), (0.8, 0.0))

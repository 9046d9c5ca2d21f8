"""Every function of gp.ops.audio with hostile arguments: it works, or raises one of our errors."""

from __future__ import annotations

import inspect
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases.audio_signals import noise

import pygpukit as gp
from pygpukit.ops import audio

NUMBERS = (None, True, 0, 1, 2, -1, 7, 64, 2**31, 2**63, 1.5, -0.5, float("nan"), 1e300)
WORDS = ("hann", "slaney", "reflect", "x", "", b"ab", [], [1, 2], (1, 2, 3), {}, 1j, object())
SIGNALS = {"a", "audio", "x", "spec", "mag", "s", "envelope", "features", "log_mel", "mel"}
CALLS = 25  # of each function


def hostile(rng: random.Random) -> Any:
    arrays = (
        noise(50),
        noise(120).reshape(3, 40),
        noise(0),
        noise(60).reshape(5, 6, 2),
        np.ones((4, 5), "c8"),
        np.ones(7, "i2"),
        np.ones((), "f4"),
        np.array([np.nan, 1, np.inf], "f4"),
        np.ones(9),
    )
    buffer = audio.AudioBuffer(gp.from_numpy(noise(100)), 16000, rng.choice((1, 2)))
    chosen = rng.choice((*NUMBERS, *WORDS, *arrays, buffer, None))
    if rng.random() < 0.1:
        return np.ones(3)
    return gp.from_numpy(chosen) if isinstance(chosen, np.ndarray) else chosen


@pytest.fixture(autouse=True)
def _limit() -> Iterator[None]:
    """What asks for gigabytes is refused instead of written."""
    gp.memory.set_limit("1GiB")
    yield
    gp.memory.set_limit(None)


@pytest.mark.parametrize("name", [name for name in audio.__all__ if "cqt" not in name])
def test_hostile_arguments(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rng = random.Random(name)
    function: Any = getattr(audio, name)
    for _ in range(CALLS):
        given: dict[str, Any] = {}
        for parameter in inspect.signature(function).parameters.values():
            if parameter.default is not parameter.empty and rng.random() < 0.6:
                continue
            given[parameter.name] = hostile(rng)
            if parameter.name in SIGNALS and rng.random() < 0.6:
                given[parameter.name] = gp.from_numpy(np.abs(noise(54)).reshape(6, 9))
        if "n_iter" in given:
            given["n_iter"] = 2
        try:
            function(**given)
        except (gp.PyGPUkitError, MemoryError, OSError):
            continue

"""A long recording through Whisper with random weights: cut at pauses, many pieces at a time.

The sound is noise in bursts of 2 to 14 s with pauses between them, cut and packed as speech is.
Random weights end no text: every piece takes the same number of tokens, as many as half a minute of
speech has. Detecting pauses, spectra, encoder and decode steps are timed together, by the host's
clock; segments come out, but say nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pygpukit import _native
from pygpukit.asr.batched import cut_at_pauses, find_speech, transcribe_pieces
from pygpukit.asr.options import TranscribeOptions
from pygpukit.asr.preprocessing import WHISPER_HOP_LENGTH, WHISPER_SAMPLE_RATE
from pygpukit.asr.window_decoder import WindowDecoder
from pygpukit.benchmark.measure import measure_kernel
from pygpukit.benchmark.report import OURS
from pygpukit.random import default_rng

if TYPE_CHECKING:
    from pygpukit._native import GPUArray
    from pygpukit.asr.config import WhisperConfig
    from pygpukit.benchmark.session import Session

SECONDS = 3600
SECONDS_ON_CPU = 12
TOKENS = 100  # of a piece: 30 s of speech have 80 to 130
BATCH = 16
SAMPLES = 2


class _Ids:
    """What WindowDecoder asks of a folder's tokens: ids that say themselves, and no end."""

    start, eos, no_timestamps, first_timestamp = 1, 0, 3, 2**30
    previous = no_speech = None
    suppressed = (0,)
    begin_suppressed: tuple[int, ...] = ()
    max_initial_timestamp = -1
    is_multilingual = False
    languages: dict[str, int] = {}  # noqa: RUF012
    alignment_heads: tuple[tuple[int, int], ...] = ()

    def prompt(self, language: str | None, task: str, *, timestamps: bool) -> list[int]:
        return [1, 2, 3, 4]

    def context(self, ids: Sequence[int], most: int) -> list[int]:
        return []

    def is_text(self, token: int) -> bool:
        return True

    def text(self, ids: Iterable[int]) -> str:
        return " ".join(map(str, ids))


def bursts(seconds: int, rate: int = WHISPER_SAMPLE_RATE, longest: float = 14.0) -> GPUArray:
    """Noise with pauses; the same in every run."""
    rng = np.random.default_rng(11)
    levels = np.zeros(seconds * 100, np.float32)  # of hundredths of a second
    at = 50
    while at < levels.size:
        end = at + int(100 * rng.uniform(longest / 7, longest))
        levels[at:end] = rng.uniform(0.05, 0.3)
        at = end + int(100 * rng.uniform(0.2, 3.0))
    loud = _native.repeat(_native.from_numpy(levels), rate // 100, 0)
    noise = default_rng(12).standard_normal((seconds * rate,), dtype="float32")
    return _native.multiply(noise, loud)


def add_long(session: Session, name: str, config: WhisperConfig, model: Any) -> None:
    """The rows of one model."""
    seconds = SECONDS if session.on_gpu else SECONDS_ON_CPU
    tokens = min(TOKENS, config.max_target_positions - 8)
    session.step(f"asr: {name}: {seconds} s of sound, {BATCH} pieces at a time")
    window = 2 * config.max_source_positions * WHISPER_HOP_LENGTH
    sound = bursts(seconds, longest=14.0 if session.on_gpu else window / WHISPER_SAMPLE_RATE)
    decoder = WindowDecoder(model, config, _Ids(), max_batch=BATCH, max_beams=1)  # type: ignore[arg-type]
    options = TranscribeOptions(
        timestamps=False,
        max_new_tokens=tokens,
        compression_ratio_threshold=None,
        logprob_threshold=None,
        no_speech_threshold=None,
    )

    def transcribe() -> object:
        return list(transcribe_pieces(decoder, sound, options, None))

    # One pass ahead: the last batch is a smaller one, with a graph of its own.
    stats = measure_kernel(transcribe, 1, SAMPLES, _native.synchronize)
    pieces = cut_at_pauses(find_speech(sound), sound.shape[0], window)
    session.add(
        "asr",
        "long",
        OURS,
        stats,
        SAMPLES,
        params={"model": name, "batch": BATCH, "seconds": seconds, "tokens_per_piece": tokens},
        extra={"times_real_time": seconds * 1e6 / stats.median, "pieces": len(pieces)},
    )


__all__ = ["add_long", "bursts"]

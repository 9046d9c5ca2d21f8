"""Interleaved timing of implementations, so that clocks and temperature affect all alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

from pygpukit import _native
from pygpukit.benchmark.measure import Stats, Step, summarize

Sampler = Callable[[Step, int], float]  # runs a step that many times: microseconds of one

MIN_SAMPLE_US = 1000.0
MAX_SETTLING_ROUNDS = 20
SETTLED = 0.01  # rounds that differ by less have settled clocks


def events_sampler() -> Sampler:
    """By CUDA events on the default stream, which all implementations share."""
    stream = _native.default_stream()
    start, stop = _native.CudaEvent(), _native.CudaEvent()

    def sample(step: Step, steps: int) -> float:
        start.record(stream)
        for _ in range(steps):
            step()
        stop.record(stream)
        stop.synchronize()
        return float(_native.event_elapsed_us(start, stop)) / steps

    return sample


def host_sampler(clock: Callable[[], float] = time.perf_counter) -> Sampler:
    """By the host clock, for synchronous work."""

    def sample(step: Step, steps: int) -> float:
        begin = clock()
        for _ in range(steps):
            step()
        return (clock() - begin) * 1e6 / steps

    return sample


def measure_in_turn(
    steps: Sequence[Step],
    sample: Sampler,
    warmup: int,
    iterations: int,
    min_sample_us: float = MIN_SAMPLE_US,
    max_settling: int = MAX_SETTLING_ROUNDS,
) -> list[Stats]:
    """Microseconds of each step. A round has one sample of each, in rotating order.

    Rounds before the clocks have settled (two in a row agree; at least `warmup`, at most
    `max_settling`) are discarded.
    """
    counts = []
    for step in steps:
        step()
        guess = sample(step, 1)
        counts.append(max(1, min(1000, round(min_sample_us / max(guess, 0.1)))))

    def one_round(first: int) -> list[float]:
        samples = [0.0] * len(steps)
        for i in range(len(steps)):
            at = (first + i) % len(steps)
            samples[at] = sample(steps[at], counts[at])
        return samples

    before: list[float] | None = None
    for settling in range(max(warmup, max_settling)):
        now = one_round(settling)
        if settling + 1 >= warmup and before is not None and _agree(before, now):
            break
        before = now
    rounds = [one_round(first) for first in range(iterations)]
    return [summarize([samples[i] for samples in rounds]) for i in range(len(steps))]


def _agree(before: Sequence[float], now: Sequence[float]) -> bool:
    return all(abs(a - b) <= SETTLED * max(a, b) for a, b in zip(before, now, strict=True))


def geometric_mean(ratios: Sequence[float]) -> float:
    """Of positive numbers; 1 of none."""
    return statistics.geometric_mean(ratios) if ratios else 1.0

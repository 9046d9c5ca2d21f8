"""Timing: host time, cost of a call, and GPU time."""

from __future__ import annotations

import statistics
import time
import timeit
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pygpukit import _native

Step = Callable[[], object]
Clock = Callable[[], float]


class Stats(NamedTuple):
    """Microseconds."""

    median: float
    min: float
    max: float
    std: float


def summarize(samples_us: Sequence[float]) -> Stats:
    """Median, extremes and standard deviation of the samples."""
    return Stats(
        statistics.median(samples_us),
        min(samples_us),
        max(samples_us),
        statistics.pstdev(samples_us),
    )


def measure_kernel(
    fn: Step,
    warmup: int = 10,
    iterations: int = 50,
    sync_fn: Step | None = None,
    *,
    clock: Clock = time.perf_counter,
) -> Stats:
    """Times single calls of `fn` with the host clock; `sync_fn` waits for their work.

    Returns (median, min, max, std) in microseconds.
    """
    if iterations < 1:
        raise ValueError(f"measure_kernel: iterations is {iterations}, expected at least 1")
    sync = sync_fn if sync_fn is not None else _nothing
    for _ in range(warmup):
        fn()
    samples = []
    for _ in range(iterations):
        sync()
        start = clock()
        fn()
        sync()
        samples.append((clock() - start) * 1e6)
    return summarize(samples)


def _nothing() -> None:
    pass


class CallCost:
    """Host cost of one call, without waiting for its work.

    The statement is compiled into the loop, so that no wrapper is timed with it. The launch queue
    is drained between chunks, outside the timed part: a full queue would block the host
    on the GPU.
    """

    def __init__(
        self,
        statement: str,
        namespace: dict[str, Any],
        sync: Step,
        *,
        calls: int = 5000,
        chunk: int = 500,
        clock: Clock = time.perf_counter,
    ) -> None:
        self._timer = timeit.Timer(statement, globals=namespace, timer=clock)
        self._sync = sync
        self._chunk = min(chunk, calls)
        self._num_chunks = max(1, calls // self._chunk)
        self.calls = self._chunk * self._num_chunks

    def sample(self) -> float:
        """Mean microseconds over all calls of one loop."""
        total = 0.0
        for _ in range(self._num_chunks):
            self._sync()
            total += self._timer.timeit(self._chunk)
        self._sync()
        return total / self.calls * 1e6


def measure_events(step: Step, warmup: int, iterations: int, min_sample_us: float = 500.0) -> Stats:
    """GPU time of one `step`, by CUDA events on the default stream.

    One sample spans as many steps as fill `min_sample_us`. Peers are timed by the same events:
    they share the context and the default stream.
    """
    stream = _native.default_stream()
    start, stop = _native.CudaEvent(), _native.CudaEvent()

    def sample(steps: int) -> float:
        start.record(stream)
        for _ in range(steps):
            step()
        stop.record(stream)
        stop.synchronize()
        return _native.event_elapsed_us(start, stop) / steps

    for _ in range(max(1, warmup)):
        step()
    _native.synchronize()
    guess = sample(max(1, min(warmup, 10)))
    steps = max(1, min(500, round(min_sample_us / max(guess, 0.1))))
    return summarize([sample(steps) for _ in range(iterations)])


def measure_step(step: Step, warmup: int, iterations: int, *, on_gpu: bool) -> Stats:
    """Events on a GPU; the host clock for synchronous work."""
    if on_gpu:
        return measure_events(step, warmup, iterations)
    return measure_kernel(step, warmup, iterations)

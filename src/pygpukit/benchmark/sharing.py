"""Sharing one GPU: foreground latency under a saturating background load, compute splits.

Foreground requests of GEMMs and small kernels arrive at a fifth of the rate that could
be served; the background never stops. Latencies count from a request's scheduled arrival.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pygpukit as gp
from pygpukit import _native
from pygpukit.benchmark.measure import summarize
from pygpukit.benchmark.report import OURS
from pygpukit.benchmark.session import Session
from pygpukit.scheduler.partition import DevicePartition, partition

LOAD = 0.2
REQUEST_S = 0.001  # about what one request takes alone
WINDOW_S = 0.1  # shares are measured over windows of this length

BUSY = r"""
extern "C" __global__ void busy(float* out, int rounds) {
  float x = threadIdx.x * 1e-3f;
  for (int i = 0; i < rounds; ++i) x = fmaf(x, 0.999f, 0.001f);
  if (x == 123.0f) out[0] = x;
}
"""


def run(session: Session) -> None:
    """Runs the suite."""
    if not session.on_gpu:
        session.note("sharing needs a GPU: on CPU simulation work is done when the call returns")
        return
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)  # both sides are threads of one interpreter
    try:
        _latency(session)
        if session.jit_works:
            for shares in ((0.75, 0.25), (0.5, 0.25, 0.25)):
                _split(session, shares)
        else:
            session.note("compute splits are measured with a custom kernel, which needs NVRTC")
        _quota(session)
    finally:
        sys.setswitchinterval(interval)


# --- Latency --------------------------------------------------------------------------------------


class Foreground:
    """One request: layers of a GEMM and three small kernels."""

    def __init__(self) -> None:
        side = 1024
        self._weight = gp.random.default_rng(1).standard_normal((side, side), dtype="float32") * (
            1 / side
        )
        self._input = gp.ones((side, side))
        self._layers = 1
        for _ in range(3):
            self.request()
        gp.synchronize()
        start = time.perf_counter()
        for _ in range(20):
            self.request()
        gp.synchronize()
        self._layers = max(1, round(REQUEST_S / ((time.perf_counter() - start) / 20)))

    def request(self) -> Any:
        """Submits one; the result depends on all of its kernels."""
        x = self._input
        for _ in range(self._layers):
            x = gp.matmul(x, self._weight)
            x = gp.sin(x)
            x = x + 0.5
            x = x * 0.25
        return x


class Background:
    """Endless work in another thread, until stopped."""

    def __init__(self) -> None:
        self._a = gp.full((2048, 2048), 1 / 2048)
        self._x = gp.linspace(0.0, 1.0, 1 << 24, dtype="float32")
        self.steps = 0
        self.seconds = 0.0
        self.result: Any = None

    def step(self) -> Any:
        """A GEMM and an elementwise kernel."""
        y = gp.matmul(self._a, self._a)
        return y, gp.exp(self._x)

    def loop(self, stop: threading.Event, inside: Callable[[], Any]) -> None:
        """Runs until `stop`, counting completed steps."""
        with inside():
            stream = gp.current_stream()
            start = time.perf_counter()
            while not stop.is_set():
                for _ in range(8):
                    self.result = self.step()
                self.steps += 8
            stream.synchronize()
            self.seconds = time.perf_counter() - start

    @property
    def rate(self) -> float:
        """Steps per second."""
        return self.steps / self.seconds if self.seconds else 0.0


@contextmanager
def _running(background: Background, inside: Callable[[], Any]) -> Iterator[None]:
    stop = threading.Event()
    thread = threading.Thread(target=background.loop, args=(stop, inside))
    background.steps, background.seconds = 0, 0.0
    thread.start()
    try:
        time.sleep(0.1)
        yield
    finally:
        stop.set()
        thread.join()


def _serve(foreground: Foreground, count: int, inside: Callable[[], Any], alone_s: float) -> Any:
    """Latencies in microseconds of requests at LOAD, and the last result."""
    gap = alone_s / LOAD
    latencies = []
    with inside():
        stream = gp.current_stream()
        result = foreground.request()
        stream.synchronize()
        due = time.perf_counter()
        for _ in range(count):
            due += gap
            while time.perf_counter() < due:
                time.sleep(max(0.0, min(2e-4, due - time.perf_counter() - 1e-4)))
            result = foreground.request()
            stream.synchronize()
            now = time.perf_counter()
            latencies.append((now - due) * 1e6)
            due = max(due, now - gap)  # after a stall the backlog does not grow without bound
        return latencies, result.to_numpy()


def _percentiles(samples: list[float]) -> list[float]:
    import numpy as np

    return [float(np.percentile(samples, p)) for p in (50, 99, 99.9)]


def _latency(session: Session) -> None:
    import numpy as np

    session.step("sharing: warm-up")
    foreground, background = Foreground(), Background()
    plain = [gp.Stream(), gp.Stream()]
    count = 200 if session.quick else 1000
    gp.synchronize()
    alone_s = _request_time(foreground, plain[0])

    session.step("sharing: foreground alone")
    alone, expected = _serve(foreground, count, lambda: plain[0], alone_s)
    session.step("sharing: background alone")
    with _running(background, lambda: plain[1]):
        time.sleep(0.5 if session.quick else 1.0)
    alone_rate = background.rate
    wanted = [part.to_numpy() for part in background.result]

    runs: dict[str, tuple[list[float], float]] = {}
    same = True

    def measure(name: str, front: Callable[[], Any], back: Callable[[], Any]) -> None:
        nonlocal same
        session.step(f"sharing: {name}")
        with _running(background, back):
            latencies, result = _serve(foreground, count, front, alone_s)
        same = same and np.array_equal(result, expected)
        got = [part.to_numpy() for part in background.result]
        same = same and all(np.array_equal(a, b) for a, b in zip(got, wanted, strict=True))
        runs[name] = latencies, background.rate

    measure("without qos", lambda: plain[0], lambda: plain[1])
    with _partitions(("front", None, "guaranteed"), ("back", None, "best_effort")) as (front, back):
        measure("with qos", lambda: front, lambda: back)
        session.note(f"best effort: {_gate_text(back)}")
        background.result = None

    base = _percentiles(alone)
    session.note(f"foreground alone: P50 {base[0]:.0f}, P99 {base[1]:.0f}, P99.9 {base[2]:.0f} us")
    used = alone_s / (alone_s / LOAD)
    _add_latencies(session, "alone", alone, same)
    for name, (latencies, rate) in runs.items():
        _add_latencies(session, name, latencies, same)
        now = _percentiles(latencies)
        ratios = ", ".join(
            f"{label} {value:.0f} us ({value / reference:.2f}x)"
            for label, value, reference in zip(("P50", "P99", "P99.9"), now, base, strict=True)
        )
        kept = rate / (alone_rate * (1 - used))
        session.note(f"foreground {name}: {ratios}; background keeps {kept:.0%} of what is left")
    session.note(f"results are {'bit-identical' if same else 'NOT the same'} with and without")


def _request_time(foreground: Foreground, stream: Any) -> float:
    import statistics

    samples = []
    with stream:
        for _ in range(30):
            start = time.perf_counter()
            foreground.request()
            stream.synchronize()
            samples.append(time.perf_counter() - start)
    return statistics.median(samples)


def _add_latencies(session: Session, name: str, samples: list[float], correct: bool) -> None:
    session.add(
        "sharing",
        f"latency {name}",
        OURS,
        summarize(samples),
        len(samples),
        params={"load": LOAD},
        correct=correct,
    )


def _gate_text(part: DevicePartition) -> str:
    report = part.report()
    return (
        f"{report.launches} launches, {report.launches_held} held for {report.held_s:.2f} s, "
        f"window {report.window_limit}, {report.window_waits} waits of {report.window_wait_s:.2f} s"
    )


@contextmanager
def _partitions(*wanted: tuple[str, float | None, str]) -> Iterator[list[DevicePartition]]:
    made = [partition(name, compute=compute, qos=qos) for name, compute, qos in wanted]
    try:
        yield made
    finally:
        for part in made:
            part.close()


# --- Compute splits -------------------------------------------------------------------------------


def _split(session: Session, shares: tuple[float, ...]) -> None:
    """All parts run the same kernels; their rates are compared with the shares."""
    import numpy as np

    text = "/".join(f"{share * 100:g}" for share in shares)
    session.step(f"sharing: split {text}")
    kernel = gp.jit(BUSY, "busy")
    sms = _native.device_traits()["multiprocessor_count"]
    out = gp.zeros(1)
    seconds = 0.6 if session.quick else 1.5
    ends: list[list[float]] = [[] for _ in shares]
    barrier = threading.Barrier(len(shares) + 1)
    stop = threading.Event()

    def work(index: int, part: DevicePartition) -> None:
        with part:
            stream = gp.current_stream()
            launch = kernel.bind(out, 2000, grid=(sms * 64,), block=(128,), stream=stream)
            launch()
            stream.synchronize()
            barrier.wait()
            events = [gp.CudaEvent() for _ in range(4)]
            number = 0
            while not stop.is_set():  # four in flight
                event = events[number % 4]
                if number >= 4:
                    event.synchronize()
                    ends[index].append(time.perf_counter())
                launch()
                event.record(stream)
                number += 1
            stream.synchronize()

    names = [f"part{i}" for i in range(len(shares))]
    with _partitions(
        *((n, share, "burstable") for n, share in zip(names, shares, strict=True))
    ) as parts:
        threads = [threading.Thread(target=work, args=item) for item in enumerate(parts)]
        for thread in threads:
            thread.start()
        barrier.wait()
        start = time.perf_counter()
        time.sleep(seconds)
        stop.set()
        for thread in threads:
            thread.join()
        reports = [part.report() for part in parts]
    edges = np.arange(start + WINDOW_S, start + seconds, WINDOW_S)
    counts = np.array([np.histogram(times, edges)[0] for times in ends], dtype=float)
    measured = counts.sum(axis=1) / counts.sum()
    worst = np.abs(counts / counts.sum(axis=0) - np.array(shares)[:, None]).max()
    error = float(np.abs(measured - shares).max())
    given = ", ".join(
        f"{r.given_sms} SMs" if r.given_sms else f"{r.compute.given} ({r.compute.how})"
        for r in reports
    )
    session.note(
        f"split {text}: measured {'/'.join(f'{m * 100:.1f}' for m in measured)}, error "
        f"{error * 100:.1f} % over all, {worst * 100:.1f} % in the worst 100 ms; given {given}"
    )
    session.add(
        "sharing",
        f"split {text}",
        OURS,
        summarize([seconds * 1e6 / max(1.0, counts.sum())]),
        int(counts.sum()),
        correct=True,
    )


# --- Memory ---------------------------------------------------------------------------------------


def _quota(session: Session) -> None:
    """A partition that exceeds its memory limit is refused, while its neighbour is unaffected."""
    session.step("sharing: quota")
    small = partition("small", memory="64MiB")
    neighbour = partition("neighbour", memory="1GiB")
    background = Background()
    refused = 0
    with _running(background, lambda: neighbour):
        before = background.steps
        with small:
            kept = gp.zeros(8 << 20)  # 32 MiB
            for _ in range(200):
                try:
                    gp.zeros(16 << 20)
                except MemoryError:
                    refused += 1
        time.sleep(0.1)
        went_on = background.steps - before
    background.result = None
    del kept
    session.note(
        f"quota: {refused} of 200 allocations above the limit refused, the neighbour did "
        f"{went_on} steps meanwhile"
    )
    small.close()
    neighbour.close()

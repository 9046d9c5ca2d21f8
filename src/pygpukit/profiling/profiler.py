"""GPU timing by events."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from pygpukit._native import CudaEvent, current_stream, event_elapsed_us
from pygpukit.core.errors import OperationError

if TYPE_CHECKING:
    from pygpukit._native import GPUArray


@dataclass
class KernelRecord:
    """One timing. `timestamp` is its end, in seconds since 1970."""

    name: str
    elapsed_ms: float
    elapsed_us: float
    flops: int | None = None
    bytes_transferred: int | None = None
    timestamp: float = field(default_factory=time.time)

    @property
    def tflops(self) -> float | None:
        """10**12 operations per second; None without a count or a time."""
        if self.flops is None or self.elapsed_us <= 0:
            return None
        return self.flops / self.elapsed_us / 1e6

    @property
    def bandwidth_gb_s(self) -> float | None:
        """10**9 bytes per second; None without a count or a time."""
        if self.bytes_transferred is None or self.elapsed_us <= 0:
            return None
        return self.bytes_transferred / self.elapsed_us / 1e3


class ProfilerContext:
    """Times the GPU work of a block on the current stream (host time on CPU simulation)."""

    def __init__(
        self, name: str = "kernel", flops: int | None = None, bytes_transferred: int | None = None
    ) -> None:
        self.name = name
        self.flops = flops
        self.bytes_transferred = bytes_transferred
        self.elapsed_ms = 0.0
        self.elapsed_us = 0.0
        self._timestamp = 0.0
        self._start: CudaEvent | None = None

    def __enter__(self) -> ProfilerContext:
        self._stream = current_stream()
        self._start = CudaEvent()
        self._start.record(self._stream)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._start is None:
            raise OperationError(f"Profiler: {self.name!r} ends, but was not started")
        stop = CudaEvent()
        stop.record(self._stream)
        stop.synchronize()
        self.elapsed_us = event_elapsed_us(self._start, stop)
        self.elapsed_ms = self.elapsed_us / 1000.0
        self._timestamp = time.time()
        self._start = None
        _add_to_trace(self.name, self.elapsed_us)

    @property
    def tflops(self) -> float | None:
        """10**12 operations per second; None without a count or a time."""
        return self.to_record().tflops

    @property
    def bandwidth_gb_s(self) -> float | None:
        """10**9 bytes per second; None without a count or a time."""
        return self.to_record().bandwidth_gb_s

    @property
    def bandwidth(self) -> float | None:
        """Same as bandwidth_gb_s."""
        return self.bandwidth_gb_s

    def to_record(self) -> KernelRecord:
        """The measurement as a record."""
        return KernelRecord(
            self.name,
            self.elapsed_ms,
            self.elapsed_us,
            self.flops,
            self.bytes_transferred,
            self._timestamp or time.time(),
        )


def _add_to_trace(name: str, elapsed_us: float) -> None:
    import sys

    runtime = sys.modules.get("pygpukit._runtime")  # not loaded: no trace can be on
    if runtime is not None and runtime.trace_enabled():
        lasted = int(elapsed_us * 1000)
        runtime.trace_span("kernel", name, "GPU", runtime.trace_now() - lasted, lasted)


class Profiler:
    """Keeps the records of timed blocks. `use_native` is kept for the signature."""

    def __init__(self, use_native: bool = True) -> None:
        self.use_native = use_native
        self._records: list[KernelRecord] = []

    @contextmanager
    def record(
        self, name: str, flops: int | None = None, bytes_transferred: int | None = None
    ) -> Iterator[ProfilerContext]:
        """Times a block: ``with profiler.record("gemm", flops=2 * m * n * k):``."""
        context = ProfilerContext(name, flops, bytes_transferred)
        with context:
            yield context
        self._records.append(context.to_record())

    @property
    def records(self) -> list[KernelRecord]:
        """In the order they ended."""
        return list(self._records)

    def clear(self) -> None:
        """Drops all records."""
        self._records.clear()

    @property
    def total_time_ms(self) -> float:
        """Total of all records."""
        return sum(record.elapsed_ms for record in self._records)

    def summary_by_name(self) -> dict[str, dict[str, float]]:
        """{name: {count, total_ms, avg_ms, min_ms, max_ms}}."""
        times: dict[str, list[float]] = {}
        for record in self._records:
            times.setdefault(record.name, []).append(record.elapsed_ms)
        return {
            name: {
                "count": len(all_ms),
                "total_ms": sum(all_ms),
                "avg_ms": sum(all_ms) / len(all_ms),
                "min_ms": min(all_ms),
                "max_ms": max(all_ms),
            }
            for name, all_ms in times.items()
        }

    def print_summary(self) -> None:
        """Prints a table by name, the longest first."""
        print("Profiler Summary")
        print(f"{'name':<30} {'count':>6} {'total ms':>12} {'avg ms':>12} {'share':>7}")
        total = self.total_time_ms
        rows = self.summary_by_name().items()
        for name, row in sorted(rows, key=lambda item: -item[1]["total_ms"]):
            share = row["total_ms"] / total if total else 0.0
            print(
                f"{name[:30]:<30} {row['count']:>6.0f} {row['total_ms']:>12.3f} "
                f"{row['avg_ms']:>12.3f} {share:>7.1%}"
            )
        print(f"total {total:.3f} ms in {len(self._records)} records")

    def export_chrome_trace(self, path: str | Path) -> None:
        """Writes the records for chrome://tracing."""
        from pygpukit.profiling.trace import export_chrome_trace

        export_chrome_trace(self._records, path)


_global: Profiler | None = None


def get_global_profiler() -> Profiler:
    """The profiler of the process, the same every time."""
    global _global
    if _global is None:
        _global = Profiler()
    return _global


def profile_matmul(a: GPUArray, b: GPUArray, name: str = "matmul") -> tuple[GPUArray, KernelRecord]:
    """a @ b and its record, also kept by the global profiler."""
    batch = max(a.size // (a.shape[-2] * a.shape[-1]), b.size // (b.shape[-2] * b.shape[-1]))
    flops = 2 * batch * a.shape[-2] * a.shape[-1] * b.shape[-1]
    context = ProfilerContext(name, flops=flops, bytes_transferred=a.nbytes + b.nbytes)
    with context:
        out = a @ b
    context.bytes_transferred = a.nbytes + b.nbytes + out.nbytes
    record = context.to_record()
    get_global_profiler()._records.append(record)
    return out, record


__all__ = [
    "KernelRecord",
    "Profiler",
    "ProfilerContext",
    "get_global_profiler",
    "profile_matmul",
]

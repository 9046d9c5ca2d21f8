"""Traces for chrome://tracing and Perfetto: of records, and of the whole runtime."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pygpukit.core.arguments import file_path
from pygpukit.core.errors import OperationError
from pygpukit.profiling.memory import MemorySnapshot
from pygpukit.profiling.profiler import KernelRecord, Profiler


def _metadata(what: str, name: str, tid: int) -> dict[str, Any]:
    return {"name": what, "ph": "M", "pid": 1, "tid": tid, "args": {"name": name}}


def _record_event(record: KernelRecord, ts: float) -> dict[str, Any]:
    args: dict[str, Any] = {"elapsed_ms": record.elapsed_ms}
    if record.tflops is not None:
        args["tflops"] = record.tflops
    if record.bandwidth_gb_s is not None:
        args["bandwidth_gb_s"] = record.bandwidth_gb_s
    return {
        "name": record.name,
        "cat": "kernel",
        "ph": "X",
        "ts": ts,
        "dur": record.elapsed_us,
        "pid": 1,
        "tid": 1,
        "args": args,
    }


def _memory_event(snapshot: MemorySnapshot, ts: float) -> dict[str, Any]:
    return {
        "name": snapshot.name,
        "cat": "memory",
        "ph": "i",
        "s": "g",
        "ts": ts,
        "pid": 1,
        "tid": 2,
        "args": {"used_mb": snapshot.used_mb, "cached_mb": snapshot.cached_mb},
    }


def export_chrome_trace(
    records: Sequence[KernelRecord],
    path: str | Path,
    memory_snapshots: Sequence[MemorySnapshot] | None = None,
    process_name: str = "PyGPUkit",
    thread_name: str = "GPU",
) -> None:
    """Writes records in sequence, and memory snapshots at their times."""
    events = [
        _metadata("process_name", process_name, 1),
        _metadata("thread_name", thread_name, 1),
    ]
    ts = 0.0
    for record in records:
        events.append(_record_event(record, ts))
        ts += record.elapsed_us
    snapshots = list(memory_snapshots or [])
    starts = [snapshot.timestamp for snapshot in snapshots]
    starts += [record.timestamp - record.elapsed_us / 1e6 for record in records]
    events += [_memory_event(s, (s.timestamp - min(starts)) * 1e6) for s in snapshots]
    Path(path).write_text(json.dumps({"traceEvents": events}), encoding="utf-8")


def export_combined_trace(
    profiler: Profiler, memory_profiler: Any, path: str | Path, process_name: str = "PyGPUkit"
) -> None:
    """Writes the records of a Profiler and the snapshots of a MemoryProfiler together."""
    export_chrome_trace(profiler.records, path, memory_profiler.snapshots, process_name)


def start_trace() -> None:
    """Starts recording tasks, kernels, copies, evictions and memory of the whole process."""
    from pygpukit import _runtime

    _runtime.trace_start()


def stop_trace() -> None:
    """Stops recording; recorded events stay for write_trace()."""
    from pygpukit import _runtime

    _runtime.trace_stop()


def clear_trace() -> None:
    """Drops the recorded events."""
    from pygpukit import _runtime

    _runtime.trace_clear()


def write_trace(path: str | Path) -> None:
    """Writes the recorded events, for chrome://tracing and Perfetto."""
    from pygpukit import _runtime

    Path(file_path("write_trace", path)).write_text(_runtime.trace_json(), encoding="utf-8")


@contextmanager
def trace(path: str | Path) -> Iterator[None]:
    """Records a block and writes it: ``with gp.profiling.trace("trace.json"):``.

    RuntimeError while another trace is recorded: there is one for the whole process.
    """
    from pygpukit import _runtime

    file = Path(file_path("trace", path))
    if _runtime.trace_enabled():
        raise OperationError("trace: another trace is being recorded")
    clear_trace()
    start_trace()
    try:
        yield
    finally:
        stop_trace()
        write_trace(file)


__all__ = [
    "clear_trace",
    "export_chrome_trace",
    "export_combined_trace",
    "start_trace",
    "stop_trace",
    "trace",
    "write_trace",
]

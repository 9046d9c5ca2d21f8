"""pygpukit.profiling (section 22) and the trace of the runtime."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import pygpukit as gp
from pygpukit import profiling
from pygpukit.profiling import (
    KernelRecord,
    MemoryProfiler,
    MemorySnapshot,
    Profiler,
    ProfilerContext,
)

MB = 2**20


def test_records() -> None:
    record = KernelRecord("gemm", 1.0, 1000.0, flops=2 * 10**9, bytes_transferred=10**6)
    assert record.tflops == pytest.approx(2.0)
    assert record.bandwidth_gb_s == pytest.approx(1.0)
    assert record.timestamp > 0
    empty = KernelRecord("x", 0.0, 0.0, flops=1)
    assert empty.tflops is None
    assert KernelRecord("x", 1.0, 1000.0).tflops is None
    assert KernelRecord("x", 1.0, 1000.0).bandwidth_gb_s is None


def test_context_and_profiler(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with ProfilerContext("add", flops=1000) as context:
        x = gp.ones(1000) + 1
    assert context.elapsed_us > 0
    assert context.elapsed_ms == pytest.approx(context.elapsed_us / 1000)
    assert context.to_record().name == "add"
    assert context.tflops is not None
    assert context.bandwidth is None
    profiler = Profiler()
    for _ in range(3):
        with profiler.record("add", flops=1000, bytes_transferred=8000) as timed:
            x = x + 1
    with profiler.record("mul"):
        x = x * 2
    assert timed.elapsed_us > 0
    assert [r.name for r in profiler.records] == ["add"] * 3 + ["mul"]
    summary = profiler.summary_by_name()
    assert set(summary["add"]) == {"count", "total_ms", "avg_ms", "min_ms", "max_ms"}
    assert summary["add"]["count"] == 3
    assert profiler.total_time_ms == pytest.approx(sum(r["total_ms"] for r in summary.values()))
    profiler.print_summary()
    assert "Profiler Summary" in capsys.readouterr().out
    profiler.export_chrome_trace(tmp_path / "trace.json")
    assert len(json.loads((tmp_path / "trace.json").read_text())["traceEvents"]) == 6
    profiler.clear()
    assert profiler.records == []
    assert profiler.total_time_ms == 0


def test_a_block_that_raises_is_not_recorded() -> None:
    profiler = Profiler()
    with pytest.raises(ZeroDivisionError), profiler.record("bad"):
        1 / 0  # noqa: B018
    assert profiler.records == []


def test_profile_matmul() -> None:
    a, b = gp.ones((4, 8)), gp.ones((8, 2))
    before = len(profiling.get_global_profiler().records)
    out, record = profiling.profile_matmul(a, b)
    np.testing.assert_array_equal(out.to_numpy(), np.full((4, 2), 8.0))
    assert record.flops == 2 * 4 * 8 * 2
    assert record.bytes_transferred == 4 * (32 + 16 + 8)
    assert len(profiling.get_global_profiler().records) == before + 1


def test_memory_snapshots(capsys: pytest.CaptureFixture[str]) -> None:
    pool = gp.memory.MemoryPool(64 * MB)
    profiler = MemoryProfiler(pool)
    profiler.snapshot("start")
    block = pool.allocate(MB)
    profiler.snapshot("used")
    pool.free(block)
    pool.allocate(MB)
    last = profiler.snapshot("end")
    assert [s.name for s in profiler.snapshots] == ["start", "used", "end"]
    assert (last.used_mb, last.quota, last.available_mb) == (1.0, 64 * MB, 63.0)
    assert last.utilization == pytest.approx(1 / 64)
    assert last.reuse_rate == pytest.approx(0.5)
    assert profiler.peak_used_bytes == MB
    assert profiler.peak_used_mb == 1.0
    diff = profiler.diff("start", "used")
    assert (diff["used_delta"], diff["active_blocks_delta"], diff["allocation_delta"]) == (MB, 1, 1)
    assert diff["time_delta"] >= 0
    assert set(diff) == {
        *("used_delta", "cached_delta", "active_blocks_delta", "free_blocks_delta"),
        *("allocation_delta", "time_delta"),
    }
    assert profiler.get_snapshot("nothing") is None
    with pytest.raises(ValueError, match="nothing"):
        profiler.diff("start", "nothing")
    profiler.print_report()
    profiler.print_diff("start", "end")
    text = capsys.readouterr().out
    assert "Memory Profiler Report" in text
    assert "used_delta" in text
    profiler.clear()
    assert profiler.peak_used_bytes == 0
    assert MemorySnapshot("empty").utilization == MemorySnapshot("empty").reuse_rate == 0.0


def test_without_a_pool_it_is_the_memory_of_arrays() -> None:
    taken = MemoryProfiler().snapshot("now")
    assert taken.quota > 0
    assert taken.available == taken.quota - taken.used


def test_chrome_trace_format(tmp_path: Path) -> None:
    records = [KernelRecord("a", 0.001, 1.0), KernelRecord("b", 0.002, 2.0)]
    path = tmp_path / "trace.json"
    profiling.export_chrome_trace(records, path, [MemorySnapshot("m", used=MB)], "P", "T")
    events = json.loads(path.read_text())["traceEvents"]
    assert [e["ph"] for e in events] == ["M", "M", "X", "X", "i"]
    assert [e["args"]["name"] for e in events[:2]] == ["P", "T"]
    assert [(e["ts"], e["dur"], e["cat"]) for e in events[2:4]] == [
        (0.0, 1.0, "kernel"),
        (1.0, 2.0, "kernel"),
    ]
    assert (events[4]["cat"], events[4]["tid"]) == ("memory", 2)
    profiling.export_combined_trace(Profiler(), MemoryProfiler(), path)
    assert len(json.loads(path.read_text())["traceEvents"]) == 2


def test_trace_of_tasks_and_kernels(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    with gp.scheduler.Scheduler(workers=2) as sched, profiling.trace(path):
        tasks = [sched.submit(lambda: gp.ones(10) + 1, name=f"task-{i}") for i in range(4)]
        for task in tasks:
            task.result(20)
        with ProfilerContext("kernel-a"):
            gp.ones(10) + 1
    events = json.loads(path.read_text())["traceEvents"]
    spans = {e["name"]: e for e in events if e["ph"] == "X"}
    assert {f"task-{i}" for i in range(4)} | {"kernel-a"} <= set(spans)
    assert spans["task-0"]["cat"] == "task"
    assert spans["kernel-a"]["cat"] == "kernel"
    counters = [e for e in events if e["ph"] == "C"]
    assert counters[-1]["name"] == "reserved memory"
    assert counters[-1]["args"]["value"] == 0
    rows: dict[int, float] = {}
    for event in sorted(spans.values(), key=lambda e: e["ts"]):  # spans of a row never overlap
        if event["cat"] == "task":
            assert event["ts"] >= rows.get(event["tid"], 0.0) - 0.01
            rows[event["tid"]] = event["ts"] + event["dur"]


def test_a_trace_in_a_trace_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    with profiling.trace(path):
        gp.scheduler.submit(lambda: 1, name="before").result(20)
        with (
            pytest.raises(RuntimeError, match="another trace"),
            profiling.trace(tmp_path / "b"),
        ):
            pass
        gp.scheduler.submit(lambda: 1, name="after").result(20)
    assert {"before", "after"} <= {e["name"] for e in json.loads(path.read_text())["traceEvents"]}
    with pytest.raises(gp.InvalidArgument, match="trace: path is int 3"), profiling.trace(3):
        pass


def test_blocks_of_arrays_are_counted() -> None:
    profiler = MemoryProfiler()
    before = profiler.snapshot("before").active_blocks
    kept = [gp.ones(10) for _ in range(3)]
    assert profiler.snapshot("after").active_blocks == before + 3
    assert profiler.diff("before", "after")["active_blocks_delta"] == len(kept)


def test_trace_of_evictions(tmp_path: Path) -> None:
    from pygpukit import memory

    path = tmp_path / "trace.json"
    x = gp.ones(4 * MB, "uint8")
    with profiling.trace(path):
        memory.evict(x)
        assert int(x.sum(dtype="int64")) == 4 * MB
    events = json.loads(path.read_text())["traceEvents"]
    moves = [(e["name"], e["args"]["bytes"]) for e in events if e.get("cat") == "eviction"]
    out = sum(size for name, size in moves if name == "evict")
    assert 0 < out <= 4 * MB  # whole chunks of the pool leave
    assert out == sum(size for name, size in moves if name == "restore")


def test_nothing_is_recorded_while_off() -> None:
    from pygpukit import _runtime

    profiling.clear_trace()
    with ProfilerContext("quiet"):
        pass
    assert _runtime.trace_num_events() == 0
    profiling.start_trace()
    with pytest.raises(ValueError, match="category is 'x'"):
        _runtime.trace_span("x", "name", "track", 0, 1)
    profiling.stop_trace()

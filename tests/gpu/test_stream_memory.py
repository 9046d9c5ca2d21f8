"""Streams, events, pinned memory, copies and the allocator on the GPU."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import pygpukit as gp
from pygpukit import _native

SPIN = """
__global__ void spin(long long cycles, int* out) {
    long long start = clock64();
    while (clock64() - start < cycles) {}
    if (out) *out = 1;
}
"""


def test_events_time_the_gpu() -> None:
    spin = gp.jit(SPIN, "spin")
    start, stop = gp.CudaEvent(), gp.CudaEvent()
    start.record()
    spin(20_000_000, None, grid=1, block=1)
    stop.record()
    with pytest.raises(RuntimeError, match="not finished"):
        gp.event_elapsed_ms(start, stop)
    stop.synchronize()
    assert stop.query()
    assert 5.0 < gp.event_elapsed_ms(start, stop) < 60.0
    with pytest.raises(RuntimeError, match="recorded"):
        gp.event_elapsed_ms(start, gp.CudaEvent())


def test_streams_overlap_and_wait() -> None:
    spin = gp.jit(SPIN, "spin")
    first, second = gp.Stream(), gp.Stream(priority="high")
    done = gp.zeros(1, "int32")
    copy = gp.zeros(1, "int32")
    gp.synchronize()
    spin(40_000_000, done, grid=1, block=1, stream=first)
    second.wait(first)
    with second:
        gp.add(done, 0, out=copy)
    second.synchronize()
    assert copy.to_numpy().tolist() == [1]


def test_to_numpy_waits_for_the_arrays_own_work() -> None:
    spin = gp.jit(SPIN, "spin")
    stream = gp.Stream()
    out = gp.zeros(1, "int32")
    gp.synchronize()
    spin(40_000_000, out, grid=1, block=1, stream=stream)
    assert out.to_numpy().tolist() == [1]  # on another stream than the kernel


def test_memory_is_not_reused_while_another_stream_reads_it() -> None:
    spin = gp.jit(SPIN, "spin")
    stream = gp.Stream()
    total = gp.zeros(1 << 20)
    gp.synchronize()
    for value in range(1, 6):
        source = gp.full(1 << 20, float(value))
        stream.wait(gp.current_stream())
        with stream:
            spin(5_000_000, None, grid=1, block=1)
            gp.add(total, source, out=total)
        del source
    stream.synchronize()
    assert (total.to_numpy() == 15).all()


def test_current_stream_is_per_thread() -> None:
    stream = gp.Stream()
    seen: list[int] = []
    with stream:
        thread = threading.Thread(target=lambda: seen.append(gp.current_stream().handle))
        thread.start()
        thread.join()
        assert gp.current_stream().handle == stream.handle
    assert seen == [gp.default_stream().handle]


def test_pinned_memory_and_raw_copies() -> None:
    host = gp.pinned_empty((1000,), "float32")
    host[:] = np.arange(1000)
    x = gp.zeros(1000)
    stream = gp.Stream()
    gp.synchronize()
    _native.copy_to_device_async(x, host.ctypes.data, host.nbytes, stream)
    stream.synchronize()
    assert np.array_equal(x.to_numpy(), np.arange(1000, dtype=np.float32))
    y = gp.from_numpy(host)
    host[:] = -1
    assert np.array_equal(y.to_numpy(), np.arange(1000, dtype=np.float32))
    _native.copy_device_to_device_offset(x, 0, y, 400, 40)
    assert x.to_numpy()[:11].tolist() == [*range(100, 110), 10]
    with pytest.raises(ValueError, match="bytes"):
        _native.copy_device_to_device_offset(x, 3990, y, 0, 40)
    with pytest.raises(ValueError, match="bytes"):
        _native.copy_to_device(x, host.ctypes.data, 4001)


def test_allocator_reuses_and_trims() -> None:
    gp.synchronize()
    _native.trim()
    a = gp.empty(1 << 26, "uint8")
    address = a.device_ptr
    del a
    reuses = _native.memory_stats()["reuses"]
    b = gp.empty(1 << 26, "uint8")
    assert b.device_ptr == address
    assert _native.memory_stats()["reuses"] == reuses + 1
    del b
    assert _native.trim() >= 1 << 26


def test_out_of_memory_names_all_figures() -> None:
    with pytest.raises(MemoryError) as caught:
        gp.empty(1 << 42, "uint8")
    error = caught.value
    assert isinstance(error, gp.OutOfMemory)
    assert error.asked == 1 << 42
    assert 0 < error.device_free < 1 << 42
    assert gp.ones(3).to_numpy().sum() == 3


def test_memory_limit(run_python) -> None:  # type: ignore[no-untyped-def]
    program = (
        "import pygpukit as gp\n"
        "a = gp.zeros(60 << 20, 'uint8')\n"
        "try:\n    b = gp.zeros(60 << 20, 'uint8')\n"
        "except gp.OutOfMemory as e:\n    print(e.limit)\n"
        "del a\nprint(gp.zeros(60 << 20, 'uint8').size)\n"
    )
    done = run_python(program, PYGPUKIT_MEMORY_LIMIT="100M")
    assert done.stdout.split() == [str(100 << 20), str(60 << 20)], done.stderr

"""Memory figures, pinned memory and raw copies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pygpukit as gp
from pygpukit.core import memory


def test_memory_info() -> None:
    free, total = memory.get_memory_info()
    assert 0 < free <= total
    assert memory.get_memory_info("cpu")[1] == total
    with pytest.raises((gp.GpuUnavailable, ValueError)):  # no driver, or no such GPU
        memory.get_memory_info("cuda:99")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int4", "complex128"])
@pytest.mark.parametrize("shape", [(), (0,), (3, 5)], ids=str)
def test_pinned_empty(dtype: str, shape: tuple[int, ...]) -> None:
    x = memory.pinned_empty(shape, dtype)
    assert isinstance(x, np.ndarray)
    assert (x.shape, x.dtype.name) == (shape, dtype)
    assert x.flags.writeable
    assert x.flags.c_contiguous
    x[...] = 1
    back = gp.from_numpy(x).to_numpy()
    np.testing.assert_array_equal(back.astype(np.complex128), np.ones(shape))


def test_pinned_memory_outlives_its_maker() -> None:
    views = [memory.pinned_empty(1000)[10:20] for _ in range(50)]
    for index, view in enumerate(views):
        view[:] = index
    assert [float(view[0]) for view in views] == list(range(50))


@pytest.mark.parametrize("shape", [2**62, (2**61) + 1, -1, (2**40, 2**40)])
def test_pinned_refuses(shape: Any) -> None:
    with pytest.raises(ValueError, match=r"^pinned_empty: "):
        memory.pinned_empty(shape, "float64")


def test_pinned_out_of_memory() -> None:
    with pytest.raises(gp.OutOfMemory, match="pinned memory"):
        memory.pinned_empty(2**50)


def test_trim() -> None:
    memory.trim()
    assert memory.trim() == 0  # nothing is cached any more
    memory.synchronize()


@pytest.mark.parametrize("how", ["now", "async", "async stream", "handle"])
def test_copy_to_device(how: str) -> None:
    host = np.arange(4, dtype=np.float32)
    x = gp.zeros(6)
    source, size = host.ctypes.data, host.nbytes
    if how == "now":
        memory.copy_to_device(x, source, size)
    elif how == "async":
        memory.copy_to_device_async(x, src_ptr=source, size_bytes=size)
    elif how == "async stream":
        memory.copy_to_device_async(x, source, size, gp.Stream())
    else:
        memory.copy_to_device_async_raw_stream(x, source, size, gp.Stream().handle)
    memory.synchronize()
    assert x.to_numpy().tolist() == [0, 1, 2, 3, 0, 0]


def test_copy_to_device_refuses() -> None:
    host = np.arange(8, dtype=np.float32)
    x = gp.zeros(4)
    for copy in (memory.copy_to_device, memory.copy_to_device_async):
        with pytest.raises((ValueError, RuntimeError), match=r"bytes 0 to 32 of dst, which has 16"):
            copy(x, host.ctypes.data, 32)
        with pytest.raises(TypeError):
            copy(x, host.ctypes.data, -1)
        with pytest.raises(TypeError):
            copy(host, host.ctypes.data, 4)
    with pytest.raises(TypeError, match="stream is 'x'"):
        memory.copy_to_device_async(x, host.ctypes.data, 4, "x")
    assert x.to_numpy().tolist() == [0] * 4
    memory.copy_to_device(x, 0, 0)  # nothing to read


def test_copy_from_address_zero_is_an_error_not_a_crash(run_python) -> None:
    code = (
        "import pygpukit as gp\ntry:\n    gp.core.copy_to_device(gp.zeros(4), 0, 16)\n"
        "except gp.InvalidArgument as e: print('refused', e)"
    )
    done = run_python(code)
    assert done.returncode == 0, f"exit status {done.returncode}"
    assert done.stdout.startswith("refused copy_to_device: ")


def test_copy_between_arrays() -> None:
    a, b = gp.full((2, 3), 7.0), gp.zeros(6)
    memory.copy_device_to_device_async(b, a)
    assert b.to_numpy().tolist() == [7.0] * 6
    memory.copy_device_to_device_async(
        b, gp.ones(3, "float64"), gp.Stream()
    )  # bytes count, not dtype
    with pytest.raises(ValueError, match=r"dst has 24 bytes, src has 28"):
        memory.copy_device_to_device_async(b, gp.zeros(7))


def test_copy_with_offsets() -> None:
    a = gp.from_numpy(np.arange(8, dtype=np.uint8))
    b = gp.zeros(8, "uint8")
    memory.copy_device_to_device_offset(b, 1, a, 3, 4)
    assert b.to_numpy().tolist() == [0, 3, 4, 5, 6, 0, 0, 0]
    memory.copy_device_to_device_offset(b, 8, a, 0, 0)
    memory.copy_device_to_device_offset(a, 2, a, 0, 6)  # overlapping
    assert a.to_numpy().tolist() == [0, 1, 0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("dst_offset", "src_offset", "size", "words"),
    [
        (5, 0, 4, "bytes 5 to 9 of dst"),
        (0, 6, 4, "bytes 6 to 10 of src"),
        (9, 0, 0, "of dst"),
        (0, 0, 9, "of dst"),
    ],
)
def test_offsets_are_checked(dst_offset: int, src_offset: int, size: int, words: str) -> None:
    a, b = gp.zeros(8, "uint8"), gp.zeros(8, "uint8")
    with pytest.raises(ValueError, match=words):
        memory.copy_device_to_device_offset(b, dst_offset, a, src_offset, size)
    with pytest.raises(ValueError, match="of dst"):
        memory.copy_device_to_device_offset(b, 2**64 - 4, a, 0, 8)

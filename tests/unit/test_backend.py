"""The 0.2 backend objects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import pygpukit as gp
from pygpukit.core import backend
from pygpukit.core.stream import StreamPriority


@pytest.fixture
def cpu() -> backend.CPUSimulationBackend:
    return backend.CPUSimulationBackend()


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    backend.reset_backend()
    yield
    backend.reset_backend()


def test_abstract() -> None:
    with pytest.raises(TypeError, match="abstract"):
        backend.Backend()  # type: ignore[abstract]


def test_singleton() -> None:
    first = backend.get_backend()
    assert isinstance(first, backend.CPUSimulationBackend)
    assert backend.get_backend() is first
    mine = backend.CPUSimulationBackend()
    backend.set_backend(mine)
    assert backend.get_backend() is mine
    backend.reset_backend()
    assert backend.get_backend() not in (first, mine)


def test_modules() -> None:
    assert backend.has_native_module()
    assert backend.get_native_module().GPUArray is gp.GPUArray
    assert backend.get_rust_module() is None
    assert not backend.has_rust_module()


def test_properties(cpu: backend.CPUSimulationBackend) -> None:
    assert cpu.is_available()
    assert cpu.get_device_count() == 1
    info = cpu.get_device_properties()
    assert (info.name, info.compute_capability) == ("CPU Simulation", None)
    with pytest.raises(IndexError, match="device_id is 1"):
        cpu.get_device_properties(1)


def test_memory(cpu: backend.CPUSimulationBackend) -> None:
    handle = cpu.allocate(16)
    other = cpu.allocate(16)
    assert isinstance(handle, int)
    assert handle != other
    host = np.arange(4, dtype=np.float32)
    cpu.copy_host_to_device(host, handle)
    back = cpu.copy_device_to_host(handle, 16, np.dtype(np.float32))
    np.testing.assert_array_equal(back, host)
    np.testing.assert_array_equal(cpu.copy_device_to_host(handle, 8, gp.float32), host[:2])
    back[:] = 9
    cpu.copy_host_to_device(np.zeros((2, 2), np.float32)[:, 0], other)  # made contiguous
    np.testing.assert_array_equal(cpu.copy_device_to_host(handle, 16, "float32"), host)
    cpu.memset(handle, 255, 4)
    np.testing.assert_array_equal(
        cpu.copy_device_to_host(handle, 16, np.uint8)[:6], [255, 255, 255, 255, 0, 0]
    )
    cpu.synchronize()
    cpu.free(handle)
    cpu.free(other)


def test_empty_allocation(cpu: backend.CPUSimulationBackend) -> None:
    handle = cpu.allocate(0)
    assert cpu.copy_device_to_host(handle, 0, np.float32).shape == (0,)
    cpu.free(handle)


@pytest.mark.parametrize(
    "call",
    [
        lambda b, h: b.free(h),
        lambda b, h: b.memset(h, 0, 1),
        lambda b, h: b.copy_host_to_device(np.zeros(1, np.uint8), h),
        lambda b, h: b.copy_device_to_host(h, 1, np.uint8),
    ],
    ids=["free", "memset", "copy_host_to_device", "copy_device_to_host"],
)
def test_bad_handle(cpu: backend.CPUSimulationBackend, call: Any) -> None:
    freed = cpu.allocate(4)
    cpu.free(freed)
    foreign = backend.CPUSimulationBackend().allocate(4) + 1000
    for handle in (freed, foreign, -1, 0):
        with pytest.raises(RuntimeError, match=f"{handle} is not memory of this backend") as caught:
            call(cpu, handle)
        assert isinstance(caught.value, gp.PyGPUkitError)


def test_sizes_are_checked(cpu: backend.CPUSimulationBackend) -> None:
    handle = cpu.allocate(4)
    with pytest.raises(ValueError, match="bytes 0 to 8"):
        cpu.copy_host_to_device(np.zeros(8, np.uint8), handle)
    with pytest.raises(ValueError, match="bytes 0 to 8"):
        cpu.copy_device_to_host(handle, 8, np.uint8)
    with pytest.raises(ValueError, match="bytes 0 to 5"):
        cpu.memset(handle, 0, 5)
    with pytest.raises(OverflowError, match="256"):
        cpu.memset(handle, 256, 4)
    with pytest.raises(ValueError, match="negative"):
        cpu.allocate(-1)


def test_streams(cpu: backend.CPUSimulationBackend) -> None:
    assert cpu.create_stream().priority is StreamPriority.LOW
    high = cpu.create_stream(-1)
    assert high.priority is StreamPriority.HIGH
    cpu.stream_synchronize(high)
    cpu.destroy_stream(high)


@pytest.mark.skipif(gp.is_cuda_available(), reason="there is a GPU")
def test_native_backend_without_a_gpu() -> None:
    native = backend.NativeBackend()
    assert not native.is_available()
    assert native.get_device_count() == 0
    for call in (native.get_device_properties, lambda: native.allocate(4), native.create_stream):
        with pytest.raises(gp.GpuUnavailable):
            call()

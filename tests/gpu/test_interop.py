"""Zero-copy exchange with PyTorch, CuPy and JAX on the GPU, with streams that differ.

Ordering is tested with a kernel that spins before it writes: a consumer that does not wait reads
the old value.
"""

from __future__ import annotations

import gc
import os
import pickle
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pygpukit as gp

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # leave memory to the others

SPIN_THEN_WRITE = """
extern "C" __global__ void spin_then_write(float* x, float value, long long cycles, int n) {
    long long start = clock64();
    while (clock64() - start < cycles) {}
    for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] = value;
}
"""
CYCLES = 600_000_000  # about 0.35 s: longer than a busy host takes to load a peer's kernel
COUNT = 1000
NUMPY_DTYPES = "bool int8 int16 int32 int64 uint8 float16 float32 float64 complex64 complex128"


@pytest.fixture
def torch() -> Any:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("PyTorch without CUDA")
    return torch


@pytest.fixture
def cupy() -> Any:
    return pytest.importorskip("cupy")


@pytest.fixture
def jax() -> Any:
    jax = pytest.importorskip("jax")
    if jax.default_backend() != "gpu":
        pytest.skip("JAX without CUDA")
    return jax


@pytest.fixture(autouse=True)
def _idle() -> Iterator[None]:
    """Nothing of another test is running."""
    gp.synchronize()
    yield
    gp.synchronize()
    gc.collect()


def write_late(x: gp.GPUArray, value: float, stream: gp.Stream | None = None) -> None:
    gp.jit(SPIN_THEN_WRITE, "spin_then_write")(
        x, value, CYCLES, x.size, grid=1, block=256, stream=stream
    )


def ours(shape: Any = (2, 3), dtype: str = "float32") -> tuple[gp.GPUArray, Any]:
    count = int(np.prod(shape))
    host = (np.arange(count) % 7).reshape(shape).astype(getattr(ml_dtypes, dtype, dtype))
    return gp.from_numpy(host), host


# --- PyTorch --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [*NUMPY_DTYPES.split(), "bfloat16"])
@pytest.mark.parametrize("shape", [(), (0,), (5,), (2, 3, 4)], ids=str)
def test_torch_shares_memory(torch: Any, dtype: str, shape: tuple[int, ...]) -> None:
    x, host = ours(shape, dtype)
    tensor = torch.from_dlpack(x)
    assert tensor.shape == shape
    assert tensor.dtype == getattr(torch, dtype)
    assert tensor.is_cuda
    back = gp.from_dlpack(tensor)
    assert (back.shape, back.dtype.name, back.device) == (shape, dtype, x.device)
    if host.size:
        assert tensor.data_ptr() == back.device_ptr == x.device_ptr
    assert back.to_numpy().tobytes() == host.tobytes()


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_torch_float8(torch: Any, dtype: str) -> None:
    tensor = torch.arange(6, device="cuda", dtype=torch.float32).to(getattr(torch, dtype))
    try:
        tensor.__dlpack__(max_version=(1, 0))
    except (BufferError, RuntimeError, TypeError):
        pytest.skip("this PyTorch does not export float8")
    x = gp.from_dlpack(tensor)
    assert (x.dtype.name, x.device_ptr) == (dtype, tensor.data_ptr())
    assert x.tolist() == [0, 1, 2, 3, 4, 5]
    assert torch.from_dlpack(x).dtype == tensor.dtype


def test_torch_views(torch: Any) -> None:
    tensor = torch.arange(24, device="cuda", dtype=torch.float32).reshape(4, 6)
    for view in (tensor.T, tensor[1:, ::2], tensor[2], tensor[3, 5]):
        x = gp.from_dlpack(view)
        assert x.shape == tuple(view.shape)
        assert x.device_ptr == view.data_ptr()
        np.testing.assert_array_equal(x.to_numpy(), view.cpu().numpy())
        np.testing.assert_array_equal(torch.from_dlpack(x).cpu().numpy(), view.cpu().numpy())


@pytest.mark.parametrize("same_stream", [True, False], ids=["default", "streams"])
def test_torch_waits_for_us(torch: Any, same_stream: bool) -> None:
    x = gp.zeros(COUNT)
    gp.synchronize()
    stream = None if same_stream else gp.Stream()
    their_stream = torch.cuda.current_stream() if same_stream else torch.cuda.Stream()
    write_late(x, 5.0, stream)
    with torch.cuda.stream(their_stream):
        total = torch.from_dlpack(x).sum()
    their_stream.synchronize()
    assert total.item() == 5.0 * COUNT


@pytest.mark.parametrize("same_stream", [True, False], ids=["default", "streams"])
def test_we_wait_for_torch(torch: Any, same_stream: bool) -> None:
    tensor = torch.zeros(COUNT, device="cuda")
    torch.cuda.synchronize()
    their_stream = torch.cuda.current_stream() if same_stream else torch.cuda.Stream()
    our_stream = gp.current_stream() if same_stream else gp.Stream()
    with torch.cuda.stream(their_stream):
        torch.cuda._sleep(CYCLES)
        tensor.fill_(7.0)
        with our_stream:
            y = gp.from_dlpack(tensor) + 1.0
    with our_stream:
        assert (y.to_numpy() == 8.0).all()


def test_torch_memory_is_held_until_our_work_is_done(torch: Any) -> None:
    """PyTorch may reuse the memory as soon as we release it."""
    stream = gp.Stream()
    torch.cuda.synchronize()
    gc.collect()
    torch.cuda.empty_cache()
    tensor = torch.full((COUNT,), 3.0, device="cuda")
    address = tensor.data_ptr()
    torch.cuda.synchronize()
    with stream:
        x = gp.from_dlpack(tensor)
        busy = gp.zeros(COUNT)
        x + busy  # loads the kernel, which may take longer than the wait below
        write_late(busy, 1.0, stream)
        result = x + busy
    del tensor, x
    other = torch.full((COUNT,), 100.0, device="cuda")
    assert other.data_ptr() != address
    stream.synchronize()
    assert (result.to_numpy() == 4.0).all()


def test_our_memory_is_held_while_torch_uses_it(torch: Any) -> None:
    x, host = ours((COUNT,))
    address = x.device_ptr
    tensor = torch.from_dlpack(x)
    del x
    gc.collect()
    others = [gp.zeros(COUNT) for _ in range(20)]
    assert address not in [other.device_ptr for other in others]
    np.testing.assert_array_equal(tensor.cpu().numpy(), host)
    del tensor
    gc.collect()
    assert gp.zeros(COUNT).device_ptr == address  # released, and reused


def test_torch_tensors_live_as_long_as_needed(torch: Any) -> None:
    tensor = torch.ones(4, device="cuda")
    x = gp.from_dlpack(tensor)
    del tensor
    gc.collect()
    torch.cuda.empty_cache()
    others = [torch.zeros(4, device="cuda") for _ in range(20)]
    assert x.device_ptr not in [other.data_ptr() for other in others]
    assert x.tolist() == [1.0] * 4


def test_torch_takes_the_cuda_array_interface(torch: Any) -> None:
    x, host = ours()
    tensor = torch.as_tensor(x, device="cuda")
    assert tensor.data_ptr() == x.device_ptr
    np.testing.assert_array_equal(tensor.cpu().numpy(), host)
    y = gp.from_cuda_array_interface(tensor)
    assert y.device_ptr == x.device_ptr


def test_a_copy_to_the_cpu(torch: Any) -> None:
    x, host = ours()
    assert gp.from_dlpack(torch.arange(3, device="cuda"), device="cpu").tolist() == [0, 1, 2]
    on_cpu = np.from_dlpack(x, device="cpu")
    np.testing.assert_array_equal(on_cpu, host)
    with pytest.raises(BufferError):
        x.__dlpack__(dl_device=(1, 0), copy=False)
    with pytest.raises(BufferError):
        gp.from_dlpack(torch.arange(3, device="cuda"), device="cpu", copy=False)
    moved = gp.from_dlpack(torch.arange(3), device="cuda:0")
    assert (moved.device, moved.tolist()) == ("cuda:0", [0, 1, 2])
    assert gp.from_dlpack(torch.arange(3)).device == "cpu"


# --- CuPy -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", NUMPY_DTYPES.split())
@pytest.mark.parametrize("shape", [(), (0,), (5,), (2, 3, 4)], ids=str)
def test_cupy_shares_memory(cupy: Any, dtype: str, shape: tuple[int, ...]) -> None:
    x, host = ours(shape, dtype)
    theirs = cupy.from_dlpack(x)
    assert (theirs.shape, theirs.dtype.name) == (shape, dtype)
    back = gp.from_dlpack(theirs)
    if host.size:
        assert theirs.data.ptr == back.device_ptr == x.device_ptr
    assert back.to_numpy().tobytes() == host.tobytes()
    through_interface = cupy.asarray(x)
    assert through_interface.get().tobytes() == host.tobytes()
    again = gp.from_cuda_array_interface(through_interface)
    assert (again.shape, again.dtype.name) == (shape, dtype)
    assert again.to_numpy().tobytes() == host.tobytes()


def test_cupy_views(cupy: Any) -> None:
    theirs = cupy.arange(24, dtype=cupy.float32).reshape(4, 6)
    reversed_view = theirs[::-1, ::2]
    for view in (theirs.T, theirs[1:, ::2], theirs[2:2], reversed_view):
        for take in (gp.from_dlpack, gp.from_cuda_array_interface):
            if view is reversed_view and take is gp.from_dlpack:
                continue  # CuPy divides negative strides as unsigned numbers
            x = take(view)
            np.testing.assert_array_equal(x.to_numpy(), view.get())
            np.testing.assert_array_equal(cupy.from_dlpack(x).get(), view.get())
            np.testing.assert_array_equal(cupy.asarray(x).get(), view.get())


@pytest.mark.parametrize("way", ["dlpack", "interface"])
def test_cupy_waits_for_us(cupy: Any, way: str) -> None:
    x = gp.zeros(COUNT)
    gp.synchronize()
    stream = gp.Stream()
    their_stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        write_late(x, 5.0, stream)
        with their_stream:
            theirs = cupy.from_dlpack(x) if way == "dlpack" else cupy.asarray(x)
            total = theirs.sum()
    their_stream.synchronize()
    assert total.get() == 5.0 * COUNT


@pytest.mark.parametrize("way", ["dlpack", "interface"])
def test_we_wait_for_cupy(cupy: Any, way: str) -> None:
    theirs = cupy.zeros(COUNT, cupy.float32)
    cupy.cuda.Device().synchronize()
    their_stream = cupy.cuda.Stream(non_blocking=True)
    kernel = cupy.RawKernel(SPIN_THEN_WRITE, "spin_then_write")
    stream = gp.Stream()
    with their_stream:
        kernel((1,), (256,), (theirs, np.float32(7), np.int64(CYCLES), np.int32(COUNT)))
        take = gp.from_dlpack if way == "dlpack" else gp.from_cuda_array_interface
        with stream:
            y = take(theirs) + 1.0
    with stream:
        assert (y.to_numpy() == 8.0).all()


# --- JAX ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dtype", ["int8", "int16", "int32", "uint8", "float16", "bfloat16", "float32", "complex64"]
)
@pytest.mark.parametrize("shape", [(), (5,), (2, 3, 4)], ids=str)
def test_jax_shares_memory(jax: Any, dtype: str, shape: tuple[int, ...]) -> None:
    x, host = ours(shape, dtype)
    theirs = jax.numpy.from_dlpack(x)
    assert (theirs.shape, theirs.dtype.name) == (shape, dtype)
    assert theirs.unsafe_buffer_pointer() == x.device_ptr
    assert np.asarray(theirs).tobytes() == host.tobytes()
    made = jax.numpy.asarray(host)
    made.block_until_ready()
    back = gp.from_dlpack(made)
    assert back.device_ptr == made.unsafe_buffer_pointer()
    assert (back.shape, back.dtype.name) == (shape, dtype)
    assert back.to_numpy().tobytes() == host.tobytes()


def test_jax_waits_for_us(jax: Any) -> None:
    x = gp.zeros(COUNT)
    gp.synchronize()
    stream = gp.Stream()
    double = jax.jit(lambda a: a * 2)
    double(jax.numpy.zeros(COUNT, jax.numpy.float32)).block_until_ready()  # compiled
    write_late(x, 5.0, stream)
    assert (np.asarray(double(jax.numpy.from_dlpack(x))) == 10.0).all()


def test_we_wait_for_jax(jax: Any) -> None:
    stream = gp.Stream()

    @jax.jit
    def long(a: Any) -> Any:
        return jax.lax.fori_loop(0, 200, lambda i, b: jax.numpy.tanh(b @ b) + 1e-6 * i, a)

    start = jax.numpy.full((2048, 2048), 1e-3, jax.numpy.float32)
    want = np.asarray(long(start))
    with stream:
        y = gp.from_dlpack(long(start)) + 0.0
        np.testing.assert_array_equal(y.to_numpy(), want)


# --- ourselves ------------------------------------------------------------------------------------


def test_stream_numbers() -> None:
    x = gp.ones(3)
    stream = gp.Stream()
    for number in (None, -1, 1, 2, stream.handle):
        x.__dlpack__(stream=number)
    for number in (0, -2):
        with pytest.raises(ValueError, match="stream"):
            x.__dlpack__(stream=number)


def test_interface_names_the_stream() -> None:
    x = gp.ones((2, 3))
    assert x.__cuda_array_interface__ == {
        "shape": (2, 3),
        "typestr": "<f4",
        "data": (x.device_ptr, False),
        "strides": None,
        "version": 3,
        "stream": 1,
    }
    with gp.Stream() as stream:
        assert x.__cuda_array_interface__["stream"] == stream.handle
    with pytest.raises(AttributeError, match="bfloat16; use DLPack"):
        _ = gp.ones(3, "bfloat16").__cuda_array_interface__


def test_to_numpy_without_waiting() -> None:
    x = gp.zeros(COUNT)
    gp.synchronize()
    stream = gp.Stream()
    out = gp.pinned_empty(COUNT)
    out[:] = -1
    write_late(x, 2.0, stream)
    assert x.to_numpy(out=out, stream=stream, blocking=False) is out
    assert not stream.query()  # returned before the kernel was done
    del x
    stream.synchronize()
    assert (out == 2.0).all()
    with pytest.raises(ValueError, match="pinned"):
        gp.ones(3).to_numpy(out=np.empty(3, np.float32), blocking=False)


def test_a_destination_nobody_holds_any_more() -> None:
    x = gp.zeros(COUNT)
    gp.synchronize()
    for _ in range(3):
        write_late(x, 2.0)
        x.to_numpy(out=gp.pinned_empty(COUNT), blocking=False)
        gp.pinned_empty(COUNT)[:] = 1
    gp.synchronize()
    assert (x.to_numpy() == 2.0).all()


def test_strided_arrays_come_back(cupy: Any) -> None:
    theirs = cupy.arange(24, dtype=cupy.int16).reshape(4, 6)[::-1, ::-2]
    x = gp.from_cuda_array_interface(theirs)
    np.testing.assert_array_equal(x.to_numpy(), theirs.get())
    out = gp.pinned_empty((4, 3), "int16")
    x.to_numpy(out=out, blocking=False)
    gp.synchronize()
    np.testing.assert_array_equal(out, theirs.get())


def test_strided_host_memory_in_parts() -> None:
    host = np.arange(64 << 20, dtype=np.int32).reshape(4096, -1)[::-1, ::2]  # more than one part
    np.testing.assert_array_equal(gp.from_numpy(host).to_numpy(), host)
    pinned = gp.pinned_empty((64, 64), "int32")
    pinned[...] = np.arange(4096).reshape(64, 64)
    x = gp.from_numpy(pinned[::2])
    pinned[...] = -1
    assert (x.to_numpy() == np.arange(4096).reshape(64, 64)[::2]).all()


def test_pickle_and_print() -> None:
    x, host = ours((60, 70))
    y = pickle.loads(pickle.dumps(x))
    assert y.device == x.device
    np.testing.assert_array_equal(y.to_numpy(), host)
    assert str(x) == str(host)
    assert repr(x).endswith("shape=(60, 70), dtype=float32, device='cuda:0')")


@pytest.mark.parametrize("shape", [(5000,), (60, 70), (9, 10, 11, 12), (2, 3000)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "bfloat16", "complex64", "int4"])
def test_summaries(shape: tuple[int, ...], dtype: str) -> None:
    x, host = ours(shape, dtype)
    assert str(x) == str(host)


def test_text_during_a_capture() -> None:
    x = gp.ones(5000)
    with gp.CudaGraph():
        gp.add(x, 1.0, out=x)
        assert repr(x) == "GPUArray(shape=(5000,), dtype=float32, device='cuda:0')"
        with pytest.raises(gp.CaptureError):
            x.__dlpack__()


def test_text_of_a_huge_array() -> None:
    x = gp.zeros((1 << 16, (1 << 16) + 1), "uint8")  # more than 2**32 bytes
    assert repr(x) == (
        "GPUArray([[0, 0, 0, ..., 0, 0, 0],\n"
        "          [0, 0, 0, ..., 0, 0, 0],\n"
        "          [0, 0, 0, ..., 0, 0, 0],\n"
        "          ...,\n"
        "          [0, 0, 0, ..., 0, 0, 0],\n"
        "          [0, 0, 0, ..., 0, 0, 0],\n"
        "          [0, 0, 0, ..., 0, 0, 0]],\n"
        "         shape=(65536, 65537), dtype=uint8, device='cuda:0')"
    )
    assert gp.from_dlpack(x).item(-1) == 0


# --- implicit conversions -------------------------------------------------------------------------


def test_no_silent_conversion_to_numpy() -> None:
    x = gp.ones(3)
    for convert in (np.asarray, np.array, gp.from_numpy, lambda x: np.array([x, x])):
        with pytest.raises(gp.ImplicitConversionError, match=r"to_numpy\(\).*allow_implicit"):
            convert(x)
    with gp.allow_implicit_conversion():
        np.testing.assert_array_equal(x, np.ones(3, np.float32))
    with pytest.raises(gp.ImplicitConversionError):
        np.asarray(x)


def test_masked_reductions_and_assignments() -> None:
    host = np.random.default_rng(3).standard_normal((5, 4099)).astype(np.float32)
    x = gp.from_numpy(host)
    for name in ("sum", "mean", "std", "var"):
        got = getattr(gp, name)(x, 1, where=x > 0).to_numpy()
        np.testing.assert_allclose(got, getattr(np, name)(host, 1, where=host > 0), rtol=1e-4)
    got = gp.max(x, 1, initial=0.5, where=x < 0).to_numpy()
    np.testing.assert_array_equal(got, np.max(host, 1, initial=0.5, where=host < 0))
    x[0:2] = host[2:4]
    np.testing.assert_array_equal(x.to_numpy()[0:2], host[2:4])
    rows = np.array([[1, 2], [0, 1], [1, 2]])
    np.testing.assert_array_equal(
        gp.unique(gp.from_numpy(rows), axis=0).to_numpy(), np.unique(rows, axis=0)
    )

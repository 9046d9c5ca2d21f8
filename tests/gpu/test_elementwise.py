"""Elementwise ops on the GPU: the case table, casts, copies, large arrays, graphs."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from cases import casts, elementwise, elementwise_options
from cases.elementwise import OPS
from cases.elementwise_errors import MUST_RAISE
from cases.must_raise import Refused
from cases.run import on_host, run_case, run_must_raise

import pygpukit as gp
from pygpukit import _native


@pytest.mark.parametrize("case", [case for case in elementwise.CASES if case.gpu], ids=str)
def test_case(case: elementwise.Case) -> None:
    run_case(case, "cuda")


@pytest.mark.parametrize("op", ["add", "maximum"])
@pytest.mark.parametrize("case", MUST_RAISE, ids=lambda case: case.name)
def test_must_raise(case: Refused, op: str) -> None:
    run_must_raise(case, op, "cuda")


@pytest.mark.parametrize("call", elementwise_options.CALLS, ids=lambda call: call.name)
def test_where_and_dtype(call: elementwise_options.Call) -> None:
    elementwise_options.run(call, "cuda")


def test_where_without_out_and_in_place() -> None:
    elementwise_options.run_special("cuda")


def test_two_devices_are_refused() -> None:
    x, y = gp.ones(3, device="cuda"), gp.ones(3, device="cpu")
    with pytest.raises(ValueError, match=r"^add: operands are on cuda:0 and cpu"):
        x + y
    with pytest.raises(ValueError, match=r"^add: out is on cpu, the operands on cuda:0"):
        gp.add(x, x, out=y)
    with pytest.raises(ValueError, match=r"^add: where is on cpu, the operands on cuda:0"):
        gp.add(x, x, where=y > 0)


def test_from_the_ptx_bundle(run_python) -> None:  # type: ignore[no-untyped-def]
    """Without NVRTC one kernel per op and compute type does all dtypes and layouts."""
    if _native.bundle_info()["kernels"] == 0:
        pytest.skip("this build has no PTX bundle")
    program = f"""
import sys
sys.path.insert(0, {os.path.dirname(os.path.dirname(os.path.abspath(__file__)))!r})
from cases import elementwise
from cases.run import run_case
done = set()
for case in elementwise.CASES:
    dtypes = [getattr(x, "dtype", None) for x in case.operands]
    wanted = case.op in ("add", "where") or dtypes[0] in ("float16", "int64", "complex64")
    key = (case.op, *map(str, dtypes), case.needs_views and case.operands[0].view)
    if wanted and key not in done and len(done) < 400:
        done.add(key)
        run_case(case, "cuda")
print(len(done) > 100)
"""
    done = run_python(program, PYGPUKIT_NVRTC_PATH="/nonexistent/libnvrtc.so")
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout == "True\n"


def test_the_same_bits_twice() -> None:
    host = np.random.default_rng(3).normal(size=10_001).astype(np.float32)
    x = gp.from_numpy(host)
    for op in ("exp", "gelu", "sin", "lgamma"):
        first = getattr(_native, op)(x).to_numpy()
        assert first.tobytes() == getattr(_native, op)(x).to_numpy().tobytes()


# --- casts --------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", casts.ALL)
def test_casts(source: str) -> None:
    for target in [pair[1] for pair in casts.PAIRS if pair[0] == source]:
        given, want = casts.cast_pair(source, target)
        casts.same_bits(_native.astype(gp.from_numpy(given), target).to_numpy(), want)


@pytest.mark.parametrize("target", ["float8_e4m3fn", "int4", "float16", "complex64", "bool"])
def test_casts_of_strided_arrays(target: str) -> None:
    host = np.arange(-8, 8, dtype=np.float32).repeat(6).reshape(12, 8) / 4
    x = gp.from_numpy(host)
    for view in (lambda a: a[::2], lambda a: a[:, ::-1], lambda a: a[1:, 1::3]):
        want = view(host).astype(casts.numpy_type(target))
        casts.same_bits(on_host(_native.astype(view(x), target)), np.ascontiguousarray(want))


# --- copies -------------------------------------------------------------------------------------

WIDTHS = ("uint8", "int16", "float32", "float64", "complex128")
TRANSPOSES: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((8, 8), (1, 0)),
    ((7, 9), (1, 0)),
    ((64, 64), (1, 0)),
    ((33, 65), (1, 0)),
    ((128, 256), (1, 0)),
    ((1, 100), (1, 0)),
    ((100, 3), (1, 0)),
    ((1000, 1001), (1, 0)),
    ((5, 33, 65), (0, 2, 1)),
    ((5, 32, 64), (0, 2, 1)),
    ((32, 5, 64), (2, 1, 0)),
    ((16, 5, 64), (2, 0, 1)),
    ((64, 16, 48), (1, 2, 0)),
    ((3, 4, 16, 2, 32), (1, 4, 0, 3, 2)),
    ((2, 3, 2, 3, 2, 3, 8, 9), (6, 0, 1, 7, 2, 5, 4, 3)),
)


@pytest.mark.parametrize("dtype", WIDTHS)
@pytest.mark.parametrize(("shape", "axes"), TRANSPOSES, ids=str)
def test_transposing_copies(dtype: str, shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    host = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    moved = gp.permute_dims(gp.from_numpy(host), axes)
    np.testing.assert_array_equal(on_host(moved), host.transpose(axes))
    out = gp.zeros(moved.shape, dtype)
    gp.ops.add(moved, moved, out=out)
    np.testing.assert_array_equal(out.to_numpy(), (host + host).transpose(axes))


@pytest.mark.parametrize("dtype", WIDTHS)
def test_transposing_copies_of_parts(dtype: str) -> None:
    """Offsets, gaps and negative steps: the wide path needs all of them to fit."""
    host = np.arange(80 * 96).reshape(80, 96).astype(dtype)
    x = gp.from_numpy(host)
    for rows, columns in (
        (slice(0, 64), slice(0, 64)),
        (slice(1, 65), slice(16, 80)),
        (slice(0, 64), slice(1, 65)),
        (slice(None, None, -1), slice(None)),
        (slice(None, None, 2), slice(16, 80)),
        (slice(None), slice(None, None, -1)),
    ):
        got = gp.permute_dims(x[rows, columns], (1, 0))
        np.testing.assert_array_equal(on_host(got), host[rows, columns].T)


def test_many_batches_of_small_transposes() -> None:
    host = np.arange(70_000 * 8 * 8, dtype=np.uint16).reshape(70_000, 8, 8)
    moved = gp.permute_dims(gp.from_numpy(host), (0, 2, 1))
    np.testing.assert_array_equal(on_host(moved), host.transpose(0, 2, 1))


# --- large arrays -------------------------------------------------------------------------------

MORE = 2**31 + 37


def _bytes(count: int) -> Any:
    """Something that repeats with no power of two."""
    return np.resize(np.random.default_rng(1).integers(0, 256, 1_000_003, np.uint8), count)


def test_more_than_two_to_the_31_elements() -> None:
    host = _bytes(MORE)
    x = gp.from_numpy(host)
    assert np.array_equal((x + 3).to_numpy(), host + np.uint8(3))
    assert np.array_equal((x < 100).to_numpy(), host < 100)
    assert np.array_equal(x.clone().to_numpy(), host)
    gp.ops.multiply(x, x, out=x)
    assert np.array_equal(x.to_numpy(), host * host)


def test_views_of_more_than_two_to_the_31_elements() -> None:
    host = _bytes(MORE)
    x = gp.from_numpy(host)
    assert np.array_equal(on_host(x[::-1] + 1), host[::-1] + np.uint8(1))
    assert np.array_equal(on_host(x[1:] ^ x[:-1]), host[1:] ^ host[:-1])
    assert np.array_equal(on_host(x[:: 2**30]), host[:: 2**30])
    columns = 2**30 + 5
    host, x = host[: 2 * columns].reshape(2, columns), x[: 2 * columns]
    x = gp.reshape(x, (2, columns))
    got = x[:, ::3] + x[1:, ::3]
    assert np.array_equal(on_host(got), host[:, ::3] + host[1:, ::3])


def test_transposing_more_than_two_to_the_31_elements() -> None:
    host = _bytes(46_400 * 46_304).reshape(46_400, 46_304)
    assert host.size > 2**31
    assert np.array_equal(on_host(gp.permute_dims(gp.from_numpy(host), (1, 0))), host.T)
    odd = host[:46_399, :46_303]
    x = gp.from_numpy(host)[:46_399, :46_303]
    assert np.array_equal(on_host(gp.permute_dims(x, (1, 0))), odd.T)


def test_broadcasting_to_more_than_two_to_the_31_elements() -> None:
    a, b = _bytes(50_000), _bytes(43_001)
    got = gp.ops.add(gp.reshape(gp.from_numpy(a), (50_000, 1)), gp.from_numpy(b))
    assert got.size > 2**31
    assert np.array_equal(got.to_numpy(), a[:, None] + b)


def test_more_than_two_to_the_32_bytes() -> None:
    count = 2**29 + 11
    host = np.arange(count, dtype=np.int64)
    x = gp.from_numpy(host)
    assert x.nbytes > 2**32
    got = gp.ops.subtract(x, 5)
    assert np.array_equal(got.to_numpy(), host - 5)
    assert np.array_equal(got.clone().to_numpy(), host - 5)


# --- graphs -------------------------------------------------------------------------------------


def test_in_a_graph() -> None:
    x, y = gp.ones(1000), gp.zeros(1000)
    gp.add(x, y, out=y)  # compiled before the capture, and in it
    graph = gp.CudaGraph()
    with graph:
        gp.add(x, y, out=y)
        z = gp.ops.where(y > 2, y * 2.0, y)
        w = gp.ops.exp(z - z)
    for _ in range(3):
        graph.replay()
    graph.synchronize()
    assert y.to_numpy().tolist() == [4.0] * 1000
    assert z.to_numpy().tolist() == [8.0] * 1000
    assert w.to_numpy().tolist() == [1.0] * 1000


def test_copies_in_a_graph() -> None:
    host = np.arange(64 * 64, dtype=np.float32).reshape(64, 64)
    x = gp.from_numpy(host)
    graph = gp.CudaGraph()
    with graph:
        moved = gp.permute_dims(x, (1, 0)).contiguous()
        half = _native.astype(moved[::2], "float16")
        packed = _native.astype(half, "int4")
        gp.add(x, 1, out=x)
    for _ in range(2):
        graph.replay()
    graph.synchronize()
    np.testing.assert_array_equal(moved.to_numpy(), host.T + 1)
    want = (host.T + 1)[::2].astype(np.float16)
    np.testing.assert_array_equal(half.to_numpy(), want)
    assert packed.shape == half.shape


# --- misalignment -------------------------------------------------------------------------------


@pytest.mark.nvrtc
@pytest.mark.parametrize("count", [1, 31, 1000, 4099])
@pytest.mark.parametrize(("dtype", "shift"), [("uint8", 1), ("float16", 2), ("float32", 4)])
def test_misaligned_arrays_take_the_narrow_kernels(count: int, dtype: str, shift: int) -> None:
    """A variable whose data does not start on a 16-byte boundary, seen as an array."""
    size = np.dtype(dtype).itemsize
    module = gp.RawModule(
        f'extern "C" {{ __device__ unsigned char first[{shift}]; '
        f"__device__ __align__({size}) unsigned char odd[{count * size}]; }}\n"
        "__global__ void touch(unsigned char* x) { x[0] = first[0] + odd[0]; }"
    )
    odd = module.get_global("odd", dtype)
    host = (np.arange(count) % 100).astype(dtype)
    module.set_global("odd", host)
    assert np.array_equal(gp.add(odd, odd).to_numpy(), host + host)
    assert np.array_equal(gp.mul(odd, 2).to_numpy(), host * np.dtype(dtype).type(2))
    gp.add(odd, odd, out=odd)
    assert np.array_equal(odd.to_numpy(), host + host)


def test_every_op_ran_on_the_gpu() -> None:
    assert {case.op for case in elementwise.CASES if case.gpu} == set(OPS)

"""Packed weights on a GPU: the case tables, equality with CPU simulation, batch invariance."""

from __future__ import annotations

import numpy as np
import pytest
from cases import quantize as cases
from cases.run_quantize import (
    host,
    rounding_limit,
    run_grouped,
    run_grouped_without_an_expert,
    run_linear,
    run_quantized_input,
    run_round_trip,
    run_sparse_round_trip,
    run_swiglu,
)

import pygpukit as gp


@pytest.mark.parametrize("dtype", cases.DTYPES)
@pytest.mark.parametrize("shape", cases.SHAPES, ids=str)
@pytest.mark.parametrize("fmt", cases.FORMATS, ids=str)
def test_round_trip(fmt: cases.Format, shape: tuple[int, int], dtype: str) -> None:
    run_round_trip(fmt, shape, dtype)


@pytest.mark.parametrize("dtype", cases.SPARSE_DTYPES)
@pytest.mark.parametrize("shape", [*cases.SPARSE_SHAPES, (640, 1288)], ids=str)
def test_sparse_round_trip(shape: tuple[int, int], dtype: str) -> None:
    run_sparse_round_trip(shape, dtype)


@pytest.mark.parametrize("dtype", cases.DTYPES)
@pytest.mark.parametrize("fmt", ["int4", "int8"])
def test_dequantize_into_an_address_of_any_alignment(fmt: str, dtype: str) -> None:
    packed = gp.quantize(gp.from_numpy(cases.weights((5, 136), dtype)), fmt)
    room = gp.zeros(5 * 136 + 2, dtype=dtype)
    gp.dequantize(packed, out=room[1:-1].reshape(5, 136))
    np.testing.assert_array_equal(host(room[1:-1]), host(packed.dequantize()).reshape(-1))
    assert host(room[:1])[0] == host(room[-1:])[0] == 0


@pytest.mark.parametrize("shape", [(130, 392), (33, 67)], ids=str)
@pytest.mark.parametrize("fmt", [*cases.FORMATS, cases.SPARSE], ids=str)
def test_same_bytes_as_the_reference(fmt: cases.Format, shape: tuple[int, int]) -> None:
    w = cases.weights(shape, "bfloat16")
    there = gp.quantize(gp.from_numpy(w), fmt.name, **fmt.options)
    here = gp.quantize(gp.from_numpy(w, device="cpu"), fmt.name, **fmt.options)
    for part in ("values", "scales", "zero_points", "tensor_scale", "metadata"):
        got, want = getattr(there, part), getattr(here, part)
        assert (got is None) == (want is None)
        if want is not None:
            np.testing.assert_array_equal(
                got.to_numpy().view(np.uint8), want.to_numpy().view(np.uint8), err_msg=part
            )


@pytest.mark.parametrize("dtype", cases.DTYPES)
@pytest.mark.parametrize("shape", [(20, 136), (640, 1288), (4096, 2048), (129, 33)], ids=str)
@pytest.mark.parametrize("m", [1, 5, 8, 9, 16, 33, 64, 65, 300])
@pytest.mark.parametrize("fmt", cases.FORMATS, ids=str)
def test_linear(fmt: cases.Format, m: int, shape: tuple[int, int], dtype: str) -> None:
    run_linear(fmt, m, shape, dtype)


@pytest.mark.parametrize("dtype", cases.SPARSE_DTYPES)
@pytest.mark.parametrize("shape", [(20, 136), (640, 1288), (4096, 2048), (129, 33)], ids=str)
@pytest.mark.parametrize("m", [1, 5, 16, 17, 64, 65, 300])
def test_sparse_linear(m: int, shape: tuple[int, int], dtype: str) -> None:
    run_linear(cases.SPARSE, m, shape, dtype)


@pytest.mark.parametrize("fmt", [*cases.FORMATS, cases.SPARSE], ids=str)
def test_swiglu(fmt: cases.Format) -> None:
    run_swiglu(fmt, "bfloat16")


@pytest.mark.parametrize("shape", [(512, 4096), (4096, 1024), (64, 136)], ids=str)
@pytest.mark.parametrize("fmt", [*cases.FORMATS, cases.SPARSE], ids=str)
def test_rows_do_not_depend_on_their_number(fmt: cases.Format, shape: tuple[int, int]) -> None:
    packed = gp.quantize(gp.from_numpy(cases.weights(shape, "bfloat16")), fmt.name, **fmt.options)
    x = gp.from_numpy(cases.weights((64, shape[1]), "bfloat16", 5))
    whole = host(gp.linear(x, packed, few_rows=True))
    for m in (1, 2, 7, 8, 9, 16, 24, 32, 40):
        np.testing.assert_array_equal(host(gp.linear(x[:m], packed, few_rows=True)), whole[:m])


@pytest.mark.parametrize("fmt", [cases.Format("int8"), cases.Format("fp8")], ids=str)
def test_quantize_input(fmt: cases.Format) -> None:
    w = cases.weights((256, 512), "bfloat16")
    packed = gp.quantize(gp.from_numpy(w), fmt.name)
    x = cases.weights((70, 512), "bfloat16", 7)
    bias = gp.ones(256, dtype="bfloat16")
    got = host(gp.linear(gp.from_numpy(x), packed, bias, quantize_input=True))
    rows = gp.quantize(gp.from_numpy(x), fmt.name)
    want = host(rows.dequantize("float32")) @ host(packed.dequantize("float32")).T + 1
    assert (np.abs(got - want) <= 2.0**-8 * np.abs(want) + 2e-2).all()


@pytest.mark.parametrize("dtype", cases.DTYPES)
@pytest.mark.parametrize("shape", [(20, 136), (129, 33), (640, 1288), (4096, 2048)], ids=str)
@pytest.mark.parametrize("m", [1, 17, 130])
@pytest.mark.parametrize("fmt", cases.BLOCK_FORMATS)
def test_quantize_input_in_blocks(fmt: str, m: int, shape: tuple[int, int], dtype: str) -> None:
    run_quantized_input(fmt, m, shape, dtype)


@pytest.mark.parametrize("fmt", cases.BLOCK_FORMATS)
def test_quantized_rows_are_those_of_the_reference(fmt: str) -> None:
    w = gp.eye(264, dtype="bfloat16")  # every number of x comes out as it is
    x = cases.weights((37, 264), "bfloat16", 3)
    there, here = (
        host(gp.linear(gp.from_numpy(x, device=d), gp.quantize(gp.asarray(w, device=d), fmt),
                       quantize_input=True))
        for d in ("cuda", "cpu")
    )  # fmt: skip
    np.testing.assert_array_equal(there, here)


@pytest.mark.parametrize("fmt", cases.FORMATS, ids=str)
def test_experts(fmt: cases.Format) -> None:
    if fmt.block:
        return
    from pygpukit import _native

    experts, n, k = 8, 96, 136
    w = cases.weights((experts * n, k), "bfloat16").reshape(experts, n, k)
    packed = gp.quantize(gp.from_numpy(w), fmt.name, **fmt.options)
    sizes = np.array([3, 0, 11, 1, 0, 40, 2, 0], np.int32)
    x = cases.weights((int(sizes.sum()), k), "bfloat16", 9)
    got = host(_native.grouped_linear(gp.from_numpy(x), packed, gp.from_numpy(sizes), True))
    numbers = host(packed.dequantize("float32"))
    owner = np.repeat(np.arange(experts), sizes)
    wide = x.astype(np.float64)
    want = np.stack([numbers[e] @ row for e, row in zip(owner, wide, strict=True)])
    limits = [
        rounding_limit(row[None], numbers[e], "bfloat16")[0]
        for e, row in zip(owner, wide, strict=True)
    ]
    assert (np.abs(got - want) <= np.stack(limits)).all()


@pytest.mark.parametrize("dtype", cases.DTYPES)
@pytest.mark.parametrize("sizes", cases.GROUP_SIZES, ids=str)
@pytest.mark.parametrize("fmt", [fmt for fmt in cases.FORMATS if not fmt.block], ids=str)
def test_grouped(fmt: cases.Format, sizes: tuple[int, ...], dtype: str) -> None:
    run_grouped(fmt, sizes, (96, 136), dtype)


@pytest.mark.parametrize("dtype", cases.DTYPES)
@pytest.mark.parametrize("m", [6, 70])
@pytest.mark.parametrize("fmt", [cases.Format("int4", 32), cases.Format("fp8")], ids=str)
def test_grouped_rows_without_an_expert(fmt: cases.Format, m: int, dtype: str) -> None:
    run_grouped_without_an_expert(fmt, m, dtype)


@pytest.mark.parametrize("m", [16, 80])
def test_a_graph_follows_the_sizes(m: int) -> None:
    stack = gp.from_numpy(cases.weights((3 * 32, 64), "bfloat16").reshape(3, 32, 64))
    packed = gp.quantize(stack, "int4", group=32)
    x = gp.from_numpy(cases.weights((m, 64), "bfloat16", 9))
    first, second = ([m, 0, 0], [3, m - 5, 2])
    sizes = gp.from_numpy(np.array(first, np.int32))
    want = [host(gp.grouped_gemm(x, packed, gp.from_numpy(np.array(s, np.int32))))
            for s in (first, second)]  # fmt: skip
    graph = gp.CudaGraph()
    with graph:
        out = gp.grouped_gemm(x, packed, sizes)
    for numbers, result in zip((first, second), want, strict=True):
        sizes[...] = gp.from_numpy(np.array(numbers, np.int32))
        graph.replay()
        np.testing.assert_array_equal(host(out), result)

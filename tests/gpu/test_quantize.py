"""Packed weights on a GPU: the case tables, equality with CPU simulation, batch invariance."""

from __future__ import annotations

import numpy as np
import pytest
from cases import quantize as cases
from cases.run_quantize import (
    host,
    rounding_limit,
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

"""How the cases of tests/cases/quantize.py are run, on either backend."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import pygpukit as gp
from cases import quantize as cases


def host(x: gp.GPUArray) -> NDArray[Any]:
    return np.asarray(x.to_numpy()).astype(np.float64)


def run_round_trip(fmt: cases.Format, shape: tuple[int, int], dtype: str) -> None:
    w = cases.weights(shape, dtype)
    packed = gp.quantize(gp.from_numpy(w), fmt.name, **fmt.options)
    assert packed.shape == shape
    assert packed.format == fmt.name
    back = packed.dequantize()
    assert str(back.dtype) == dtype
    assert back.shape == shape
    exact = host(packed.dequantize("float32"))
    error = np.abs(exact - w.astype(np.float64))
    limit = cases.largest_error(fmt, cases.group_amax(w, fmt)) * 1.0001 + 1e-6
    assert (error <= limit).all(), f"{error.max()} at {np.argmax(error - limit)}"
    np.testing.assert_array_equal(exact[w.astype(np.float32) == 0], 0)
    # Numbers of the format are their own nearest: a second time nothing changes. The scales of
    # nvfp4 are rounded, and those of zero points come from other extremes.
    if fmt.name in ("int8", "int4", "fp8", "nf4") and not fmt.zero_point:
        again = gp.quantize(packed.dequantize("float32"), fmt.name, **fmt.options)
        np.testing.assert_allclose(host(again.dequantize("float32")), exact, rtol=1e-5, atol=1e-7)


def rounded_rows(x: gp.GPUArray, fmt: str) -> NDArray[Any]:
    """The numbers that quantize_input makes of x: every row on its own, as a weight of one row."""
    rows = [gp.quantize(x[i : i + 1], fmt).dequantize("float32") for i in range(x.shape[0])]
    return np.concatenate([host(row) for row in rows])


def run_quantized_input(fmt: str, m: int, shape: tuple[int, int], dtype: str) -> None:
    """quantize_input=True against float64 of the numbers that both operands stand for."""
    n, k = shape
    packed = gp.quantize(gp.from_numpy(cases.weights(shape, dtype)), fmt)
    x = gp.from_numpy(cases.weights((m, k), dtype, 3))
    bias = gp.from_numpy(cases.weights((1, n), dtype, 4)[0])
    residual = gp.from_numpy(cases.weights((m, n), dtype, 5))
    rows, w = rounded_rows(x, fmt), host(packed.dequantize("float32"))
    want = rows @ w.T
    unit = cases.UNITS[dtype]
    sums = 2e-6 * (np.abs(rows) @ np.abs(w).T) + 1e-6
    y = gp.linear(x, packed, quantize_input=True)
    assert str(y.dtype) == dtype
    assert (np.abs(host(y) - want) <= unit * np.abs(want) + sums).all()
    y = gp.linear(x, packed, bias, "relu", residual, quantize_input=True)
    full = np.maximum(want + host(bias), 0) + host(residual)
    spread = np.abs(full) + np.abs(host(bias)) + np.abs(want)
    assert (np.abs(host(y) - full) <= unit * spread + sums).all()


def run_quantized_rows(fmt: cases.Format, m: int, shape: tuple[int, int], dtype: str) -> None:
    """quantize_input=True of int8 and fp8: rows with one scale, of blocks one per 128 of k."""
    packed = gp.quantize(gp.from_numpy(cases.weights(shape, dtype)), fmt.name, **fmt.options)
    x = gp.from_numpy(cases.weights((m, shape[1]), dtype, 3))
    rows = gp.quantize(x, fmt.name, group=128 if fmt.block else None)
    numbers, w = host(rows.dequantize("float32")), host(packed.dequantize("float32"))
    unit = cases.UNITS[dtype]
    want = numbers @ w.T
    limit = unit * np.abs(want) + 4e-6 * (np.abs(numbers) @ np.abs(w).T) + 1e-6
    assert (np.abs(host(gp.linear(x, packed, quantize_input=True)) - want) <= limit).all()


def run_sparse_round_trip(shape: tuple[int, int], dtype: str) -> None:
    """2:4 keeps the two largest of every four as they are, and what is 2:4 sparse whole."""
    w = cases.weights(shape, dtype)
    w[:, 3::3] = w[:, :1]  # equal magnitudes
    want = cases.pruned(w)
    packed = gp.quantize(gp.from_numpy(w), "2:4")
    assert (packed.shape, packed.format, packed.group) == (shape, "2:4", 0)
    assert packed.scales is None
    for to in ("float32", "bfloat16", "float16"):
        got = packed.dequantize(to)
        assert (got.shape, str(got.dtype)) == (shape, to)
        np.testing.assert_array_equal(host(got), host(gp.from_numpy(want).astype(to)))
    again = gp.quantize(packed.dequantize(), "2:4")
    np.testing.assert_array_equal(host(again.dequantize()), want.astype(np.float64))


def rounding_limit(x: NDArray[Any], w: NDArray[Any], dtype: str) -> NDArray[Any]:
    """Of x @ w.T, where w may be rounded to `dtype` before the product.

    k errors of at most a unit each add up like a random walk; four units are over six deviations.
    """
    unit = cases.UNITS[dtype]
    spread = np.sqrt(x**2 @ (w**2).T)
    size = np.abs(x) @ np.abs(w).T
    return np.asarray(unit * (np.abs(x @ w.T) + 4 * spread) + 2e-6 * size + 1e-6)


def run_linear(fmt: cases.Format, m: int, shape: tuple[int, int], dtype: str) -> None:
    """Against float64 of the numbers that the weight stands for."""
    n, k = shape
    rng = np.random.default_rng(1)
    packed = gp.quantize(gp.from_numpy(cases.weights(shape, dtype)), fmt.name, **fmt.options)
    x = gp.from_numpy(rng.standard_normal((m, k)).astype(np.float32)).astype(dtype)
    bias = gp.from_numpy(rng.standard_normal(n).astype(np.float32)).astype(dtype)
    residual = gp.from_numpy(rng.standard_normal((m, n)).astype(np.float32)).astype(dtype)
    w = host(packed.dequantize("float32"))
    want = host(x) @ w.T
    unit = cases.UNITS[dtype]
    limit = rounding_limit(host(x), w, dtype)
    for y in (gp.linear(x, packed), x @ packed.T, gp.matmul(x, packed.T)):
        assert str(y.dtype) == dtype
        assert (np.abs(host(y) - want) <= limit).all()
    y = gp.linear(x, packed, bias, "relu", residual)
    full = np.maximum(want + host(bias), 0) + host(residual)
    limit = limit + unit * (np.abs(full) + np.abs(host(bias)))
    assert (np.abs(host(y) - full) <= limit).all()


def run_swiglu(fmt: cases.Format, dtype: str) -> None:
    rng = np.random.default_rng(2)
    packed = gp.quantize(gp.from_numpy(cases.weights((48, 64), dtype)), fmt.name, **fmt.options)
    x = gp.from_numpy(rng.standard_normal((3, 64)).astype(np.float32)).astype(dtype)
    w = host(packed.dequantize("float32"))
    gate, up = np.split(host(x) @ w.T, 2, axis=-1)
    silu = gate / (1 + np.exp(-gate))
    y = host(gp.linear(x, packed, activation="swiglu"))
    of_gate, of_up = np.split(rounding_limit(host(x), w, dtype), 2, axis=-1)
    limit = 1.1 * of_gate * (np.abs(up) + of_up) + of_up * np.abs(silu)  # silu's slope: up to 1.1
    assert (np.abs(y - silu * up) <= limit + 2.0**-7 * np.abs(silu * up)).all()


def run_must_raise(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=r"quantize") as caught:
        gp.quantize(gp.ones((4, 64)), name, **options)
    assert str(caught.value).startswith(message)


def run_grouped(
    fmt: cases.Format, sizes: tuple[int, ...], shape: tuple[int, int], dtype: str
) -> None:
    """grouped_gemm of a packed stack, however the groups are given, against float64."""
    (n, k), experts = shape, len(sizes)
    stack = cases.weights((experts * n, k), dtype).reshape(experts, n, k)
    packed = gp.quantize(gp.from_numpy(stack), fmt.name, **fmt.options)
    m = sum(sizes)
    x = gp.from_numpy(cases.weights((m, k), dtype, 9))
    numbers = host(packed.dequantize("float32"))
    owner = np.repeat(np.arange(experts), sizes)
    want, limit = np.zeros((m, n)), np.zeros((m, n))
    for expert, matrix in enumerate(numbers):
        rows = owner == expert
        want[rows] = host(x)[rows] @ matrix.T
        limit[rows] = rounding_limit(host(x)[rows], matrix, dtype)
    order = np.random.default_rng(4).permutation(m)
    here = gp.from_numpy(np.array(sizes, np.int32))
    for y in (
        gp.grouped_gemm(x, packed, list(sizes)),
        gp.grouped_gemm(x, packed, here),
        gp.grouped_gemm(x, packed, here.astype("int64")),
    ):
        assert str(y.dtype) == dtype
        assert (np.abs(host(y) - want) <= limit).all()
    ids = gp.from_numpy(owner[order].astype(np.int32))
    y = gp.grouped_gemm(gp.from_numpy(x.to_numpy()[order]), packed, expert_ids=ids)
    assert (np.abs(host(y) - want[order]) <= limit[order]).all()


def run_grouped_without_an_expert(fmt: cases.Format, m: int, dtype: str) -> None:
    """Sizes that add up to less, negative ones, those beyond the rows, and an out of any layout."""
    stack = cases.weights((2 * 24, 64), dtype).reshape(2, 24, 64)
    packed = gp.quantize(gp.from_numpy(stack), fmt.name, **fmt.options)
    numbers = packed.dequantize(dtype)
    x = gp.from_numpy(cases.weights((m + 1, 65), dtype, 9))[1:, 1:]
    for sizes in ((1, 2), (-4, 2), (0, 0), (m, 9), (9 * m, 9)):
        given = gp.from_numpy(np.array(sizes, np.int32))
        want = host(gp.grouped_gemm(x, numbers, given))
        limit = 4 * rounding_limit(host(x), host(numbers).reshape(-1, 64), dtype).max()
        room = gp.full((m, 27), 7.0, dtype=dtype)
        got = gp.grouped_gemm(x, packed, given, out=room[:, 2:26])
        used = min(max(sizes[0], 0) + max(sizes[1], 0), m)
        assert (np.abs(host(got) - want)[:used] <= limit).all()
        assert (host(got)[used:] == 0).all()
        assert (host(room)[:, [0, 1, 26]] == 7).all()

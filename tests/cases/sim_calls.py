"""What the cases of cases.sim_families call: an op or two of a family, checked against NumPy.

Sizes are those of a tile or two: an interpreter runs them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import pygpukit as gp
from cases import (
    audio,
    conv,
    fuse,
    indexing,
    matmul,
    products,
    quantize,
    reduction,
    run_quantize,
    standard_values,
)
from cases import random as draws
from pygpukit import _native
from pygpukit.ops.matmul_plan import explain_matmul, with_matmul_plan

RNG = np.random.default_rng(20)


def normal(*shape: int, dtype: str = "float32") -> Any:
    return RNG.standard_normal(shape).astype(dtype)


def same(got: Any, want: Any, tolerance: float = 0.0) -> None:
    host = got.to_numpy()
    assert (host.shape, host.dtype) == (want.shape, want.dtype)
    np.testing.assert_allclose(host, want, rtol=tolerance, atol=tolerance)


def of_table(cases: Any, run: Callable[[Any], object], *names: str) -> Callable[[], None]:
    """The rows with these names."""

    def call() -> None:
        found = {str(case): case for case in cases}
        for name in names:
            run(found[name])

    return call


# --- elementwise, creation, random ---------------------------------------------------------------


def maps() -> None:
    x, y = normal(700), normal(40, 33)
    given = gp.from_numpy(y)
    same(gp.exp(gp.from_numpy(x)) * 2, np.exp(x) * 2, 1e-6)
    same(given + gp.from_numpy(y.T.copy()).T, y + y)  # a dense and a transposed operand
    same(given[::2, ::-3] + 1.5, y[::2, ::-3] + np.float32(1.5))
    same(gp.add(gp.from_numpy(x), gp.arange(700, dtype="int32")), x + np.arange(700.0))
    small = RNG.integers(-90, 90, 300).astype("int16")
    same(gp.from_numpy(small) // gp.asarray(small + 200), small // (small + 200))


def casts() -> None:
    whole = RNG.integers(-8, 8, (5, 31))
    packed = gp.from_numpy(whole).astype("int4")
    same(packed.astype("int64"), whole)
    wide = normal(300)
    narrow = gp.from_numpy(wide).astype("float8_e4m3fn").astype("float32").to_numpy()
    assert (np.abs(narrow - wide) <= np.abs(wide) / 16 + 2.0**-10).all()


def copies() -> None:
    x = normal(70, 40, 3)
    given = gp.from_numpy(x)
    same(given[:, :, 0].T.copy(), x[:, :, 0].T.copy())
    same(given.transpose(1, 0, 2).copy(), x.transpose(1, 0, 2).copy())
    same(gp.full((33,), 2.5), np.full(33, 2.5, "float32"))
    same(gp.full((33,), 2.5 + 1j, "complex128"), np.full(33, 2.5 + 1j))


def complex_functions(*ops: str) -> None:
    """All of the standard's special cases, and numbers."""
    for op in ops:
        call = getattr(gp, op)
        standard_values.check_call(op, "complex64", lambda x, f=call: f(gp.asarray(x)).to_numpy())


def ramps() -> None:
    same(gp.arange(5, 90, 3), np.arange(5, 90, 3))
    same(gp.linspace(0, 1, 50), np.linspace(0, 1, 50, dtype="float32"), 1e-7)
    same(gp.linspace(0, 90, 37, dtype="int32"), np.linspace(0, 90, 37, dtype="int32"))
    x = normal(33, 40)
    same(gp.tril(gp.from_numpy(x), 2), np.tril(x, 2))
    same(gp.triu(gp.from_numpy(x[:, :37].copy())), np.triu(x[:, :37]))
    same(gp.eye(5, 7, 1), np.eye(5, 7, 1, dtype="float32"))


def random_numbers(*names: str) -> None:
    """The numbers that the CPU draws."""
    table = {str(case): case for case in draws.CASES}
    for name in names:
        case = table[name]
        numbers = [gp.random.default_rng(7, device=d) for d in ("cuda", "cpu")]
        got, want = (case.call(rng, 300).to_numpy() for rng in numbers)
        draws.assert_same(case, got, want)


# --- GEMM ----------------------------------------------------------------------------------------


def product(
    engine: str, dtype: str, m: int, n: int, k: int, *, layout: str = "cc", **want: Any
) -> None:
    """A GEMM by the first plan of an engine (or prefix of a plan) with these properties."""
    case = matmul.Case("matmul", dtype, (m, k), (k, n), layout)
    a, b = (matmul.host_array(shape, dtype, 5) for shape in (case.a, case.b))
    x, y = (matmul.place(h, kind, None) for h, kind in zip((a, b), layout, strict=True))
    got = with_matmul_plan(lambda: gp.matmul(x, y), chosen(lambda: gp.matmul(x, y), engine, **want))
    matmul.assert_product(case, got.to_numpy(), a, b)


def chosen(call: Callable[[], object], engine: str, **want: Any) -> str:
    (explained,) = _native.explain_products(call, every_plan=True)
    for plan in explained["candidates"]:
        if plan["text"].startswith(engine) and all(plan[key] == want[key] for key in want):
            return str(plan["text"])
    raise AssertionError(f"no plan of {engine} with {want}:\n{explain_matmul(call)}")


def grouped(kernel: int) -> None:
    x, w = normal(50, 64, dtype="bfloat16"), normal(3, 64, 64, dtype="bfloat16")
    sizes = gp.asarray(np.array([20, 0, 30], "int32"))
    given = gp.from_numpy(x), gp.from_numpy(w)
    call = partial(gp.grouped_gemm, *given, sizes)
    got = with_matmul_plan(call, chosen(call, f"grouped(kernel={kernel}"))
    products.check_grouped(got.to_numpy(), x, w, np.repeat([0, 2], [20, 30]))


def packed(fmt: str, m: int, dtype: str = "bfloat16", **options: Any) -> None:
    format_ = quantize.Format(fmt, **options)
    run_quantize.run_round_trip(format_, (5, 384), dtype)
    run_quantize.run_linear(format_, m, (32, 256), dtype)


def packed_gemm(fmt: str, k: int = 264) -> None:
    w = gp.quantize(gp.from_numpy(quantize.weights((40, k), "bfloat16")), fmt)
    x = gp.from_numpy(quantize.weights((70, k), "bfloat16", 5))
    call = partial(gp.linear, x, w)
    got = run_quantize.host(with_matmul_plan(call, chosen(call, "packed_gemm(kernel=2")))
    host, numbers = run_quantize.host(x), run_quantize.host(w.dequantize("float32"))
    limit = run_quantize.rounding_limit(host, numbers, "bfloat16")
    assert (np.abs(got - host @ numbers.T) <= limit).all()


def sparse(kernel: int, m: int, n: int, k: int, dtype: str, few_rows: bool = False) -> None:
    run_quantize.run_sparse_round_trip((n, k), dtype)
    rng = np.random.default_rng(6)
    w, x = (rng.integers(-3, 4, s).astype("f4") for s in ((n, k), (m, k)))
    packed_ = gp.quantize(gp.from_numpy(w).astype(dtype), "2:4")
    rows, bias = gp.from_numpy(x).astype(dtype), gp.ones(n, dtype=dtype)
    call = partial(gp.linear, rows, packed_, bias, "relu", few_rows=few_rows)
    got = run_quantize.host(with_matmul_plan(call, chosen(call, f"sparse(kernel={kernel}")))
    want = np.maximum(x.astype("f8") @ quantize.pruned(w).T.astype("f8") + 1, 0)
    np.testing.assert_allclose(got, want, rtol=2.0**-8)


def quantized_input(fmt: str, plan: str) -> None:
    for m, n, k in ((20, 40, 133), (70, 9, 512)):  # scales of a row off and on four bytes
        w = gp.quantize(gp.from_numpy(quantize.weights((n, k), "bfloat16")), fmt)
        x = gp.from_numpy(quantize.weights((m, k), "bfloat16", 5))
        call = partial(gp.linear, x, w, quantize_input=True)
        # By a prefix: to explain would read sums that no GEMM has written.
        got = run_quantize.host(with_matmul_plan(call, plan))
        want = run_quantize.rounded_rows(x, fmt) @ run_quantize.host(w.dequantize("float32")).T
        np.testing.assert_allclose(got, want, rtol=2.0**-8, atol=1e-3 * np.abs(want).max())


def split_product() -> None:
    a, b = normal(65, 64), normal(64, 40)
    given = gp.from_numpy(a), gp.from_numpy(b)
    call = partial(gp.matmul, *given, precision="3xtf32")
    got = with_matmul_plan(call, chosen(call, "mma"))
    same(got, (a.astype("f8") @ b.astype("f8")).astype("f4"), 2e-5)


def block_scaled() -> None:
    w = gp.quantize(gp.from_numpy(quantize.weights((40, 256), "bfloat16")), "fp8", block=True)
    x = gp.from_numpy(quantize.weights((65, 256), "bfloat16", 5))
    # By the engine's name: to explain would read sums that no GEMM has written.
    call = partial(gp.linear, x, w, quantize_input=True)
    got = run_quantize.host(with_matmul_plan(call, "block_scaled"))
    rows = gp.quantize(x, "fp8", group=128).dequantize("float32")
    want = run_quantize.host(rows) @ run_quantize.host(w.dequantize("float32")).T
    np.testing.assert_allclose(got, want, rtol=2.0**-8, atol=1e-3 * np.abs(want).max())


# --- the rest ------------------------------------------------------------------------------------


def fused() -> None:
    for case in fuse.CASES[:1] + fuse.CASES[6:7]:
        for shape in ((5, 8), (3, 33)):
            host = case.draw(shape, "float32")
            given = [x if isinstance(x, float) else gp.asarray(x) for x in host]
            got = gp.fuse(case.ours)(*given).to_numpy().astype(np.float64)
            np.testing.assert_allclose(got, case.want(*host), rtol=1e-5, atol=1e-5)
    x = normal(300)
    same(gp.fuse(lambda a: gp.tanh(a) * 2 + a)(gp.from_numpy(x)), np.tanh(x) * 2 + x, 1e-6)


def indexed() -> None:
    for case in (*indexing.ADVANCED[6:13], *indexing.MASKS[:1], *indexing.MASKS[5:9]):
        indexing.run_get(case, "float32")
        indexing.run_set(case, "float32")
    x = normal(50, 8)
    given = gp.from_numpy(x)
    same(gp.take(given, gp.asarray(np.array([3, 1, 3])), axis=1), np.take(x, [3, 1, 3], axis=1))
    assert [c.tolist() for c in gp.nonzero(given > 1)] == [c.tolist() for c in np.nonzero(x > 1)]
    flat = np.array([7, 0, 399])
    for ours, theirs in zip(
        gp.unravel_index(gp.asarray(flat), (50, 8)), np.unravel_index(flat, (50, 8)), strict=True
    ):
        same(ours, theirs)


def sums(op: str, dtype: str, *layouts: reduction.Layout) -> None:
    for layout in layouts:
        reduction.run_case(reduction.Case(op, dtype, layout))


def conv_case(op: str, x: Any, w: Any, dtype: str = "float32", **options: Any) -> conv.Case:
    transposed = op == "conv_transpose1d"
    out = w[1] if transposed else w[0]
    return conv.Case(op, conv.text(x), dtype, conv.sized(x, w, dtype, out), options)


def whisper() -> None:
    """Against the CPU's."""
    wave = audio.voice(0.2)
    both = [gp.ops.audio.whisper_log_mel(gp.from_numpy(wave, device=d), 80) for d in (None, "cpu")]
    np.testing.assert_allclose(both[0].to_numpy(), both[1].to_numpy(), atol=2e-5)


def biquad() -> None:
    x = normal(2, 3000)
    want = audio.scipy.signal.sosfilt(audio.BUTTER, x.astype("float64"))
    got = gp.ops.audio.sosfilt(gp.from_numpy(x), audio.BUTTER).to_numpy()
    np.testing.assert_allclose(got, want, atol=1e-5)

"""Calls of the matmul family that are refused: class and words of the error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import pygpukit as gp
from cases.must_raise import Refused

Ones = Callable[..., Any]


def call(name: str, *shapes: Any, **options: Any) -> Callable[[Ones], object]:
    """gp.<name>(arrays of ones): a shape, or a shape and a dtype; anything else as it is."""

    def run(ones: Ones) -> object:
        def make(x: Any) -> Any:
            if isinstance(x, list):
                return ones(*x)
            return ones(x) if isinstance(x, tuple) else x

        return getattr(gp, name)(*map(make, shapes), **{k: make(v) for k, v in options.items()})

    return run


BF, F16, F64, I8, E4, E5 = "bfloat16", "float16", "float64", "int8", "float8_e4m3fn", "float8_e5m2"

# name, call, error, words
_ROWS: list[tuple[str, Callable[[Ones], object], type[Exception], tuple[str, ...]]] = [
    # matmul
    (
        "dtype below",
        call("matmul", (2, 3), (3, 4), dtype="int32"),
        TypeError,
        ("matmul: dtype is int32", "float32"),
    ),
    (
        "dtype of storage",
        call("matmul", (2, 3), (3, 4), dtype=E4),
        TypeError,
        ("dtype is float8_e4m3fn",),
    ),
    (
        "tf32 of bfloat16 with dtype",
        call("matmul", [(2, 3), BF], [(3, 4), BF], dtype="float32", use_tf32=True),
        RuntimeError,
        ("use_tf32", "bfloat16"),
    ),
    (
        "tf32 on the short way",
        call("matmul", [(2, 2), BF], [(2, 2), BF], use_tf32=True),
        RuntimeError,
        ("use_tf32", "bfloat16"),
    ),
    (
        "alpha of integers",
        call("matmul", [(2, 3), I8], [(3, 4), I8], alpha=0.5),
        TypeError,
        ("matmul: alpha is 0.5", "int8"),
    ),
    ("alpha", call("matmul", (2, 3), (3, 4), alpha="x"), TypeError, ("alpha is 'x'", "number")),
    ("use_tf32", call("matmul", (2, 3), (3, 4), use_tf32=1), TypeError, ("use_tf32 is 1",)),
    (
        "batch_invariant",
        call("matmul", (2, 3), (3, 4), batch_invariant="yes"),
        TypeError,
        ("batch_invariant is 'yes'",),
    ),
    ("keyword", call("matmul", (2, 3), (3, 4), gamma=1), TypeError, ("'gamma'",)),
    ("one operand", call("matmul", (2, 3)), TypeError, ("'x2'",)),
    (
        "out of broadcast",
        lambda ones: gp.matmul(ones((2, 3)), ones((3, 4)), out=gp.broadcast_to(ones((4,)), (2, 4))),
        ValueError,
        ("out is a broadcast view",),
    ),
    # addmm
    (
        "addmm dtype",
        call("addmm", [(2, 4), F64], (2, 3), (3, 4)),
        TypeError,
        ("addmm: residual has dtype float64", "float32"),
    ),
    (
        "addmm shape",
        call("addmm", (3, 4), (2, 3), (3, 4)),
        ValueError,
        ("addmm: residual has shape (3, 4)", "(2, 4)"),
    ),
    (
        "addmm beta of integers",
        call("addmm", [(2, 4), "int32"], [(2, 3), "int32"], [(3, 4), "int32"], beta=0.5),
        TypeError,
        ("addmm: beta is 0.5", "int32"),
    ),
    (
        "addmm of unsigned numbers",
        call("addmm", [(2, 4), "uint8"], [(2, 3), "uint8"], [(3, 4), "uint8"], alpha=-1),
        OverflowError,
        ("addmm: ", "uint8"),
    ),
    (
        "addmm inner",
        call("addmm", (2, 4), (2, 3), (5, 4)),
        ValueError,
        ("addmm: ", "dimension mismatch"),
    ),
    # linear
    (
        "linear inner",
        call("linear", (2, 3), (4, 5)),
        ValueError,
        ("linear: dimension mismatch", "(2, 3)", "(4, 5)"),
    ),
    ("linear w", call("linear", (2, 3), (3,)), ValueError, ("linear: w has shape (3,)",)),
    ("linear 0-d", call("linear", (), (4, 3)), ValueError, ("linear: x has shape ()",)),
    (
        "linear norm",
        call("linear", (2, 3), (4, 3), norm=(4,)),
        ValueError,
        ("linear: norm has shape (4,)", "expected (3,)"),
    ),
    (
        "linear many rows",
        call("linear", (65, 3), (4, 3), few_rows=True),
        ValueError,
        ("linear: x has shape (65, 3)", "few_rows takes up to 64 rows"),
    ),
    (
        "linear dtypes",
        call("linear", (2, 3), [(4, 3), BF]),
        TypeError,
        ("linear: w has dtype bfloat16, x has float32", "same dtype"),
    ),
    (
        "linear integers",
        call("linear", [(2, 3), I8], [(4, 3), I8]),
        TypeError,
        ("linear: x has dtype int8", "float16, bfloat16, float32 or float64"),
    ),
    (
        "linear fp8",
        call("linear", [(2, 3), E4], [(4, 3), E4]),
        TypeError,
        ("linear: x has dtype float8_e4m3fn",),
    ),
    (
        "linear bias",
        call("linear", (2, 3), (4, 3), (3,)),
        ValueError,
        ("linear: bias has shape (3,)", "(4,)"),
    ),
    (
        "linear bias of two dimensions",
        call("linear", (2, 3), (4, 3), (1, 4)),
        ValueError,
        ("linear: bias has shape (1, 4)",),
    ),
    (
        "linear bias dtype",
        call("linear", (2, 3), (4, 3), [(4,), F16]),
        TypeError,
        ("linear: bias has dtype float16",),
    ),
    (
        "linear residual",
        call("linear", (2, 3), (4, 3), residual=(3, 4)),
        ValueError,
        ("linear: residual has shape (3, 4)", "(2, 4)"),
    ),
    (
        "linear residual dtype",
        call("linear", (2, 3), (4, 3), residual=[(2, 4), F64]),
        TypeError,
        ("linear: residual has dtype float64",),
    ),
    (
        "activation",
        call("linear", (2, 3), (4, 3), activation="tanh"),
        ValueError,
        ("linear: activation is 'tanh'", "'swiglu'"),
    ),
    (
        "activation type",
        call("linear", (2, 3), (4, 3), activation=3),
        TypeError,
        ("linear: activation is 3",),
    ),
    (
        "swiglu rows",
        call("linear", (2, 3), (5, 3), activation="swiglu"),
        ValueError,
        ("linear: w has shape (5, 3)", "even"),
    ),
    (
        "swiglu residual",
        call("linear", (2, 3), (8, 3), activation="swiglu", residual=(2, 8)),
        ValueError,
        ("linear: residual has shape (2, 8)", "(2, 4)"),
    ),
    (
        "linear out",
        call("linear", (2, 3), (4, 3), out=(2, 3)),
        ValueError,
        ("linear: out has shape (2, 3)", "(2, 4)"),
    ),
    (
        "linear out dtype",
        call("linear", (2, 3), (4, 3), out=[(2, 4), I8]),
        TypeError,
        ("linear: out has dtype int8",),
    ),
    ("linear a list", call("linear", [(2, 3)], "w"), TypeError, ("linear: w is 'w'", "GPUArray")),
    (
        "linear bias no array",
        call("linear", (2, 3), (4, 3), 1.0),
        TypeError,
        ("linear: bias is 1.0", "GPUArray"),
    ),
    (
        "linear tf32",
        call("linear", [(2, 3), BF], [(4, 3), BF], use_tf32=True),
        RuntimeError,
        ("linear: use_tf32", "bfloat16"),
    ),
    # scaled_matmul
    (
        "scaled dtypes",
        call("scaled_matmul", [(2, 3), E4], [(3, 4), I8], 1.0, 1.0),
        TypeError,
        ("scaled_matmul: a has dtype float8_e4m3fn, b has int8",),
    ),
    (
        "scaled float32",
        call("scaled_matmul", (2, 3), (3, 4), 1.0, 1.0),
        TypeError,
        ("scaled_matmul: a has dtype float32",),
    ),
    (
        "scaled result",
        call("scaled_matmul", [(2, 3), E4], [(3, 4), E4], 1.0, 1.0, dtype=F64),
        TypeError,
        ("dtype is float64", "float32, float16 or bfloat16"),
    ),
    (
        "scaled inner",
        call("scaled_matmul", [(2, 3), E4], [(4, 4), E5], 1.0, 1.0),
        ValueError,
        ("dimension mismatch", "(2, 3)", "(4, 4)"),
    ),
    (
        "scaled rank",
        call("scaled_matmul", [(2, 3), E4], [(2, 3, 4), E4], 1.0, 1.0),
        ValueError,
        ("(..., m, k) and (k, n)",),
    ),
    (
        "scale_a shape",
        call("scaled_matmul", [(2, 3), E4], [(3, 4), E4], (3,), 1.0),
        ValueError,
        ("scale_a has shape (3,)", "(2,), (2, 1) or, per block, (2, 1)"),
    ),
    (
        "scale_b shape",
        call("scaled_matmul", [(2, 3), E4], [(3, 4), E4], 1.0, (4, 1)),
        ValueError,
        ("scale_b has shape (4, 1)", "(4,), (1, 4) or, per block, (1, 4)"),
    ),
    (
        "scale dtype",
        call("scaled_matmul", [(2, 3), E4], [(3, 4), E4], 1.0, [(4,), F16]),
        TypeError,
        ("scale_b has dtype float16", "float32"),
    ),
    (
        "scales per block of k",
        call("scaled_matmul", [(2, 256), E4], [(256, 4), E4], (2, 2), 1.0),
        TypeError,
        ("a is float8_e4m3fn with float32 scale per 128 of k", "no engine takes them together"),
    ),
    (
        "scales per block of 16",
        call("scaled_matmul", [(2, 256), I8], [(256, 4), I8], 1.0, (16, 4)),
        TypeError,
        ("b is int8 with float32 scale per 16 of k, which no engine takes",),
    ),
    (
        "scales per block of 128x128",
        call("scaled_matmul", [(2, 256), E4], [(256, 384), E5], (2,), (2, 3)),
        TypeError,
        ("b is float8_e5m2 with float32 scale per block of 128x128", "scale per column"),
    ),
    (
        "scale type",
        call("scaled_matmul", [(2, 3), E4], [(3, 4), E4], "x", 1.0),
        TypeError,
        ("scale_a is 'x'",),
    ),
    (
        "scaled bias",
        call("scaled_matmul", [(2, 3), E4], [(3, 4), E4], 1.0, 1.0, bias=(3,)),
        ValueError,
        ("bias has shape (3,)", "(4,)"),
    ),
    (
        "scaled bias dtype",
        call("scaled_matmul", [(2, 3), E4], [(3, 4), E4], 1.0, 1.0, bias=(4,), dtype=BF),
        TypeError,
        ("bias has dtype float32", "bfloat16"),
    ),
    (
        "scaled out",
        call("scaled_matmul", [(2, 3), E4], [(3, 4), E4], 1.0, 1.0, out=(4, 2)),
        ValueError,
        ("out has shape (4, 2)",),
    ),
    # matmul_fp8
    (
        "fp8 dtype",
        call("matmul_fp8", [(2, 3), F64], (3, 4)),
        TypeError,
        ("matmul_fp8: a has dtype float64",),
    ),
    ("fp8 rank", call("matmul_fp8", (2, 3), (3,)), ValueError, ("requires 2D arrays", "(3,)")),
    ("fp8 inner", call("matmul_fp8", (2, 3), (4, 3)), ValueError, ("dimension mismatch",)),
    (
        "fp8_fp8 dtype",
        call("matmul_fp8_fp8_sm120", (2, 3), (3, 4)),
        TypeError,
        ("matmul_fp8_fp8_sm120: a has dtype float32",),
    ),
    # gemv_bf16
    ("gemv dtype", call("gemv_bf16", (3,), (4, 3)), TypeError, ("gemv_bf16: a has dtype float32",)),
    (
        "gemv rank",
        call("gemv_bf16", [(1, 3), BF], [(4, 3), BF]),
        ValueError,
        ("gemv_bf16: a has shape (1, 3)",),
    ),
    (
        "gemv inner",
        call("gemv_bf16", [(3,), BF], [(4, 5), BF]),
        ValueError,
        ("dimension mismatch",),
    ),
    # grouped_gemm
    (
        "grouped neither",
        call("grouped_gemm", (2, 3), (5, 4, 3)),
        TypeError,
        ("either group_sizes or expert_ids",),
    ),
    (
        "grouped both",
        call("grouped_gemm", (2, 3), (5, 4, 3), [(5,), "int32"], [(2,), "int32"]),
        TypeError,
        ("either group_sizes or expert_ids",),
    ),
    (
        "grouped shapes",
        call("grouped_gemm", (2, 3), (5, 3, 4), [(5,), "int32"]),
        ValueError,
        ("(2, 3)", "(5, 3, 4)", "(experts, n, k)"),
    ),
    (
        "grouped dtypes",
        call("grouped_gemm", (2, 3), [(5, 4, 3), BF], [(5,), "int32"]),
        TypeError,
        ("grouped_gemm: w has dtype bfloat16",),
    ),
    (
        "grouped integers",
        call("grouped_gemm", [(2, 3), I8], [(5, 4, 3), I8], [(5,), "int32"]),
        TypeError,
        ("grouped_gemm: x has dtype int8",),
    ),
    (
        "sizes of another length",
        call("grouped_gemm", (2, 3), (5, 4, 3), [(4,), "int32"]),
        ValueError,
        ("group_sizes has shape (4,)", "(5,)"),
    ),
    (
        "sizes of another dtype",
        call("grouped_gemm", (2, 3), (5, 4, 3), (5,)),
        TypeError,
        ("group_sizes has dtype float32",),
    ),
    (
        "ids of another length",
        call("grouped_gemm", (2, 3), (5, 4, 3), expert_ids=[(5,), "int32"]),
        ValueError,
        ("expert_ids has shape (5,)", "(2,)"),
    ),
    (
        "ids on the host",
        lambda ones: gp.grouped_gemm(ones((2, 3)), ones((5, 4, 3)), expert_ids=_list(0, 1)),
        TypeError,
        ("expert_ids is [0, 1]", "GPUArray"),
    ),
    (
        "host sizes of another length",
        lambda ones: gp.grouped_gemm(ones((2, 3)), ones((5, 4, 3)), _list(2)),
        ValueError,
        ("group_sizes has 1 elements", "(5, 4, 3)"),
    ),
    (
        "host sizes that add up to less",
        lambda ones: gp.grouped_gemm(ones((2, 3)), ones((2, 4, 3)), _list(1, 0)),
        ValueError,
        ("add up to 1, x has 2",),
    ),
    (
        "host sizes that add up to more",
        lambda ones: gp.grouped_gemm(ones((2, 3)), ones((2, 4, 3)), _list(3, 0)),
        ValueError,
        ("group_sizes[0] is 3, expected 0 to 2", "the 2 rows of x"),
    ),
    (
        "negative host sizes",
        lambda ones: gp.grouped_gemm(ones((2, 3)), ones((2, 4, 3)), _list(1, -1)),
        ValueError,
        ("group_sizes[1] is -1, expected 0 to 1", "the 2 rows of x"),
    ),
    (
        "host sizes of floats",
        lambda ones: gp.grouped_gemm(ones((2, 3)), ones((2, 4, 3)), _list(1.0, 1.0)),
        TypeError,
        ("group_sizes is [1.0, 1.0]", "sequence of ints"),
    ),
    # explain_matmul
    (
        "explain inner",
        call("explain_matmul", (2, 3), (4, 5)),
        ValueError,
        ("matmul: ", "dimension mismatch"),
    ),
    (
        "explain linear",
        call("explain_matmul", (2, 3), (3, 4), bias=(3,)),
        ValueError,
        ("linear: bias has shape (3,)",),
    ),
    ("precision", call("set_matmul_precision", "high"), ValueError, ("'high'", "'tf32'")),
]


def _list(*values: Any) -> Any:
    return list(values)


def _numpy(ones: Ones) -> object:
    return gp.linear(ones((2, 3)), np.ones((4, 3)))  # type: ignore[arg-type]


MUST_RAISE = [Refused(*row) for row in _ROWS] + [
    Refused("linear of NumPy", _numpy, TypeError, ("linear: w", "GPUArray"))
]

"""Cases of linear(few_rows=True): a norm in front, SwiGLU and a residual behind, in one launch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np

import pygpukit as gp
from cases.products import Linear, check_linear, normal, seed_of

EPS = 1e-6


@dataclass(frozen=True)
class FewRows:
    """x [m, k] and w [n, k] (SwiGLU: [2 n, k])."""

    dtype: str
    m: int
    n: int
    k: int
    activation: str | None = None
    residual: bool = False
    normed: bool = False

    def __str__(self) -> str:
        parts = [self.dtype, f"{self.m}x{self.n}x{self.k}", self.activation or ""]
        parts += ["residual"] * self.residual + ["norm"] * self.normed
        return "-".join(part for part in parts if part)


SMALL = [(64, 64), (72, 200), (100, 264)]
LARGE = [(1024, 2048), (4096, 1024), (3072, 1024), (1000, 3072), (512, 12288), (20000, 256)]


def few_rows_cases(shapes: list[tuple[int, int]]) -> list[FewRows]:
    found = []
    for i, (n, k) in enumerate(shapes):
        dtype = ("bfloat16", "float16")[i % 2]
        found += [
            FewRows(dtype, 1, n, k, normed=True),
            FewRows(dtype, 8, n, k, "swiglu", normed=True),
            FewRows(dtype, 3, n, k, residual=True),
            FewRows(dtype, 9, n, k, "swiglu", normed=True),
            FewRows(dtype, 30, n, k, "gelu", residual=True, normed=True),
            FewRows(dtype, 64, n, k, "swiglu"),
        ]
    return [*found, FewRows("float32", 5, 100, 72, "swiglu", normed=True)]


def arrays_of(case: FewRows) -> dict[str, Any]:
    seed = seed_of(replace(case, m=64))  # of which a case has the first rows
    rows = 2 * case.n if case.activation == "swiglu" else case.n
    arrays = {
        "x": normal((64, case.k), case.dtype, seed)[: case.m],
        "w": normal((rows, case.k), case.dtype, seed + 1, case.k**-0.5),
    }
    if case.residual:
        arrays["residual"] = normal((64, case.n), case.dtype, seed + 2)[: case.m]
    if case.normed:
        arrays["norm"] = normal((case.k,), case.dtype, seed + 3) + np.array(1, case.dtype)
    return arrays


def call(case: FewRows, device: str | None = None, *, frozen: bool = False) -> Any:
    arrays = {name: gp.from_numpy(x, device=device) for name, x in arrays_of(case).items()}
    if frozen:
        gp.memory.freeze(arrays["w"])
    x, w = arrays.pop("x"), arrays.pop("w")
    return gp.linear(x, w, activation=case.activation, eps=EPS, few_rows=True, **arrays).to_numpy()


def run_few_rows(case: FewRows, device: str | None = None) -> None:
    """Against float64, and the same bits with frozen weights."""
    got = call(case, device)
    arrays = arrays_of(case)
    x = arrays["x"]
    allowance: Any = 0.0
    if case.normed:
        wide = x.astype(np.float64)
        scale = 1 / np.sqrt(np.mean(wide**2, -1, keepdims=True) + EPS)
        x = (wide * scale * arrays["norm"].astype(np.float64)).astype(case.dtype)
        # float32 and float64 may round a few elements of x to neighbours.
        flip = float(ml_dtypes.finfo(x.dtype).eps) * np.abs(x.astype(np.float64)).max(-1)
        allowance = 4 * flip[:, None] * float(np.abs(arrays["w"].astype(np.float64)).max())
    linear = Linear(case.dtype, x.shape, case.n, activation=case.activation)
    check_linear(linear, got, x, arrays["w"], None, arrays.get("residual"), allowance)
    np.testing.assert_array_equal(call(case, device, frozen=True), got)


def rows_do_not_depend_on_each_other(case: FewRows, device: str) -> None:
    """Bits of 1 to 64 rows."""
    most = call(replace(case, m=64), device)
    for m in (1, 2, 7, 8, 9, 16, 17, 32, 33, 63):
        np.testing.assert_array_equal(call(replace(case, m=m), device), most[:m])

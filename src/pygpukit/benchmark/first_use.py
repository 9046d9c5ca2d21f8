"""First-use latency: each op of a session once, in a process whose kernel caches are empty.

Run as a program (``python -m pygpukit.benchmark.first_use``) it prints one JSON object: seconds of
every op, after the context exists. The startup suite runs it in fresh processes.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

N = 1 << 16
GEMM = 4096
GEMM_SMALL = 512


def ops(gp: Any) -> list[tuple[str, Callable[[], Any]]]:
    """The session: (name, call), in the order a user might type them."""
    x = gp.linspace(0.1, 0.9, N, dtype="float32").reshape(256, 256)
    y = gp.full((256, 256), 0.5, dtype="float32")
    row = gp.full((256,), 0.25, dtype="float32")
    i = (gp.arange(N, dtype="int64") * 7919 % N).reshape(256, 256)
    mask = x > 0.5
    rows = gp.arange(0, 256, 2, dtype="int64")

    def unary(name: str) -> tuple[str, Callable[[], Any]]:
        return name, lambda: getattr(gp, name)(x)

    def gemm(dtype: str, n: int) -> tuple[str, Callable[[], Any]]:
        a = gp.ones((n, n), dtype=dtype)
        return f"matmul_{dtype}_{n}", lambda: a @ a

    arithmetic = [
        ("add", lambda: x + y),
        ("subtract", lambda: x - y),
        ("multiply", lambda: x * y),
        ("divide", lambda: x / y),
        ("power", lambda: x**y),
        ("add_scalar", lambda: x + 1.5),
        ("add_row", lambda: x + row),
        ("maximum", lambda: gp.maximum(x, y)),
        ("minimum", lambda: gp.minimum(x, y)),
        ("greater", lambda: x > y),
        ("equal", lambda: x == y),
        ("where", lambda: gp.where(mask, x, y)),
        ("clip", lambda: gp.clip(x, 0.2, 0.8)),
        ("int_add", lambda: i + i),
        ("int_remainder", lambda: i % 7),
        ("cast_bfloat16", lambda: x.astype("bfloat16")),
        ("cast_int32", lambda: i.astype("int32")),
        ("copy", lambda: x.copy()),
        *map(unary, ("negative", "abs", "sqrt", "exp", "log", "sin", "cos", "tanh")),
        *map(unary, ("floor", "round", "sign", "isnan", "square", "reciprocal")),
        ("logical_not", lambda: gp.logical_not(mask)),
    ]
    reductions = [
        ("sum", lambda: x.sum()),
        ("sum_axis_0", lambda: x.sum(axis=0)),
        ("sum_axis_1", lambda: x.sum(axis=1)),
        ("mean", lambda: x.mean(axis=1)),
        ("max", lambda: x.max(axis=1)),
        ("min", lambda: x.min()),
        ("argmax", lambda: x.argmax(axis=1)),
        ("var", lambda: x.var(axis=1)),
        ("std", lambda: x.std(axis=0)),
        ("prod", lambda: x.prod(axis=1)),
        ("any", lambda: mask.any()),
        ("all", lambda: mask.all(axis=1)),
        ("count_nonzero", lambda: gp.count_nonzero(mask)),
        ("int_sum", lambda: i.sum()),
        ("cumsum", lambda: gp.cumsum(x, axis=1)),
    ]
    sorts = [
        ("sort", lambda: gp.sort(x.reshape(-1))),
        ("sort_rows", lambda: gp.sort(x, axis=1)),
        ("argsort", lambda: gp.argsort(x.reshape(-1))),
        ("unique", lambda: gp.unique(i)),
        ("searchsorted", lambda: gp.searchsorted(row, y.reshape(-1))),
        ("median", lambda: gp.median(x)),
        ("bincount", lambda: gp.bincount(i.reshape(-1) % 100)),
    ]
    indexing = [
        ("take", lambda: gp.take(x, rows, axis=0)),
        ("fancy", lambda: x[rows]),
        ("boolean", lambda: x[mask]),
        ("slice_assign", lambda: x.copy().__setitem__(slice(0, 4), 0.0)),
        ("mask_assign", lambda: x.copy().__setitem__(mask, 0.0)),
        ("transpose", lambda: x.T.copy()),
        ("concat", lambda: gp.concat([x, y])),
        ("nonzero", lambda: gp.nonzero(mask)),
    ]
    vector = gp.ones((1, GEMM), dtype="bfloat16")
    matrix = gp.ones((GEMM, GEMM), dtype="bfloat16")
    products = [
        gemm("bfloat16", GEMM),
        gemm("float32", GEMM),
        gemm("float16", GEMM),
        gemm("float64", GEMM_SMALL),
        gemm("int8", GEMM_SMALL),
        ("matvec_bfloat16", lambda: vector @ matrix),
    ]
    return [*arithmetic, *reductions, *sorts, *indexing, *products]


def measure(only: str = "") -> dict[str, Any]:
    """Seconds of the first call of each op (or of those whose name starts with `only`)."""
    import pygpukit as gp

    gp.empty(256)  # the context
    spent: dict[str, float] = {}
    began = time.perf_counter()
    for name, call in ops(gp):
        if not name.startswith(only):
            continue
        start = time.perf_counter()
        call()
        gp.synchronize()
        spent[name] = time.perf_counter() - start
    return {"ops": spent, "total": time.perf_counter() - began, "sum": sum(spent.values())}


if __name__ == "__main__":
    print(json.dumps(measure(*sys.argv[1:2])))

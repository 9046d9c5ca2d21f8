"""Random calls of row-wise ops and of attention, against their float64 oracles.

GPK_FUZZ_CASES=100000 for the long run; GPK_FUZZ_SEED for others than those of CI.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from cases import attention, nn, run_attention, run_nn
from cases.views import VIEWS

SEED = int(os.environ.get("GPK_FUZZ_SEED", "23"))
ROW_OPS = ("rmsnorm", "layernorm", "l2norm", "softmax", "log_softmax", "log_likelihood", "rope")


def count(default: int) -> int:
    return int(os.environ.get("GPK_FUZZ_CASES", str(default)))


def _size(rng: np.random.Generator, most: int) -> int:
    """Of every order of magnitude, and often beside a multiple of 8."""
    size = int(np.exp(rng.uniform(0, np.log(most + 1))))
    if rng.random() < 0.5:
        size = size // 8 * 8 + int(rng.integers(-1, 2))
    return min(max(size, 1), most)


def run_rows(number: int, device: str | None = None, most: int = 100_000) -> None:
    """A call of a row-wise op; `most` elements."""
    rng = np.random.default_rng([SEED, number])
    op, dtype = str(rng.choice(ROW_OPS)), str(rng.choice(nn.DTYPES))
    width = _size(rng, min(most, 40_000))
    shape: tuple[int, ...] = (_size(rng, max(1, min(300, most // width))), width)
    options: dict[str, Any] = {}
    arguments: tuple[Any, ...] = ()
    if op == "rope":
        half = _size(rng, 128)
        shape = (_size(rng, 20), _size(rng, 6), 2 * half + int(rng.choice([0, 1, 8])))
        angles = rng.uniform(0, 6, (shape[0] + 5, half))
        arguments = (np.cos(angles).astype("f4"), np.sin(angles).astype("f4"))
        options = {"start": int(rng.integers(0, 6)), "interleaved": bool(rng.random() < 0.5)}
    elif op == "log_likelihood":
        arguments = (rng.integers(0, shape[1], shape[0]),)
    elif "softmax" in op:
        arguments = (int(rng.integers(-2, 2)),)
        options = {"scale": float(rng.uniform(0.1, 2))}
        if rng.random() < 0.5:
            options["mask"] = rng.random((shape[0], 1) if rng.random() < 0.3 else shape[1:]) < 0.7
    elif op != "l2norm":
        weights = 1 if op == "rmsnorm" else int(rng.integers(0, 3))
        kind = str(rng.choice([dtype, "float32"]))
        arguments = tuple(nn.normal(rng, shape[-1:], kind) for _ in range(weights))
    x = nn.normal(rng, shape, dtype, 3)
    case = nn.Case(op, f"fuzz-{SEED}-{number}", dtype, lambda _: (x, *arguments), options)
    run_nn.run_case(case, device, str(rng.choice(list(VIEWS))))


def attention_case(number: int, most: int) -> attention.Case:
    """Up to `most` queries and keys."""
    rng = np.random.default_rng([SEED, number])
    dtype = str(rng.choice(list(attention.TOLERANCE)))
    group = int(rng.choice([1, 1, 2, 4, 7]))
    packed, page = bool(rng.random() < 0.3), int(rng.choice([0, 0, 16, 32]))
    q, kv = _size(rng, most), _size(rng, most)
    kv = max(1, kv // page) * page if page else kv
    dim = int(rng.choice([32, 64, 96, 128, 192, 256, _size(rng, 256)]))
    values = {"causal": True, "window": _size(rng, kv), "softcap": 2.0, "scale": 0.1}
    arrays = [name for name in ("sinks", "lengths") if rng.random() < 0.4]
    if page and "lengths" not in arrays:
        arrays.append("lengths")
    if not packed and not page:
        arrays += [name for name in ("mask", "bias") if rng.random() < 0.25]
    return attention.Case(
        dtype,
        q,
        kv,
        heads=2 * group,
        kv_heads=2,
        dim=dim,
        value_dim=0 if rng.random() < 0.8 else _size(rng, 256),
        batch=int(rng.integers(1, 4)),
        options={name: value for name, value in values.items() if rng.random() < 0.4},
        arrays=tuple(arrays),
        packed=packed,
        page=page,
        spare=int(rng.integers(0, 3)) if page else 0,
        narrow=bool(rng.random() < 0.25),
    )


def run_attention_case(number: int, device: str | None = None, most: int = 40) -> None:
    run_attention.run_case(attention_case(number, most), device)

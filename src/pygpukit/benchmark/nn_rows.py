"""Row-wise ops as cases: norms, softmax, activations, positions, likelihoods, and the copy."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit.benchmark.contest import Arrays, Build, Case, Entry
from pygpukit.benchmark.measure import Step
from pygpukit.benchmark.oracle import relative_error, sample_indices, to_float64
from pygpukit.ops.fusion import fuse
from pygpukit.random import default_rng

if TYPE_CHECKING:
    from numpy.typing import NDArray

EPS = 1e-5
SEPARATE = "_separate"  # after the name of a fused function: its ops one by one
DIM = 128  # of a head, in rope


@dataclass(frozen=True)
class RowOp:
    """`arrays` are names for `_make`; results come last."""

    name: str
    arrays: str
    ours: Callable[..., Any]
    reference: Callable[..., Any]
    torch: Callable[..., Any] | None = None
    separate: Callable[..., Any] | None = None  # of a fused function: the same op by op


# --- references in float64, of sampled rows -----------------------------------------------------


def _normalize(x: Any, weight: Any) -> Any:
    return x / (((x * x).mean(-1, keepdims=True) + EPS) ** 0.5) * weight


def _layernorm(x: Any, weight: Any, bias: Any) -> Any:
    x = x - x.mean(-1, keepdims=True)
    return _normalize(x, weight) + bias


def _log_softmax(x: Any) -> Any:
    import numpy as np

    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def _softmax(x: Any) -> Any:
    import numpy as np

    return np.exp(_log_softmax(x))


def _gelu(x: Any) -> Any:
    import numpy as np

    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def _swiglu(gate: Any, up: Any) -> Any:
    import numpy as np

    return gate / (1 + np.exp(-gate)) * up


def _rope(x: Any, cos: Any, sin: Any) -> Any:
    import numpy as np

    heads = x.reshape(len(x), -1, DIM)
    low, high = heads[..., : DIM // 2], heads[..., DIM // 2 :]
    cos, sin = cos[:, None], sin[:, None]
    rotated = np.concatenate([low * cos - high * sin, high * cos + low * sin], -1)
    return rotated.reshape(x.shape)


def _loss(x: Any, targets: Any) -> Any:
    import numpy as np

    return -np.take_along_axis(_log_softmax(x), targets.astype(np.int64)[:, None], -1)


# --- the ops ------------------------------------------------------------------------------------


def _our_rope(x: Any, cos: Any, sin: Any, out: Any) -> Any:
    heads = (x.shape[0], -1, DIM)
    _native.rope(x.reshape(heads), cos, sin, out=out.reshape(heads))
    return out


def _their_add_rmsnorm(torch: Any, x: Any, y: Any, w: Any, *_: Any) -> Any:
    total = x + y
    return torch.nn.functional.rms_norm(total, w.shape, w, EPS), total


_fused_norm = fuse(lambda x, y, weight: _native.rmsnorm(x + y, weight, EPS) * 2)
_fused_softmax = fuse(lambda x, y: _native.softmax(x) * _native.silu(y))


def _separate_norm(x: Any, y: Any, weight: Any, out: Any) -> Any:
    _native.rmsnorm(_native.add(x, y, out=out), weight, EPS, out=out)
    return _native.multiply(out, 2, out=out)


def _separate_softmax(x: Any, y: Any, out: Any) -> Any:
    return _native.silu_multiply(y, _native.softmax(x, out=out), out=out)


ROW_OPS = (
    RowOp(
        "rmsnorm",
        "x weight out",
        lambda x, w, out: _native.rmsnorm(x, w, EPS, out=out),
        _normalize,
        lambda torch, x, w, out: torch.nn.functional.rms_norm(x, w.shape, w, EPS),
    ),
    RowOp(
        "add_rmsnorm",
        "x y weight out sum",
        lambda x, y, w, out, total: _native.add_rmsnorm(x, y, w, EPS, out=out, sum_out=total),
        lambda x, y, w: (_normalize(x + y, w), x + y),
        _their_add_rmsnorm,
    ),
    RowOp(
        "layernorm",
        "x weight bias out",
        lambda x, w, b, out: _native.layernorm(x, w, b, EPS, out=out),
        _layernorm,
        lambda torch, x, w, b, out: torch.nn.functional.layer_norm(x, w.shape, w, b, EPS),
    ),
    RowOp(
        "softmax",
        "x out",
        lambda x, out: _native.softmax(x, out=out),
        _softmax,
        lambda torch, x, out: torch.softmax(x, -1),
    ),
    RowOp(
        "log_softmax",
        "x out",
        lambda x, out: _native.log_softmax(x, out=out),
        _log_softmax,
        lambda torch, x, out: torch.log_softmax(x, -1),
    ),
    RowOp(
        "gelu",
        "x out",
        lambda x, out: _native.gelu(x, out=out),
        _gelu,
        lambda torch, x, out: torch.nn.functional.gelu(x, approximate="tanh"),
    ),
    RowOp(
        "swiglu",
        "x y out",
        lambda x, y, out: _native.silu_multiply(x, y, out=out),
        _swiglu,
        lambda torch, x, y, out: torch.nn.functional.silu(x) * y,
    ),
    RowOp("rope", "x cos sin out", _our_rope, _rope),
    RowOp(
        "log_likelihood",
        "x targets column",
        lambda x, t, out: _native.log_likelihood(x, t, out=out),
        _loss,
        lambda torch, x, t, out: torch.nn.functional.cross_entropy(x, t, reduction="none"),
    ),
    RowOp(
        "fused_norm",
        "x y weight out",
        lambda x, y, w, out: _fused_norm(x, y, w, out=out),
        lambda x, y, w: 2 * _normalize(x + y, w),
        lambda torch, x, y, w, out: 2 * torch.nn.functional.rms_norm(x + y, w.shape, w, EPS),
        _separate_norm,
    ),
    RowOp(
        "fused_softmax",
        "x y out",
        lambda x, y, out: _fused_softmax(x, y, out=out),
        lambda x, y: _softmax(x) * _swiglu(y, 1.0),
        lambda torch, x, y, out: torch.softmax(x, -1) * torch.nn.functional.silu(y),
        _separate_softmax,
    ),
)
_RESULTS = ("out", "sum", "column")
_ITEMSIZE = {"cos": 4, "sin": 4, "targets": 8, "column": 4}


def _shape(array: str, rows: int, width: int) -> tuple[int, ...]:
    if array in ("weight", "bias"):
        return (width,)
    if array in ("targets", "column"):
        return (rows,)
    return (rows, DIM // 2) if array in ("cos", "sin") else (rows, width)


def _make(op: RowOp, rows: int, width: int) -> Arrays:
    """One set of arrays, of random numbers."""
    random = default_rng(3)
    made: list[Any] = []
    for array in op.arrays.split():
        shape = _shape(array, rows, width)
        if array in _RESULTS:
            made.append(_native.empty(shape, "float32" if array == "column" else "bfloat16"))
        elif array == "targets":
            made.append(random.integers(0, width, shape))
        elif array in ("cos", "sin"):
            angles = default_rng(4).standard_normal(shape)
            made.append(_native.cos(angles) if array == "cos" else _native.sin(angles))
        else:
            made.append(random.standard_normal(shape, dtype="bfloat16"))
    return tuple(made)


def row_case(op: RowOp, rows: int, width: int, *, rotate: bool) -> Case:
    """One op on [rows, width] of bfloat16; bytes are what it reads and writes, once each."""
    if op.name == "rope":
        width = -(-width // DIM) * DIM
    names = op.arrays.split()
    num_bytes = sum(_ITEMSIZE.get(a, 2) * math.prod(_shape(a, rows, width)) for a in names)
    num_inputs = sum(name not in _RESULTS for name in names)

    def error(arrays: Arrays, out: Any) -> float:
        picked = sample_indices(rows, 6)
        inputs = [
            to_float64(x) if name in ("weight", "bias") else _rows(x, picked)
            for name, x in zip(names[:num_inputs], arrays[:num_inputs], strict=True)
        ]
        refs = op.reference(*inputs)
        outs, refs = ((x if isinstance(x, tuple) else (x,)) for x in (out, refs))
        sampled = [_rows(x, picked) for x in outs]
        if "column" in names:  # PyTorch's is the negative
            sampled = [abs(x) for x in sampled]
        pairs = zip(sampled, refs, strict=True)
        return max(relative_error(got.reshape(ref.shape), ref) for got, ref in pairs)

    def ours(*arrays: Any) -> Step:
        return lambda: op.ours(*arrays)

    def theirs(torch: Any, *tensors: Any) -> Step:
        assert op.torch is not None
        call = op.torch
        return lambda: call(torch, *tensors)

    def separately(*arrays: Any) -> Step:
        assert op.separate is not None
        call = op.separate
        return lambda: call(*arrays)

    entries = [Entry(ours, error, bytes=num_bytes)]
    if op.separate is not None:
        entries.append(Entry(separately, error, name=op.name + SEPARATE, bytes=num_bytes))
    if op.torch is not None:
        entries.append(Entry(theirs, error, impl="torch", bytes=num_bytes))
    return Case(
        op.name,
        {"rows": rows, "width": width, "dtype": "bfloat16"},
        lambda: _make(op, rows, width),
        entries,
        rotated_bytes=num_bytes if rotate else 0,
    )


def _rows(x: Any, picked: NDArray[Any]) -> NDArray[Any]:
    import numpy as np

    return np.stack([to_float64(x[int(i)]) for i in picked])


def copy_case(num_bytes: int) -> Case:
    """A copy that moves so many bytes: half of them read, half written."""
    num_elems = max(1, num_bytes // 4)

    def arrays() -> Arrays:
        source = default_rng(5).standard_normal(num_elems, dtype="bfloat16")
        return source, _native.empty(num_elems, "bfloat16")

    def error(given: Arrays, out: Any) -> float:
        ends = (slice(0, 4096), slice(-4096, None))
        return max(relative_error(to_float64(out[e]), to_float64(given[0][e])) for e in ends)

    def ours(source: Any, target: Any) -> Step:
        def step() -> Any:
            _native.copy_into(target, source)
            return target

        return step

    def theirs(torch: Any, source: Any, target: Any) -> Step:
        return lambda: target.copy_(source)

    builds: tuple[tuple[str, Build], ...] = (("pygpukit", ours), ("torch", theirs))
    entries = [
        Entry(build, error, impl=impl, bytes=4 * num_elems, tolerance=0.0) for impl, build in builds
    ]
    return Case("copy", {"bytes": 4 * num_elems}, arrays, entries, rotated_bytes=4 * num_elems)

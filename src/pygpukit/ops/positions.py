"""Position encodings: tables of rotary angles, ALiBi, additive encodings, and 0.2's names."""

from __future__ import annotations

import math
from collections.abc import Mapping

from pygpukit import _native
from pygpukit._naming import name_all
from pygpukit.core.arguments import amount, positive, require_arrays, whole
from pygpukit.core.errors import InvalidTypeError, InvalidValueError
from pygpukit.ops.data_types import isdtype

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    from pygpukit._native import GPUArray


_MAX_INT = 2**63 - 1


def rope_frequencies(
    dim: int,
    base: float = 10000.0,
    scaling: Mapping[str, Any] | None = None,
    *,
    max_positions: int | None = None,
    device: str | None = None,
) -> tuple[GPUArray, float]:
    """(angle per position of each pair, factor of cosines and sines), for rope_computed.

    ``scaling`` is the ``rope_scaling`` of a model's config.json: its ``rope_type`` (or ``type``)
    is one of default, linear, ntk, dynamic, yarn, llama3, longrope. ``max_positions`` is the
    longest sequence: dynamic depends on it, and longrope chooses its short or long factors by it.
    """
    frequencies, factor = _frequencies("rope_frequencies", dim, base, scaling, max_positions)
    return _native.from_numpy(frequencies.astype("float32"), device=device), factor


def rope_table(
    max_positions: int,
    dim: int,
    base: float = 10000.0,
    scaling: Mapping[str, Any] | None = None,
    *,
    dtype: str = "float32",
    device: str | None = None,
) -> tuple[GPUArray, GPUArray]:
    """(cos, sin) of shape (max_positions, dim / 2), for rope; ``scaling`` as rope_frequencies."""
    max_positions = whole("rope_table", "max_positions", max_positions)
    frequencies, factor = _frequencies("rope_table", dim, base, scaling, max_positions)
    return _tables(max_positions, frequencies, factor, dtype, device)


def _tables(
    rows: int, frequencies: NDArray[Any], factor: float, dtype: str, device: str | None
) -> tuple[GPUArray, GPUArray]:
    import numpy as np

    angles = np.arange(rows, dtype=np.float64)[:, None] * frequencies
    cos, sin = (
        _native.from_numpy((f(angles) * factor).astype(np.float32), device=device)
        for f in (np.cos, np.sin)
    )
    return _native.astype(cos, dtype, copy=False), _native.astype(sin, dtype, copy=False)


def _frequencies(
    op: str,
    dim: int,
    base: float,
    scaling: Mapping[str, Any] | None,
    max_positions: int | None,
) -> tuple[NDArray[Any], float]:
    import numpy as np

    if scaling is not None and not isinstance(scaling, Mapping):
        raise InvalidTypeError(
            f"{op}: scaling is {_native.safe_repr(scaling)}, expected a mapping, or None"
        )
    frequencies, factor = _native.rope_spectrum(
        op,
        whole(op, "dim", dim, high=_MAX_INT),
        amount(op, "base", base, -math.inf),
        dict(scaling or {}),
        0 if max_positions is None else whole(op, "max_positions", max_positions, high=_MAX_INT),
    )
    return np.asarray(frequencies), factor


# --- 0.2's tables: columns 2i and 2i + 1 hold the same angle ------------------------------------


def _columns_twice(
    op: str, rows: int, dim: int, base: float, scaling: Mapping[str, Any], factor: float = 1.0
) -> tuple[GPUArray, GPUArray]:
    import numpy as np

    rows = whole(op, "max_seq_len", rows)
    frequencies, _ = _frequencies(op, dim, base, scaling, rows)
    return _tables(rows, np.repeat(frequencies, 2), factor, "float32", None)


def rope_init_linear(
    max_seq_len: int, head_dim: int, base: float = 10000.0, scale: float = 1.0
) -> tuple[GPUArray, GPUArray]:
    """(cos, sin) of shape (max_seq_len, head_dim), positions divided by scale."""
    scaling = {"rope_type": "linear", "factor": scale}
    return _columns_twice("rope_init_linear", max_seq_len, head_dim, base, scaling)


def rope_init_ntk_aware(
    max_seq_len: int, head_dim: int, base: float = 10000.0, scale: float = 1.0
) -> tuple[GPUArray, GPUArray]:
    """(cos, sin) of shape (max_seq_len, head_dim) with base * scale**(dim / (dim - 2))."""
    scaling = {"rope_type": "ntk", "factor": scale}
    return _columns_twice("rope_init_ntk_aware", max_seq_len, head_dim, base, scaling)


def rope_init_yarn(
    max_seq_len: int,
    head_dim: int,
    base: float = 10000.0,
    scale: float = 1.0,
    original_max_len: int = 4096,
    beta_fast: float = 32.0,
    beta_slow: float = 1.0,
    mscale: float = 0.1,
) -> tuple[GPUArray, GPUArray]:
    """(cos, sin) of shape (max_seq_len, head_dim) by YaRN, times mscale * log(scale) + 1.

    The ramp runs over wavelengths from original_max_len / beta_fast to original_max_len /
    beta_slow.
    """
    import numpy as np

    op = "rope_init_yarn"
    max_seq_len = whole(op, "max_seq_len", max_seq_len)
    scale = positive(op, "scale", scale)
    original_max_len = whole(op, "original_max_len", original_max_len, 1)
    beta_fast, beta_slow = (
        positive(op, name, beta)
        for name, beta in (("beta_fast", beta_fast), ("beta_slow", beta_slow))
    )
    mscale = amount(op, "mscale", mscale, -math.inf)
    plain, _ = _frequencies(op, head_dim, base, None, max_seq_len)
    wavelengths = 2 * math.pi / plain
    low, high = original_max_len / beta_fast, original_max_len / beta_slow
    ramp = np.clip((wavelengths - low) / max(high - low, 1e-9), 0.0, 1.0)
    frequencies = plain / scale * ramp + plain * (1 - ramp)
    factor = mscale * math.log(scale) + 1 if scale > 1 else 1.0
    return _tables(max_seq_len, np.repeat(frequencies, 2), factor, "float32", None)


def rope_inplace(q: GPUArray, k: GPUArray, cos: GPUArray, sin: GPUArray) -> None:
    """Rotates q and k [seq, heads, dim] by the first half of the columns of cos and sin."""
    require_arrays("rope_inplace", q=q, k=k, cos=cos, sin=sin)
    half = q.shape[-1] // 2
    for name, x in (("q", q), ("k", k)):
        if x.ndim != 3 or cos.ndim != 2 or x.shape[0] > cos.shape[0]:
            raise InvalidValueError(
                f"rope_inplace: {name} has shape {x.shape}, cos {cos.shape}; expected "
                "(seq, heads, dim) and a row for each of seq"
            )
        _native.rope(x, cos[:, :half], sin[:, :half], out=x)


rope_inplace_f32table = rope_inplace


# --- additive encodings -------------------------------------------------------------------------


def pope_init_encoding(max_seq_len: int, head_dim: int, base: float = 10000.0) -> GPUArray:
    """Sinusoidal positions of shape (max_seq_len, head_dim): even columns sin, odd ones cos."""
    import numpy as np

    max_seq_len = whole("pope_init_encoding", "max_seq_len", max_seq_len)
    frequencies, _ = _frequencies("pope_init_encoding", head_dim, base, None, max_seq_len)
    angles = np.arange(max_seq_len, dtype=np.float64)[:, None] * frequencies
    table = np.stack([np.sin(angles), np.cos(angles)], -1).reshape(max_seq_len, head_dim)
    return _native.from_numpy(table.astype(np.float32))


def pope_inplace(q: GPUArray, k: GPUArray, encoding: GPUArray, start_pos: int = 0) -> None:
    """Adds row start_pos + s of the encoding to every head of token s, in q and k."""
    require_arrays("pope_inplace", q=q, k=k, encoding=encoding)
    start_pos = whole("pope_inplace", "start_pos", start_pos)
    for name, x in (("q", q), ("k", k)):
        last = start_pos + x.shape[0]
        if last > encoding.shape[0]:
            raise InvalidValueError(
                f"pope_inplace: {name} has positions {start_pos} to {last}, the encoding has "
                f"{encoding.shape[0]}"
            )
        rows = _native.expand_dims(encoding[start_pos:last], 1)
        _native.add(x, rows, out=x)


def alibi_init_slopes(num_heads: int) -> GPUArray:
    """2**(-8 (h + 1) / num_heads) for each head, in float32."""
    num_heads = whole("alibi_init_slopes", "num_heads", num_heads, 1, _MAX_INT)
    step = -8 / num_heads
    exponents = _native.arange(num_heads, step, step, "float64")
    return _native.astype(_native.exp2(exponents), "float32")


def alibi_compute_bias(
    seq_len: int, num_heads: int, slopes: GPUArray, causal: bool = True
) -> GPUArray:
    """-slope * (i - j) of shape (num_heads, seq_len, seq_len); causal: -1e9 for j > i."""
    op = "alibi_compute_bias"
    require_arrays(op, slopes=slopes)
    seq_len = whole(op, "seq_len", seq_len, high=_MAX_INT)
    num_heads = whole(op, "num_heads", num_heads, 1, _MAX_INT)
    if slopes.shape != (num_heads,):
        raise InvalidValueError(f"{op}: slopes has shape {slopes.shape}, expected ({num_heads},)")
    bias = _distance_bias(seq_len, seq_len, 0, slopes)
    if not causal:
        return bias
    keep = _native.tril(_native.full((seq_len, seq_len), True, "bool", device=slopes.device))
    return _native.where(keep, bias, -1e9)


def _distance_bias(rows: int, columns: int, start: int, slopes: GPUArray) -> GPUArray:
    """slope * (j - (start + i)) of shape (heads, rows, columns)."""
    queries = _native.arange(rows, start, 1, "float32", slopes.device)
    keys = _native.arange(columns, 0, 1, "float32", slopes.device)
    distances = _native.subtract(keys, _native.expand_dims(queries, 1))
    return _native.multiply(_native.expand_dims(slopes, (1, 2)), distances)


def alibi_add_bias(scores: GPUArray, slopes: GPUArray, start_pos: int = 0) -> GPUArray:
    """Adds -slope * (start_pos + i - j) to scores [batch, heads, q, kv], in place."""
    op = "alibi_add_bias"
    require_arrays(op, scores=scores, slopes=slopes)
    start_pos = whole(op, "start_pos", start_pos, high=_MAX_INT)
    if scores.ndim != 4 or slopes.shape != scores.shape[1:2]:
        raise InvalidValueError(
            f"{op}: scores has shape {scores.shape}, slopes {slopes.shape}; expected "
            "(batch, heads, q, kv) and (heads,)"
        )
    bias = _distance_bias(scores.shape[2], scores.shape[3], start_pos, slopes)
    return _native.add(scores, bias, out=scores)


def irope_scale_q(
    q: GPUArray, positions: GPUArray, attn_scale: float = 0.1, floor_scale: float = 8192.0
) -> GPUArray:
    """q [seq, heads, dim] times log1p(floor((position + 1) / floor_scale)) * attn_scale + 1."""
    require_arrays("irope_scale_q", q=q, positions=positions)
    if q.ndim != 3 or positions.shape != q.shape[:1]:
        raise InvalidValueError(
            f"irope_scale_q: q has shape {q.shape}, positions {positions.shape}; expected "
            "(seq, heads, dim) and (seq,)"
        )
    if not isdtype(positions.dtype, "integral"):
        raise InvalidTypeError(
            f"irope_scale_q: positions has dtype {positions.dtype}, expected integers"
        )
    attn_scale = amount("irope_scale_q", "attn_scale", attn_scale, -math.inf)
    floor_scale = positive("irope_scale_q", "floor_scale", floor_scale)
    blocks = _native.floor_divide(_native.add(positions, 1), floor_scale)
    scale = _native.add(_native.multiply(_native.log1p(blocks), attn_scale), 1.0)
    scale = _native.astype(_native.expand_dims(scale, (1, 2)), "float32")
    return _native.astype(_native.multiply(q, scale), q.dtype)


__all__ = [
    "alibi_add_bias",
    "alibi_compute_bias",
    "alibi_init_slopes",
    "irope_scale_q",
    "pope_init_encoding",
    "pope_inplace",
    "rope_frequencies",
    "rope_init_linear",
    "rope_init_ntk_aware",
    "rope_init_yarn",
    "rope_inplace",
    "rope_inplace_f32table",
    "rope_table",
]

name_all(globals(), __all__)

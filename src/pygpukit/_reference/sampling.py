"""Tokens from logits.

Probabilities are integers, so that sums do not depend on their order: the mass of a token is
exp(-d) in units of 2**-40 and its key d in units of 2**-17, where d is the distance from the
largest logit over the temperature. Every float32 operation is one that the kernels do, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pygpukit._reference.random import philox

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Optional = Any  # an array, or None
    Row = Any  # an array of one dimension
    PerRow = NDArray[Any] | float

_KEYS = 1 << 22
_ONE = np.float32(1)
# 2**f for |f| <= 1/2
_POWERS = (
    1.53707049e-4,
    1.33998482e-3,
    9.61837359e-3,
    5.55032901e-2,
    2.40226477e-1,
    6.93147182e-1,
    1.0,
)


def _fma(a: Row, b: Row, c: np.float32) -> Row:
    product: Row = a.astype(np.float64) * b  # exact
    return (product + np.float64(c)).astype(np.float32)


def _distances(x: Row, inverse_temperature: np.float32) -> Row:
    with np.errstate(over="ignore", invalid="ignore"):
        largest = np.max(x)
        d = (largest - x) * inverse_temperature
    return np.where(x == largest, np.float32(0), d)


def _keys(d: Row) -> Row:
    """Below 2**22 for d < 32."""
    bits = (d + np.float32(32)).view(np.uint32).astype(np.int64)
    return (bits - 0x42000000) >> 1


def _masses(d: Row) -> Row:
    near = np.minimum(d, np.float32(32))
    z = near * np.float32(-1.44269504)
    n = np.rint(z)
    f = z - n
    p = np.full_like(f, np.float32(_POWERS[0]))
    for power in _POWERS[1:]:
        p = _fma(p, f, np.float32(power))
    bits = p.view(np.uint32).astype(np.int64) + (n.astype(np.int64) << 23)
    mantissa = (bits & 0x7FFFFF) | 0x800000
    masses: Row = (mantissa << 17) >> (127 - (bits >> 23))
    return np.where(_keys(d) < _KEYS, masses, 0)


def _share(share: float, total: int) -> int:
    part = np.ceil(np.float64(share) * np.float64(total))
    if not part > 1:
        return 1
    return total if part >= np.float64(total) else int(part)


def _select(keys: Row, weights: Row, goal: int) -> int:
    """The smallest key at which the sum of weights, in the order of keys, is the goal."""
    order = np.argsort(keys, kind="stable")
    sums = np.cumsum(weights[order])
    return int(keys[order][np.searchsorted(sums, goal)])


def _typical(keys: Row, masses: Row, p: float) -> Row:
    total = int(masses.sum())
    moment = int(((masses * keys) >> 20).sum())
    centre = int(np.rint(np.float64(moment) * 2.0**20 / np.float64(total)))
    away = np.abs(keys - centre)
    left = masses > 0
    radius = _select(away[left], masses[left], _share(p, total))
    return np.where(away <= radius, masses, 0)


def _filtered(x: Row, row: dict[str, Any]) -> Row:
    """The masses of a row's tokens."""
    if not np.max(x) > -np.inf:
        return np.zeros(x.size, np.int64)
    temperature = np.float32(row["temperature"])
    if not temperature > 0:
        masses = np.zeros(x.size, np.int64)
        masses[np.argmax(x)] = 1
        return masses
    with np.errstate(over="ignore"):
        inverse = np.minimum(_ONE / temperature, np.finfo(np.float32).max)
    d = _distances(x, inverse)
    keys, masses = _keys(d), _masses(d)
    near = keys < _KEYS
    if 0 < row["top_k"] < x.size:
        k = min(int(row["top_k"]), int(near.sum()))
        masses = np.where(keys <= np.partition(keys[near], k - 1)[k - 1], masses, 0)
    if row["top_p"] < 1:
        left = masses > 0
        goal = _share(np.float32(row["top_p"]), int(masses.sum()))
        masses = np.where(keys <= _select(keys[left], masses[left], goal), masses, 0)
    if row["min_p"] > 0:
        least = int(np.float64(min(np.float32(row["min_p"]), _ONE)) * 2.0**40)
        masses = np.where(masses >= least, masses, 0)
    if row["typical_p"] < 1:
        masses = _typical(keys, masses, np.float32(row["typical_p"]))
    return masses


def _processed(
    x: Row, row: dict[str, Any], counts: Optional, bias: Optional, mask: Optional
) -> Row:
    """Logits with penalties, bias and mask. NaN counts as -inf."""
    x = x.astype(np.float32)
    with np.errstate(all="ignore"):
        if counts is not None:
            repetition = np.float32(row["repetition_penalty"])
            seen = np.where(x > 0, x / repetition, x * repetition)
            seen = seen - np.float32(row["frequency_penalty"]) * counts.astype(np.float32)
            seen = seen - np.float32(row["presence_penalty"])
            x = np.where(counts > 0, seen, x)
        if bias is not None:
            x = x + bias.astype(np.float32)
    allowed = ~np.isnan(x)
    if mask is not None:
        if mask.dtype != np.bool_:
            places = np.arange(x.size)
            mask = (mask.view(np.uint32)[places // 32] >> (places % 32).astype(np.uint32)) & 1 > 0
        allowed &= mask
    return np.where(allowed, x, np.float32(-np.inf)) + np.float32(0)


def _rows(
    logits: NDArray[Any],
    *,
    counts: Optional,
    logit_bias: Optional,
    mask: Optional,
    **parameters: PerRow,
) -> Any:
    """(row, masses) of every row."""
    width = logits.shape[-1]
    rows = logits.reshape(-1, width)
    many = {
        name: np.broadcast_to(np.asarray(value), logits.shape[:-1]).reshape(-1)
        for name, value in parameters.items()
    }

    def of(array: Optional, i: int) -> Optional:
        if array is None or array.ndim == 1:
            return array
        return array.reshape(-1, array.shape[-1])[i]

    for i in range(len(rows)):
        row = {name: value[i] for name, value in many.items()}
        x = _processed(rows[i], row, of(counts, i), of(logit_bias, i), of(mask, i))
        yield i, _filtered(x, row)


def _words(seed: Any, steps: Row, uniforms: Optional) -> list[int]:
    """A random number of 64 bits for each row."""
    if uniforms is not None:
        numbers = [float(u) for u in uniforms.reshape(-1)]
        return [int(u * 2.0**64) if 0 < u < 1 else (0 if u <= 0 else 2**64 - 1) for u in numbers]
    low, high = (
        steps.astype(np.uint64) & np.uint64(2**32 - 1),
        steps.astype(np.uint64) >> np.uint64(32),
    )
    zeros = np.zeros_like(low)
    if isinstance(seed, np.ndarray):
        columns = [
            philox((low[i], high[i], zeros[i], zeros[i]), int(key) % 2**64)[:2]
            for i, key in enumerate(seed.reshape(-1))
        ]
        return [int(second) << 32 | int(first) for first, second in columns]
    rows = np.arange(steps.size, dtype=np.uint64)
    first, second, *_ = philox((low, high, rows, zeros), int(seed) % 2**64)
    return [int(b) << 32 | int(a) for a, b in zip(first, second, strict=True)]


def sample(
    logits: NDArray[Any],
    *,
    seed: Any,
    step: int,
    uniforms: Optional,
    out: NDArray[Any] | tuple[NDArray[Any], NDArray[Any]],
    **filters: Any,
) -> None:
    """The first token at which the running mass exceeds a random part of all"""
    tokens, steps = out if isinstance(out, tuple) else (out, None)
    at = np.full(tokens.size, step, np.int64) if steps is None else steps.reshape(-1).copy()
    words = _words(seed, at, uniforms)
    for i, masses in _rows(logits, **filters):
        sums = np.cumsum(masses)
        total = int(sums[-1])
        target = words[i] * total >> 64
        tokens.flat[i] = np.searchsorted(sums, target, side="right") if total else -1
    if steps is not None:
        steps += 1


def sampling_probs(logits: NDArray[Any], *, out: NDArray[Any], **filters: Any) -> None:
    """Masses over their sum"""
    flat = np.empty((logits.size // logits.shape[-1], logits.shape[-1]), np.float32)
    for i, masses in _rows(logits, **filters):
        total = np.float32(max(int(masses.sum()), 1))
        flat[i] = masses.astype(np.float32) / total
    out[...] = flat.reshape(logits.shape)


def token_logprobs(
    logits: NDArray[Any],
    tokens: NDArray[Any],
    *,
    out: tuple[NDArray[Any], NDArray[Any], NDArray[Any]],
) -> None:
    """The logarithm of the softmax at tokens and at the largest logits"""
    chosen, ids, logprobs = out
    width, n = logits.shape[-1], ids.shape[-1]
    for place in np.ndindex(*tokens.shape):
        x = _processed(logits[place], {}, None, None, None)
        known = 0 <= tokens[place] < width and np.max(x) > -np.inf
        with np.errstate(divide="ignore", invalid="ignore"):
            total = np.float32(_masses(_distances(x, _ONE)).sum()) * np.float32(2.0**-40)
            relative = np.where(x == np.max(x), np.float32(0), x - np.max(x)) - np.log(total)
        chosen[place] = relative[tokens[place]] if known else np.nan
        best = np.argsort(-x, kind="stable")[:n]
        best = best[x[best] > -np.inf]
        ids[place] = -1
        logprobs[place] = -np.inf
        ids[place][: best.size] = best
        logprobs[place][: best.size] = relative[best]


def count_tokens(ids: NDArray[Any], *, out: NDArray[Any]) -> None:
    """How often each id occurs, added"""
    width = out.shape[-1]
    for place in np.ndindex(*out.shape[:-1]):
        row = np.atleast_1d(ids[place])
        out[place] += np.bincount(row[(row >= 0) & (row < width)], minlength=width).astype(np.int32)


def _listed(words: NDArray[Any], width: int) -> NDArray[Any]:
    """The bits of uint32 as bool."""
    bits = np.unpackbits(words.astype("<u4").view(np.uint8), bitorder="little")
    return bits[:width].astype(bool)


def timestamp_rules(
    logits: NDArray[Any],
    tokens: NDArray[Any],
    suppress: NDArray[Any],
    begin_suppress: NDArray[Any],
    *,
    eos: int,
    first_timestamp: int,
    max_initial: int,
    out: tuple[NDArray[Any], NDArray[Any]],
) -> None:
    """-inf for tokens that may not come next"""
    result, history = out
    width = logits.shape[-1]
    first = width if first_timestamp < 0 else first_timestamp
    never, never_first = _listed(suppress, width), _listed(begin_suppress, width)
    for row, token in enumerate(tokens.tolist()):
        count, last, before, newest = history[:, row].tolist()
        count += 1
        if count > 0:
            before, last = last, token
            newest = token if token >= first else newest
        history[:, row] = count, last, before, newest
        allowed = ~never
        if count == 0:
            allowed &= ~never_first
        if first < width:
            after_timestamp = count >= 1 and last >= first
            paired = count < 2 or before >= first
            if after_timestamp and paired:
                allowed[first:] = False
            elif after_timestamp:
                allowed[:eos] = False
            if newest >= first:
                allowed[first : newest + (not after_timestamp or paired)] = False
            if count == 0:
                allowed[:first] = False
                if max_initial >= 0:
                    allowed[first + max_initial + 1 :] = False
        x = np.where(allowed, logits[row].astype(np.float32), np.float32(-np.inf))
        top = np.max(x[first:], initial=-np.inf)
        if top > -np.inf:
            together = top + np.log(np.exp(x[first:] - top).sum(dtype=np.float32))
            allowed[:first] &= not together > np.max(x[:first], initial=-np.inf)
        result[row] = np.where(allowed, logits[row], logits.dtype.type(-np.inf))


__all__ = ["count_tokens", "sample", "sampling_probs", "timestamp_rules", "token_logprobs"]

"""Random numbers: how elements are computed from the words of a stream.

A stream is a Philox 4x32-10 key of 64 bits and a 96-bit position. The counter of block b is
position + b in its three low words and the attempt number in its top word. A 32-bit draw
takes word i % 4 of block i // 4 for element i; a 64-bit draw takes words 2 * (i % 2) (low half)
and 2 * (i % 2) + 1 (high half) of block i // 2. After a rejection, the same words of attempt
1, 2, ... are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Numbers = NDArray[np.uint64]

_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (0x9E3779B9, 0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_CHUNK = 1 << 18  # elements generated at a time, a multiple of every block size


def philox(counter: tuple[Any, Any, Any, Any], key: int) -> tuple[Any, Any, Any, Any]:
    """Four random words for each counter; words of both are uint64 arrays below 2**32."""
    c0, c1, c2, c3 = (np.asarray(c, dtype=np.uint64) for c in counter)
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    for _ in range(10):
        x, y = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c1 = (y >> _HALF) ^ c1 ^ np.uint64(k0), y & _LOW
        c2, c3 = (x >> _HALF) ^ c3 ^ np.uint64(k1), x & _LOW
        k0, k1 = (k0 + _WEYL[0]) & 0xFFFFFFFF, (k1 + _WEYL[1]) & 0xFFFFFFFF
    return c0, c1, c2, c3


class Stream:
    """The words of a key from a position on."""

    def __init__(self, key: int, position_low: int, position_high: int) -> None:
        self.key = key
        self.position = (position_high << 64) | position_low

    def blocks(self, blocks: Numbers, attempt: int = 0) -> Any:
        """The four words of each block, shape (blocks, 4)."""
        with np.errstate(over="ignore"):
            low = blocks + np.uint64(self.position & (2**64 - 1))
            high = (low < blocks).astype(np.uint64) + np.uint64(self.position >> 64)
        counter = (low & _LOW, low >> _HALF, high & _LOW, np.full_like(low, attempt))
        return np.stack(philox(counter, self.key), axis=-1)

    def narrow(self, elements: Numbers, attempt: int = 0) -> Any:
        """The 32-bit word of each element."""
        four = np.uint64(4)
        if attempt == 0:  # consecutive elements: each block once
            return self.blocks(_blocks_of(elements, 4)).reshape(-1)[: elements.size]
        words = self.blocks(elements // four, attempt)
        return words[np.arange(elements.size), (elements % four).astype(np.intp)]

    def wide(self, elements: Numbers, attempt: int = 0) -> Any:
        """The 64-bit word of each element."""
        two = np.uint64(2)
        if attempt == 0:
            words = self.blocks(_blocks_of(elements, 2)).reshape(-1, 2)[: elements.size]
        else:
            both = self.blocks(elements // two, attempt).reshape(-1, 2, 2)
            words = both[np.arange(elements.size), (elements % two).astype(np.intp)]
        return (words[:, 1] << _HALF) | words[:, 0]


def _blocks_of(elements: Numbers, per_block: int) -> Any:
    first, count = int(elements[0]) // per_block, -(-elements.size // per_block)
    return np.arange(first, first + count, dtype=np.uint64)


def _fill(out: NDArray[Any], draw: Callable[[Numbers], Any]) -> None:
    """out[i] = draw(i), in chunks that begin at a block."""
    for start in range(0, out.size, _CHUNK):
        elements = np.arange(start, min(start + _CHUNK, out.size), dtype=np.uint64)
        with np.errstate(over="ignore"):
            out.flat[start : start + elements.size] = draw(elements).astype(out.dtype, copy=False)


def _unit(stream: Stream, dtype: str, elements: Numbers) -> Any:
    """In [0, 1): 53, 24, 11 or 8 bits, all that the dtype holds."""
    if dtype == "float64":
        return (stream.wide(elements) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    bits = {"float32": 24, "float16": 11, "bfloat16": 8}[dtype]
    words = stream.narrow(elements) >> np.uint64(32 - bits)
    return words.astype(np.float32) * np.float32(2.0**-bits)


def _minus_log_narrow(words: Numbers) -> Any:
    """-log of (word + 1/2) * 2**-32, which is rounded to float32 first."""
    u = words.astype(np.uint32).astype(np.float32) * np.float32(2.0**-32) + np.float32(2.0**-33)
    return -np.log(u.astype(np.float64)) + 0.0


def _minus_log_wide(words: Numbers) -> Any:
    return -np.log(((words >> np.uint64(11)) + np.uint64(1)).astype(np.float64) * 2.0**-53) + 0.0


def random_uniform(
    key: int, position_low: int, position_high: int, low: float, span: float, *, out: NDArray[Any]
) -> None:
    """out = low + span * u, rounded after each operation; float16 and bfloat16 once more"""
    stream = Stream(key, position_low, position_high)
    dtype = out.dtype.name

    def draw(elements: Numbers) -> Any:
        u = _unit(stream, dtype, elements)
        return u * u.dtype.type(span) + u.dtype.type(low)

    _fill(out, draw)


def random_normal(
    key: int, position_low: int, position_high: int, loc: float, scale: float, *, out: NDArray[Any]
) -> None:
    """Box-Muller: words (x, y) give sqrt(-2 log x) times cos and sin of y turns."""
    stream = Stream(key, position_low, position_high)
    wide = out.dtype.name == "float64"

    def draw(elements: Numbers) -> Any:
        even = np.arange(elements[0], elements[-1] + np.uint64(2), dtype=np.uint64)
        if wide:
            words = stream.wide(even)
            words = words[: words.size // 2 * 2].reshape(-1, 2)
            minus_log = _minus_log_wide(words[:, 0])
            turns = (words[:, 1] >> np.uint64(11)).astype(np.float64) * 2.0**-53
        else:
            words = stream.narrow(even)
            words = words[: words.size // 2 * 2].reshape(-1, 2)
            minus_log = _minus_log_narrow(words[:, 0])
            turns = words[:, 1].astype(np.float64) * 2.0**-32
        radius, angle = np.sqrt(2.0 * minus_log), 2.0 * np.pi * turns
        pairs = np.stack((radius * np.cos(angle), radius * np.sin(angle)), axis=-1)
        return pairs.reshape(-1)[: elements.size] * scale + loc

    _fill(out, draw)


def random_exponential(
    key: int, position_low: int, position_high: int, scale: float, *, out: NDArray[Any]
) -> None:
    """out = -scale * log(u)"""
    stream = Stream(key, position_low, position_high)
    if out.dtype.name == "float64":
        _fill(out, lambda elements: _minus_log_wide(stream.wide(elements)) * scale)
    else:
        _fill(out, lambda elements: _minus_log_narrow(stream.narrow(elements)) * scale)


def random_bernoulli(
    key: int, position_low: int, position_high: int, threshold: int, *, out: NDArray[Any]
) -> None:
    """out = word < threshold, which is a probability times 2**32"""
    stream = Stream(key, position_low, position_high)
    _fill(out, lambda elements: stream.narrow(elements) < np.uint64(threshold))


def _high_and_low(a: Numbers, b: int) -> tuple[Any, Any]:
    """The two halves of the 128-bit product."""
    b0, b1 = np.uint64(b & 0xFFFFFFFF), np.uint64(b >> 32)
    a0, a1 = a & _LOW, a >> _HALF
    middle = a1 * b0 + ((a0 * b0) >> _HALF)
    other = a0 * b1 + (middle & _LOW)
    with np.errstate(over="ignore"):
        return a1 * b1 + (middle >> _HALF) + (other >> _HALF), a * np.uint64(b)


def random_integers(
    key: int, position_low: int, position_high: int, first: int, span: int, *, out: NDArray[Any]
) -> None:
    """out = first + the high half of word * (span + 1); 64-bit words where span >= 2**32

    Words whose low half is below 2**bits mod (span + 1) are rejected (Lemire), so that all
    values are equally likely. `first` is the lowest value modulo 2**64.
    """
    stream = Stream(key, position_low, position_high)
    count = span + 1
    bits = 64 if span >= 2**32 else 32
    least = np.uint64(2**bits % count)

    def halves(elements: Numbers, attempt: int) -> tuple[Any, Any]:
        if bits == 32:
            scaled = stream.narrow(elements, attempt) * np.uint64(count)
            return scaled >> _HALF, scaled & _LOW
        words = stream.wide(elements, attempt)
        return (words, words) if count == 2**64 else _high_and_low(words, count)

    def draw(elements: Numbers) -> Any:
        high, low = halves(elements, 0)
        attempt = 0
        again = np.flatnonzero(low < least)
        while again.size > 0:
            attempt += 1
            high[again], low = halves(elements[again], attempt)
            again = again[low < least]
        with np.errstate(over="ignore"):
            return np.asarray(high + np.uint64(first))

    _fill(out, draw)


__all__ = [
    "random_bernoulli",
    "random_exponential",
    "random_integers",
    "random_normal",
    "random_uniform",
]

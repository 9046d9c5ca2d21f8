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

from pygpukit import _native

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Numbers = NDArray[np.uint64]

_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (0x9E3779B9, 0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_CHUNK = 1 << 14  # elements generated at a time, a multiple of every block size


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

    def words(self, first: int, count: int) -> NDArray[np.uint32]:
        """`count` consecutive words (of four to a block) from block `first` on."""
        found = np.empty(-(-count // 4) * 4, np.uint32)
        _native.host_random_words(
            self.key, self.position & (2**64 - 1), self.position >> 64, first, found
        )
        return found[:count]

    def narrow(self, first: int, count: int) -> NDArray[np.uint32]:
        """The 32-bit words of elements from `first` on, which begins a block."""
        return self.words(first // 4, count)

    def wide(self, first: int, count: int) -> Numbers:
        """The 64-bit words of elements from `first` on, which begins a block."""
        return self.words(first // 2, 2 * count).astype("<u4", copy=False).view("<u8")

    def narrow_again(self, elements: Numbers, attempt: int) -> Any:
        """The 32-bit word of each element, of a later attempt."""
        words = self.blocks(elements // np.uint64(4), attempt)
        return words[np.arange(elements.size), (elements % np.uint64(4)).astype(np.intp)]

    def wide_again(self, elements: Numbers, attempt: int) -> Any:
        """The 64-bit word of each element, of a later attempt."""
        both = self.blocks(elements // np.uint64(2), attempt).reshape(-1, 2, 2)
        words = both[np.arange(elements.size), (elements % np.uint64(2)).astype(np.intp)]
        return (words[:, 1] << _HALF) | words[:, 0]


def _fill(out: NDArray[Any], draw: Callable[[int, int], Any]) -> None:
    """out[i] = draw(first, count), in chunks that begin at a block and stay in the cache."""
    flat = out.reshape(-1) if out.flags.c_contiguous else np.empty(out.size, out.dtype)
    for first in range(0, out.size, _CHUNK):
        part = flat[first : first + _CHUNK]
        np.copyto(part, draw(first, part.size), casting="unsafe")
    if not out.flags.c_contiguous:
        out[...] = flat.reshape(out.shape)


def _unit(stream: Stream, dtype: str, first: int, count: int) -> Any:
    """In [0, 1): 53, 24, 11 or 8 bits, all that the dtype holds."""
    if dtype == "float64":
        return (stream.wide(first, count) >> np.uint64(11)).view(np.int64) * 2.0**-53
    bits = {"float32": 24, "float16": 11, "bfloat16": 8}[dtype]
    words = stream.narrow(first, count) >> np.uint32(32 - bits)
    return words.view(np.int32).astype(np.float32) * np.float32(2.0**-bits)


def _minus_log_narrow(words: Any) -> Any:
    """-log of (word + 1/2) * 2**-32, which is rounded to float32 first."""
    u = words.astype(np.uint32).astype(np.float32) * np.float32(2.0**-32) + np.float32(2.0**-33)
    return -np.log(u.astype(np.float64)) + 0.0


def _minus_log_wide(words: Numbers) -> Any:
    return -np.log(((words >> np.uint64(11)) + np.uint64(1)).astype(np.float64) * 2.0**-53) + 0.0


# Corners of a polygon; an angle is one of them and a small rest.
_CORNERS = 256
_CORNER = np.exp(2j * np.pi * np.arange(_CORNERS + 1) / _CORNERS)
_CORNER_COSINE, _CORNER_SINE = _CORNER.real.copy(), _CORNER.imag.copy()


def circle(turns: Any) -> tuple[Any, Any]:
    """(cos, sin) of 2 pi turns in [0, 1), to 2e-15; NumPy's own take three times as long."""
    corner = (turns * _CORNERS).astype(np.intp)
    rest = (turns - corner * (1 / _CORNERS)) * (2 * np.pi)  # below 0.025
    z = rest * rest
    sine = (((z * (1 / 120)) - 1 / 6) * z + 1) * rest
    cosine = ((z * (-1 / 720) + 1 / 24) * z - 0.5) * z + 1
    c, s = _CORNER_COSINE[corner], _CORNER_SINE[corner]
    return c * cosine - s * sine, s * cosine + c * sine


def random_uniform(
    key: int, position_low: int, position_high: int, low: float, span: float, *, out: NDArray[Any]
) -> None:
    """out = low + span * u, rounded after each operation; float16 and bfloat16 once more"""
    if out.dtype.char == "f" and out.flags.c_contiguous:
        _native.host_random_units(key, position_low, position_high, out)
        if span != 1 or low != 0:
            np.multiply(out, np.float32(span), out=out)
            np.add(out, np.float32(low), out=out)
        return
    stream = Stream(key, position_low, position_high)
    dtype = out.dtype.name

    def draw(first: int, count: int) -> Any:
        u = _unit(stream, dtype, first, count)
        return u if span == 1 and low == 0 else u * u.dtype.type(span) + u.dtype.type(low)

    _fill(out, draw)


def random_normal(
    key: int, position_low: int, position_high: int, loc: float, scale: float, *, out: NDArray[Any]
) -> None:
    """Box-Muller: words (x, y) give sqrt(-2 log x) times cos and sin of y turns."""
    if out.dtype.char == "f" and out.flags.c_contiguous:
        _native.host_random_normals(key, position_low, position_high, loc, scale, out)
        return
    stream = Stream(key, position_low, position_high)
    wide = out.dtype.name == "float64"

    def draw(first: int, count: int) -> Any:
        even = count + count % 2
        if wide:
            words: Any = stream.wide(first, even).reshape(-1, 2)
            minus_log = _minus_log_wide(words[:, 0])
            turns = (words[:, 1] >> np.uint64(11)).view(np.int64) * 2.0**-53
        else:
            words = stream.narrow(first, even).reshape(-1, 2)
            minus_log = _minus_log_narrow(words[:, 0])
            turns = words[:, 1] * 2.0**-32
        radius = np.sqrt(2.0 * minus_log)
        cosine, sine = circle(turns)
        pairs = np.empty(words.shape)
        np.multiply(radius, cosine, out=pairs[:, 0])
        np.multiply(radius, sine, out=pairs[:, 1])
        values = pairs.reshape(-1)[:count]
        return values if scale == 1 and loc == 0 else values * scale + loc

    _fill(out, draw)


def random_exponential(
    key: int, position_low: int, position_high: int, scale: float, *, out: NDArray[Any]
) -> None:
    """out = -scale * log(u)"""
    stream = Stream(key, position_low, position_high)
    if out.dtype.name == "float64":
        _fill(out, lambda *where: _minus_log_wide(stream.wide(*where)) * scale)
    else:
        _fill(out, lambda *where: _minus_log_narrow(stream.narrow(*where)) * scale)


def random_bernoulli(
    key: int, position_low: int, position_high: int, threshold: int, *, out: NDArray[Any]
) -> None:
    """out = word < threshold, which is a probability times 2**32"""
    stream = Stream(key, position_low, position_high)
    _fill(out, lambda *where: stream.narrow(*where) < np.uint64(threshold))


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

    def halves(words: Any) -> tuple[Any, Any]:
        if bits == 32:
            scaled = words * np.uint64(count)
            return scaled >> _HALF, scaled.astype(np.uint32)
        return (words, words) if count == 2**64 else _high_and_low(words, count)

    def draw(start: int, size: int) -> Any:
        words: Any = stream.narrow(start, size) if bits == 32 else stream.wide(start, size)
        high, low = halves(words)
        again = np.flatnonzero(low < least) if least > 0 else np.empty(0, np.intp)
        attempt = 0
        while again.size > 0:
            attempt += 1
            elements = again.astype(np.uint64) + np.uint64(start)
            redraw = stream.narrow_again if bits == 32 else stream.wide_again
            high[again], low = halves(redraw(elements, attempt))
            again = again[low < least]
        return np.asarray(high + np.uint64(first)) if first else high

    _fill(out, draw)


__all__ = [
    "random_bernoulli",
    "random_exponential",
    "random_integers",
    "random_normal",
    "random_uniform",
]

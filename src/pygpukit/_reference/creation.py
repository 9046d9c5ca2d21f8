"""Evenly spaced numbers and triangular matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def arange(start: Any, step: Any, *, out: NDArray[Any]) -> None:
    """out[i] = start + i * step: integers modulo 2**64, everything else in float64"""
    count = np.arange(out.size, dtype=np.uint64)
    with np.errstate(all="ignore"):
        if out.dtype.kind in "iu":
            first, by = (np.uint64(n % 2**64) for n in (int(start), int(step)))
            np.copyto(out, first + count * by, casting="unsafe")
        else:
            delta = (float(start) + float(step)) - float(start)
            np.copyto(out, float(start) + count.astype(np.float64) * delta, casting="unsafe")


def linspace(start: complex, stop: complex, endpoint: bool, *, out: NDArray[Any]) -> None:
    """out.size numbers from start to stop, in float64; integers are rounded down"""
    with np.errstate(all="ignore"):
        real = np.linspace(start.real, stop.real, out.size, endpoint=endpoint)
        if out.dtype.kind == "c":
            out.real = real
            out.imag = np.linspace(start.imag, stop.imag, out.size, endpoint=endpoint)
        else:
            np.copyto(out, np.floor(real) if out.dtype.kind in "iu" else real, casting="unsafe")


def tril(x: NDArray[Any], k: int, *, out: NDArray[Any]) -> None:
    """out[..., i, j] = x[..., i, j] where j <= i + k, else 0"""
    rows, columns = np.arange(x.shape[-2])[:, None], np.arange(x.shape[-1])
    out[...] = np.where(columns <= rows + k, x, np.zeros((), x.dtype))


def triu(x: NDArray[Any], k: int, *, out: NDArray[Any]) -> None:
    """out[..., i, j] = x[..., i, j] where j >= i + k, else 0"""
    rows, columns = np.arange(x.shape[-2])[:, None], np.arange(x.shape[-1])
    out[...] = np.where(columns >= rows + k, x, np.zeros((), x.dtype))


__all__ = ["arange", "linspace", "tril", "triu"]

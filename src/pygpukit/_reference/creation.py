"""Evenly spaced numbers and triangular matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pygpukit._reference.blocks import LARGE

if TYPE_CHECKING:
    from numpy.typing import NDArray


def _wrapped(number: int) -> int:
    """Modulo 2**64, as a signed number."""
    return (number + 2**63) % 2**64 - 2**63


def arange(start: Any, step: Any, *, out: NDArray[Any]) -> None:
    """out[i] = start + i * step: integers modulo 2**64, everything else in float64"""
    integer = out.dtype.kind in "iu"
    first: Any = _wrapped(int(start)) if integer else float(start)
    by: Any = _wrapped(int(step)) if integer else (first + float(step)) - first
    for at in range(0, out.size, LARGE):  # what is converted stays in the cache
        part = out[at : at + LARGE]
        ramp: Any = np.arange(at, at + part.size, dtype=np.int64 if integer else np.float64)
        if by != 1:
            ramp *= by
        if first != 0:
            ramp += first
        np.copyto(part, ramp, casting="unsafe")


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
    _masked(x, columns <= rows + k, out)


def triu(x: NDArray[Any], k: int, *, out: NDArray[Any]) -> None:
    """out[..., i, j] = x[..., i, j] where j >= i + k, else 0"""
    rows, columns = np.arange(x.shape[-2])[:, None], np.arange(x.shape[-1])
    _masked(x, columns >= rows + k, out)


def _masked(x: NDArray[Any], mask: NDArray[Any], out: NDArray[Any]) -> None:
    if np.may_share_memory(x, out):
        x = x.copy()
    out[...] = np.zeros((), out.dtype)
    np.copyto(out, x, where=mask, casting="unsafe")


__all__ = ["arange", "linspace", "tril", "triu"]

"""Named results, as NumPy's."""

from __future__ import annotations

from typing import NamedTuple

from pygpukit._native import GPUArray


class EigResult(NamedTuple):
    """Of eig."""

    eigenvalues: GPUArray
    eigenvectors: GPUArray


class EighResult(NamedTuple):
    """Of eigh."""

    eigenvalues: GPUArray
    eigenvectors: GPUArray


class QRResult(NamedTuple):
    """Of qr."""

    Q: GPUArray
    R: GPUArray


class SlogdetResult(NamedTuple):
    """Of slogdet."""

    sign: GPUArray
    logabsdet: GPUArray


class SVDResult(NamedTuple):
    """Of svd."""

    U: GPUArray
    S: GPUArray
    Vh: GPUArray

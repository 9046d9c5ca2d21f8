"""The linalg family: matrices of every kind, and what a backward stable result satisfies.

A case is a kind of matrix, a dtype and a shape. Results are judged in float64 (complex128): by
residuals relative to the matrix, in units of n times the dtype's epsilon, and by NumPy's singular
values and eigenvalues.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np

DTYPES = ("float32", "float64", "complex64", "complex128")
SIZES = (0, 1, 2, 3, 5, 16, 31, 32, 33, 64, 65, 100, 130)
KINDS = ("random", "graded", "deficient", "clustered", "scaled")
UNITS = 10  # residuals, in n * epsilon

# The ops of the family that run_linalg.py judges.
OPS = {
    "linalg_cholesky",
    "linalg_eig",
    "linalg_eigh",
    "linalg_inv",
    "linalg_lu",
    "linalg_lu_solve",
    "linalg_qr",
    "linalg_slogdet",
    "linalg_solve",
    "linalg_svd",
    "linalg_triangular",
}


@dataclass(frozen=True)
class Case:
    kind: str
    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.kind}-{self.dtype}-{'x'.join(map(str, self.shape))}"

    def draw(self) -> Any:
        rng = np.random.default_rng(zlib.crc32(str(self).encode()))
        return _MAKERS[self.kind](rng, self.shape, self.dtype)

    def draw_hermitian(self, *, definite: bool = False) -> Any:
        """definite: with eigenvalues from 1 to 2 times a norm."""
        x = self.draw()
        if definite:
            wide = x.astype("complex128" if x.dtype.kind == "c" else "float64")
            big = max(float(np.abs(wide).max(initial=0)), 1e-30)
            gram = wide / big @ _adjoint(wide / big)
            norm = np.maximum(np.linalg.norm(gram, axis=(-2, -1), keepdims=True), 1e-30)
            return (big * (gram + norm * np.eye(x.shape[-1]))).astype(self.dtype)
        return ((x + _adjoint(x)) / 2).astype(self.dtype)


def _adjoint(x: Any) -> Any:
    return np.swapaxes(x.conj(), -1, -2)


def normal(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Any:
    x = rng.standard_normal(shape)
    if "complex" in dtype:
        x = x + 1j * rng.standard_normal(shape)
    return x.astype(dtype)


def _random(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Any:
    return normal(rng, shape, dtype)


def _graded(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Any:
    """Columns over many orders of magnitude."""
    grades = np.logspace(0, -12 if dtype in ("float64", "complex128") else -6, shape[-1])
    wide = normal(rng, shape, "complex128" if "complex" in dtype else "float64")
    return (wide * grades).astype(dtype)


def _deficient(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Any:
    """Half the rank, with a column of zeros."""
    *batch, m, n = shape
    rank = max(min(m, n) // 2, 1)
    x = normal(rng, (*batch, m, rank), dtype) @ normal(rng, (*batch, rank, n), dtype)
    x[..., n // 2 : n // 2 + 1] = 0
    return x.astype(dtype)


def _clustered(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Any:
    """Two singular values only, of which one is rare."""
    *batch, m, n = shape
    wide = "complex128" if "complex" in dtype else "float64"
    k = min(m, n)
    s = np.where(np.arange(k) < max(k // 4, 1), 3.0, 1.0)
    u = np.linalg.qr(normal(rng, (*batch, m, k), wide))[0]
    v = np.linalg.qr(normal(rng, (*batch, n, k), wide))[0]
    return ((u * s) @ _adjoint(v)).astype(dtype)


def _scaled(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Any:
    """Squares of elements are out of the dtype's range."""
    single = dtype in ("float32", "complex64")
    wide = normal(rng, shape, "complex128" if "complex" in dtype else "float64")
    return (wide * (1e25 if single else 1e200)).astype(dtype)


def _skewed(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Any:
    """Rows and columns on scales of their own."""
    most = 3 if dtype in ("float32", "complex64") else 8
    rows = 10.0 ** rng.uniform(-most, most, (*shape[:-1], 1))
    columns = 10.0 ** rng.uniform(-most, most, (*shape[:-2], 1, shape[-1]))
    wide = normal(rng, shape, "complex128" if "complex" in dtype else "float64")
    return (wide * rows * columns).astype(dtype)


def _tiny(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Any:
    """Squares of elements underflow."""
    wide = normal(rng, shape, "complex128" if "complex" in dtype else "float64")
    return (wide * (1e-28 if dtype in ("float32", "complex64") else 1e-200)).astype(dtype)


def _mixed(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Any:
    """A stack with a matrix of every kind that is not singular."""
    kinds = ("random", "graded", "clustered", "scaled", "skewed", "tiny")
    parts = [_MAKERS[kinds[i % len(kinds)]](rng, shape[1:], dtype) for i in range(shape[0])]
    return np.stack(parts)


_MAKERS = {
    "random": _random,
    "graded": _graded,
    "deficient": _deficient,
    "clustered": _clustered,
    "scaled": _scaled,
    "skewed": _skewed,
    "tiny": _tiny,
    "mixed": _mixed,
}

# All sizes once, dtypes and kinds in turn; then every kind with every dtype at a few sizes.
SQUARE = [
    Case(KINDS[i % len(KINDS)], DTYPES[(i // 2) % len(DTYPES)], (n, n)) for i, n in enumerate(SIZES)
] + [Case(kind, dtype, (n, n)) for kind in KINDS for dtype in DTYPES for n in (5, 33)]
BATCHED = [
    Case("random", "float32", (3, 16, 16)),
    Case("random", "complex128", (2, 3, 5, 5)),
    Case("graded", "float64", (4, 1, 33, 33)),
    Case("random", "float64", (0, 4, 4)),
    Case("random", "complex64", (2, 0, 0)),
]
OBLONG = [
    Case("random", "float32", (7, 3)),
    Case("random", "float64", (3, 7)),
    Case("deficient", "complex64", (40, 9)),
    Case("graded", "complex128", (2, 9, 40)),
    Case("random", "float64", (2, 70, 33)),
    Case("scaled", "float32", (5, 31)),
    Case("random", "float32", (4, 0)),
    Case("random", "float32", (0, 4)),
]
EXTREME = [Case(kind, dtype, (17, 17)) for kind in ("skewed", "tiny") for dtype in DTYPES] + [
    Case("mixed", dtype, (6, 7, 7)) for dtype in DTYPES
]
LARGE = [
    Case("random", "float32", (130, 130)),
    Case("graded", "float64", (100, 100)),
    Case("deficient", "complex64", (100, 100)),
    Case("clustered", "complex128", (65, 65)),
    Case("scaled", "float64", (2, 70, 70)),
]

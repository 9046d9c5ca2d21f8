"""Eigenvalues and eigenvectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pygpukit import _native
from pygpukit.core.arguments import array_argument
from pygpukit.core.errors import UnsupportedError
from pygpukit.linalg._arguments import uses_upper
from pygpukit.linalg._results import EighResult, EigResult

if TYPE_CHECKING:
    from typing import Any

    from pygpukit._native import GPUArray, _ArrayLike


def eigh(x: _ArrayLike, /, UPLO: str = "L", *, check: bool = True) -> EighResult:
    """EighResult(eigenvalues, eigenvectors) of Hermitian matrices.

    Eigenvalues are real and in ascending order, eigenvectors are columns. Only the triangle UPLO
    ('L' or 'U') is read. Above order 64 (48 for complex128) one number is read back for each sweep
    of the iteration, so it waits for the device also with check=False.
    """
    x = array_argument("eigh", "x", x)
    upper = uses_upper("eigh", UPLO)
    w, v = _native.linalg_eigh(x, upper, True, check)
    return EighResult(w, v)


def eigvalsh(x: _ArrayLike, /, UPLO: str = "L", *, check: bool = True) -> GPUArray:
    """The eigenvalues of Hermitian matrices in ascending order."""
    x = array_argument("eigvalsh", "x", x)
    upper = uses_upper("eigvalsh", UPLO)
    w, _ = _native.linalg_eigh(x, upper, False, check, False, "eigvalsh")
    return w


def _on_cpu(op: str, value: Any) -> GPUArray:
    x = array_argument(op, "x", value)
    if not str(x.device).startswith("cpu"):
        raise UnsupportedError(
            f"{op}: general matrices have no GPU algorithm; x is on {x.device}. Use "
            f"gp.linalg.{op}(x.to_device('cpu')), numpy.linalg.{op}(x.to_numpy()), or eigh for "
            "Hermitian matrices"
        )
    return x


def eig(x: _ArrayLike, /, *, check: bool = True) -> EigResult:
    """EigResult(eigenvalues, eigenvectors) of general matrices, both complex. CPU only."""
    x = _on_cpu("eig", x)
    w, v = _native.linalg_eig(x, True, check)
    return EigResult(w, v)


def eigvals(x: _ArrayLike, /, *, check: bool = True) -> GPUArray:
    """The eigenvalues of general matrices, complex. CPU only."""
    x = _on_cpu("eigvals", x)
    w, _ = _native.linalg_eig(x, False, check, "eigvals")
    return w

"""Arguments that the functions of the module share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pygpukit._native import safe_repr
from pygpukit.core.arguments import array_argument
from pygpukit.core.errors import InvalidTypeError, InvalidValueError
from pygpukit.linalg._errors import LinAlgError

if TYPE_CHECKING:
    from pygpukit._native import GPUArray

TRANS = {0: 0, "N": 0, 1: 1, "T": 1, 2: 2, "C": 2}
FLOATING = ("float32", "float64", "complex64", "complex128")


def matrices(op: str, name: str, value: Any) -> GPUArray:
    """`value` as an array of at least two axes."""
    x = array_argument(op, name, value)
    if x.ndim < 2:
        raise LinAlgError(f"{op}: {name} has shape {x.shape}, expected at least two dimensions")
    return x


def floating(op: str, x: GPUArray) -> GPUArray:
    """x, or for integers x as float64; other dtypes are refused."""
    name = str(x.dtype)
    if name in FLOATING:
        return x
    if "float" in name or name.endswith("int4"):
        raise InvalidTypeError(
            f"{op}: x has dtype {name}, expected float32, float64, complex64, complex128 or an "
            "integer dtype"
        )
    return x.astype("float64")


def epsilon(x: GPUArray) -> float:
    """Of the dtype of a floating array."""
    return float(np.finfo(str(x.dtype)).eps)


def uses_upper(op: str, uplo: object) -> bool:
    """UPLO as a flag."""
    if not isinstance(uplo, str) or uplo.upper() not in ("L", "U"):
        raise InvalidValueError(f"{op}: UPLO is {safe_repr(uplo)}, expected 'L' or 'U'")
    return uplo.upper() == "U"


def adjoint_code(op: str, trans: object) -> int:
    """SciPy's trans: 0 or 'N', 1 or 'T', 2 or 'C'."""
    if isinstance(trans, (int, str)) and trans in TRANS:
        return TRANS[trans]
    raise InvalidValueError(f"{op}: trans is {safe_repr(trans)}, expected 0, 1, 2, 'N', 'T' or 'C'")


def adjoint(x: GPUArray) -> GPUArray:
    """The conjugate transpose."""
    import pygpukit as gp

    return gp.conj(x).mT if "complex" in str(x.dtype) else x.mT

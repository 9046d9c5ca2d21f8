"""Linear algebra: the array API's linalg extension, numpy.linalg, and more of SciPy's.

>>> q, r = gp.linalg.qr(gp.ones((4, 3)))

Matrices are the last two axes, all others are a batch. float32, float64, complex64 and complex128;
integers compute in float64. Where NumPy raises LinAlgError so do these functions, which takes a
wait for the device; ``check=False`` does not wait and gives NaN for such matrices.
"""

from pygpukit._naming import name_all
from pygpukit.linalg._eigen import eig, eigh, eigvals, eigvalsh
from pygpukit.linalg._errors import LinAlgError
from pygpukit.linalg._factors import (
    cholesky,
    cholesky_solve,
    lu,
    lu_factor,
    lu_solve,
    qr,
    solve_triangular,
    svd,
    svdvals,
)
from pygpukit.linalg._functions import cond, expm, lstsq, matrix_power, matrix_rank, pinv
from pygpukit.linalg._norms import matrix_norm, norm, vector_norm
from pygpukit.linalg._products import cross, diagonal, multi_dot, outer, trace
from pygpukit.linalg._results import EighResult, EigResult, QRResult, SlogdetResult, SVDResult
from pygpukit.linalg._systems import det, inv, slogdet, solve, tensorinv, tensorsolve
from pygpukit.ops.contraction import matrix_transpose, tensordot, vecdot
from pygpukit.ops.matmul import matmul

__all__ = [
    "EigResult",
    "EighResult",
    "LinAlgError",
    "QRResult",
    "SVDResult",
    "SlogdetResult",
    "cholesky",
    "cholesky_solve",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "expm",
    "inv",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_solve",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "multi_dot",
    "norm",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensordot",
    "tensorinv",
    "tensorsolve",
    "trace",
    "vecdot",
    "vector_norm",
]

name_all(globals(), __all__)

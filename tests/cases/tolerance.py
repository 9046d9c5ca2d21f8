"""How far a result may be from the reference, per dtype: |got - want| <= atol + rtol * |want|.

For ops that are not exact. About four units in the last place; exact for integers and bool.
"""

from __future__ import annotations

from typing import Any

import numpy as np

TOLERANCE: dict[str, tuple[float, float]] = {  # dtype: (rtol, atol)
    "float64": (1e-15, 0.0),
    "float32": (5e-7, 1e-37),
    "float16": (4e-3, 1e-6),
    "bfloat16": (3e-2, 1e-37),
    "complex64": (1e-6, 1e-36),
    "complex128": (2e-15, 0.0),
}


def assert_close(got: Any, want: Any, *, exact: bool = False) -> None:
    """Shape, dtype and values; NaN equals NaN, an infinity only itself, and -0.0 is not 0.0."""
    assert got.shape == want.shape
    assert got.dtype == want.dtype
    if want.dtype.kind == "V":  # ml_dtypes: every value is a float64, too
        got, want, name = got.astype(np.float64), want.astype(np.float64), want.dtype.name
    else:
        name = want.dtype.name
    rtol, atol = TOLERANCE.get(name, (0.0, 0.0))
    if exact or rtol == 0.0:
        np.testing.assert_array_equal(got, want)
        for part in ("real", "imag") if want.dtype.kind in "fc" else ():
            ours, theirs = getattr(got, part), getattr(want, part)
            np.testing.assert_array_equal(
                np.signbit(ours) & ~np.isnan(ours), np.signbit(theirs) & ~np.isnan(theirs)
            )
        return
    np.testing.assert_allclose(got, want, rtol=rtol, atol=atol)

"""How far a result may be from the reference.

assert_close compares with a tolerance per dtype, assert_ulps in units in the last place. Both check
shape and dtype; NaN equals NaN, an infinity only itself.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

# |got - want| <= atol + rtol * |want|: about four units in the last place.
TOLERANCE: dict[str, tuple[float, float]] = {  # dtype: (rtol, atol)
    "float64": (1e-15, 0.0),
    "float32": (5e-7, 1e-37),
    "float16": (4e-3, 1e-6),
    "bfloat16": (3e-2, 1e-37),
    "complex64": (1e-6, 1e-36),
    "complex128": (2e-15, 0.0),
}


def _as_wide(values: Any) -> Any:
    """ml_dtypes as float64, which holds all of them."""
    return values.astype(np.float64) if values.dtype.isbuiltin != 1 else values


def assert_same_signs(got: Any, want: Any) -> None:
    """-0.0 is not 0.0; NaN has no sign."""
    for part in ("real", "imag"):
        ours, theirs = getattr(got, part), getattr(want, part)
        np.testing.assert_array_equal(
            np.signbit(ours) & ~np.isnan(ours), np.signbit(theirs) & ~np.isnan(theirs)
        )


def assert_close(got: Any, want: Any, *, exact: bool = False) -> None:
    """Shape, dtype and values, by the table above; exact ones also in the sign of zeros."""
    assert got.shape == want.shape
    assert got.dtype == want.dtype
    rtol, atol = TOLERANCE.get(want.dtype.name, (0.0, 0.0))
    got, want = _as_wide(got), _as_wide(want)
    if exact or rtol == 0.0:
        np.testing.assert_array_equal(got, want)
        if want.dtype.kind in "fc":
            assert_same_signs(got, want)
        return
    np.testing.assert_allclose(got, want, rtol=rtol, atol=atol)


def spacing(values: Any, dtype: np.dtype[Any]) -> Any:
    """The distance between neighbours of `dtype` around |values|, in float64 or wider."""
    info = ml_dtypes.finfo(dtype)
    wide = np.longdouble if dtype == np.float64 else np.float64
    magnitude = np.maximum(np.abs(values).astype(wide), wide(info.smallest_normal))
    magnitude = np.where(np.isfinite(magnitude), magnitude, wide(1))
    _, exponent = np.frexp(magnitude)
    return np.ldexp(wide(1), exponent - 1) * wide(info.eps)


def assert_ulps(
    got: Any, want: Any, ulps: float, *, floor: float = 0.0, signed_zeros: bool = True
) -> None:
    """`want` is wider than, or of, got's dtype; complex numbers are compared by magnitude.

    Where |want| < floor, units of `floor` count. ulps 0 means equal, also in the sign of zeros.
    """
    assert got.shape == want.shape
    with np.errstate(all="ignore"):
        rounded = want.astype(got.dtype)
    if got.dtype.kind not in "fcV" or ulps == 0:
        np.testing.assert_array_equal(_as_wide(got), _as_wide(rounded))
        if signed_zeros and got.dtype.kind in "fcV":
            assert_same_signs(_as_wide(got), _as_wide(rounded))
        return
    part = (
        np.dtype({8: "float32", 16: "float64"}[got.dtype.itemsize])
        if got.dtype.kind == "c"
        else got.dtype
    )
    wide = np.result_type(
        _as_wide(want).dtype, np.complex128 if got.dtype.kind == "c" else np.float64
    )
    ours, theirs = _as_wide(got).astype(wide), _as_wide(want).astype(wide)
    _assert_same_special(ours, _as_wide(rounded).astype(wide), part)
    finite = np.isfinite(ours) & np.isfinite(theirs)
    unit = spacing(np.maximum(np.abs(theirs), floor), part)
    with np.errstate(invalid="ignore"):
        error = np.where(finite, np.abs(ours - theirs) / unit, 0)
    worst = np.unravel_index(np.argmax(error), error.shape) if error.size else ()
    if error.size and error[worst] > ulps + 0.5:
        raise AssertionError(
            f"{error[worst]:.3g} units in the last place of {got.dtype} at {tuple(worst)}, "
            f"{np.count_nonzero(error > ulps + 0.5)} of {error.size} above {ulps}: "
            f"got {ours[worst]}, want {theirs[worst]}"
        )


def _assert_same_special(got: Any, want: Any, part: np.dtype[Any]) -> None:
    """NaN and infinities in the same places; next to the largest number either may round to it."""
    largest = float(ml_dtypes.finfo(part).max)
    for name in ("real", "imag") if got.dtype.kind == "c" else ("real",):
        ours, theirs = getattr(got, name), getattr(want, name)
        np.testing.assert_array_equal(np.isnan(ours), np.isnan(theirs), "NaN")
        near = (np.abs(ours) >= 0.99 * largest) & (np.abs(theirs) >= 0.99 * largest)
        different = (np.isinf(ours) != np.isinf(theirs)) & ~near
        assert not different.any(), f"infinite: got {ours[different]}, want {theirs[different]}"
        infinite = np.isinf(ours) & np.isinf(theirs)
        np.testing.assert_array_equal(ours[infinite] > 0, theirs[infinite] > 0)

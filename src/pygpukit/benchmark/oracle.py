"""Results against float64: samples and errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray


def to_float64(array: Any) -> NDArray[Any]:
    """The contents of our array or a tensor of PyTorch."""
    import numpy as np

    if not hasattr(array, "to_numpy"):
        array = array.cpu()
        array = array.float().numpy() if array.is_floating_point() else array.numpy()
    else:
        array = array.to_numpy()
    return np.asarray(array).astype(np.float64)


def relative_error(got: NDArray[Any], ref: NDArray[Any]) -> float:
    """||got - ref|| / ||ref|| over rows, infinite where the result is not finite.

    Half the error of the worst row, if that is more: one wrong row among many right ones is an
    error.
    """
    import numpy as np

    if got.shape != ref.shape:
        return float("inf")
    wide = got.astype(np.float64)
    if not np.isfinite(wide).all():
        return float("inf")
    off = np.linalg.norm(wide - ref, axis=-1)
    size = np.linalg.norm(ref, axis=-1)
    rows = np.max(off / np.maximum(size, np.finfo(np.float64).tiny), initial=0.0)
    whole = np.linalg.norm(off) / max(float(np.linalg.norm(size)), np.finfo(np.float64).tiny)
    return float(max(whole, 0.5 * rows))


def sample_indices(size: int, count: int) -> NDArray[Any]:
    """About that many random elements of range(size), with both ends."""
    import numpy as np

    if size <= count:
        return np.arange(size)
    inner = np.random.default_rng(size).integers(0, size, max(count - 2, 0))
    return np.unique(np.r_[0, inner, size - 1])

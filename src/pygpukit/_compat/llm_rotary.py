"""Rotary positions of 0.2, on the host, and tables of them on a device."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit.core.arguments import whole
from pygpukit.core.errors import InvalidValueError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pygpukit._native import GPUArray


def precompute_freqs_cis(
    head_dim: int, max_seq_len: int, theta: float = 10000.0
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """(cos, sin) of shape (max_seq_len, head_dim), the two halves of a row alike."""
    import numpy as np

    op = "precompute_freqs_cis"
    rows = whole(op, "max_seq_len", max_seq_len)
    frequencies, _ = _native.rope_spectrum(op, head_dim, theta, {}, rows)
    angles = np.arange(rows)[:, None] * np.tile(frequencies, 2)
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def apply_rotary_pos_emb_numpy(
    q: NDArray[Any], k: NDArray[Any], cos: NDArray[Any], sin: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """q and k [seq, heads, dim] rotated by rows of precompute_freqs_cis, on the host."""
    import numpy as np

    for name, x in (("q", q), ("k", k)):
        if x.ndim != 3 or (x.shape[0], x.shape[2]) != cos.shape or cos.shape != sin.shape:
            raise InvalidValueError(
                f"apply_rotary_pos_emb_numpy: {name} has shape {x.shape}, cos {cos.shape}, sin "
                f"{sin.shape}; expected (seq, heads, dim) and (seq, dim)"
            )

    def rotated(x: NDArray[Any]) -> NDArray[Any]:
        half = x.shape[-1] // 2
        rotated_half = np.concatenate([-x[..., half:], x[..., :half]], -1)
        result: NDArray[Any] = x * cos[:, None] + rotated_half * sin[:, None]
        return result

    return rotated(q), rotated(k)


class RopeTables:
    """(cos, sin) on a device, made for as many positions as were asked for."""

    def __init__(self, make: Callable[[int], tuple[GPUArray, GPUArray]]) -> None:
        self._make = make
        self._tables: tuple[GPUArray, GPUArray] | None = None

    def rows(self, count: int) -> tuple[GPUArray, GPUArray]:
        """Tables with `count` rows or more."""
        if self._tables is None or self._tables[0].shape[0] < count:
            self._tables = self._make(max(1 << (count - 1).bit_length(), 64))
        return self._tables


__all__ = ["apply_rotary_pos_emb_numpy", "precompute_freqs_cis"]

"""Fourier transforms, by numpy.fft."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def fft_execute(
    x: NDArray[Any],
    *,
    kind: str,
    lengths: tuple[int, ...],
    axes: tuple[int, ...],
    norm: Any,
    out: NDArray[Any],
) -> None:
    """`kind` along the last of the axes, fft or ifft along the others"""
    if x.size == 0:  # of zeros only; NumPy's irfft reads what is not there
        out[...] = 0
        return
    inverse = kind in ("ifft", "irfft", "ihfft")
    other = np.fft.ifft if inverse else np.fft.fft
    steps: list[tuple[Any, int, int]] = [
        (other, n, axis) for n, axis in zip(lengths[:-1], axes[:-1], strict=True)
    ]
    last = (getattr(np.fft, kind), lengths[-1], axes[-1])
    steps = [*steps, last] if kind in ("irfft", "hfft") else [last, *reversed(steps)]
    y: Any = x
    for function, n, axis in steps:
        y = function(y, n, axis, norm)
    out[...] = y


__all__ = ["fft_execute"]

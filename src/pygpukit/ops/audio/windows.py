"""Window functions of frames."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit._native import GPUArray, safe_repr
from pygpukit.core.arguments import amount, whole
from pygpukit.core.errors import InvalidValueError
from pygpukit.ops.audio._arguments import flag, real, table

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pygpukit._native import _DeviceLike, _DTypeLike

    Window = str | tuple[str, float] | GPUArray

# Weights of cos(k x), alternating in sign.
_COSINES = {
    "boxcar": (1.0,),
    "hann": (0.5, 0.5),
    "hamming": (0.54, 0.46),
    "blackman": (0.42, 0.5, 0.08),
    "nuttall": (0.3635819, 0.4891775, 0.1365995, 0.0106411),
    "blackmanharris": (0.35875, 0.48829, 0.14128, 0.01168),
}
_OTHERS = ("bartlett", "triang", "cosine", "kaiser", "gaussian")
MAX_BETA = 700.0  # of a Kaiser window: i0 overflows beyond
_ALIASES = {"ones": "boxcar", "rectangular": "boxcar", "hanning": "hann"}


def get_window(
    window: str | tuple[str, float],
    length: int,
    periodic: bool = True,
    *,
    dtype: _DTypeLike = "float32",
    device: _DeviceLike = None,
) -> GPUArray:
    """A window by name, as scipy.signal.get_window: periodic for spectra, else symmetric.

    boxcar, hann, hamming, blackman, nuttall, blackmanharris, bartlett, triang, cosine, or with a
    parameter ("kaiser", beta) and ("gaussian", standard deviation).
    """
    name, parameter = parse_window("get_window", window)
    length = whole("get_window", "length", length, 0, 2**26)
    like = _native.empty((0,), dtype, device=device)
    real("get_window", "dtype", like)
    return _native.copy(
        table(
            window_values, (name, parameter, length, flag("get_window", "periodic", periodic)), like
        )
    )


def parse_window(op: str, window: Any) -> tuple[str, float]:
    """The name and its parameter, 0 where it has none."""
    name, parameter = window, None
    if isinstance(window, (tuple, list)) and len(window) == 2:
        name, parameter = window
    name = _ALIASES.get(name, name) if isinstance(name, str) else name
    if not isinstance(name, str) or not (name in _COSINES or name in _OTHERS):
        known = ", ".join([*_COSINES, *_OTHERS])
        raise InvalidValueError(
            f"{op}: window is {safe_repr(window)}, expected an array or one of {known}"
        )
    if (name in ("kaiser", "gaussian")) != (parameter is not None):
        raise InvalidValueError(
            f"{op}: window is {safe_repr(window)}, expected a parameter for kaiser and gaussian, "
            "and for them alone"
        )
    if parameter is None:
        return name, 0.0
    if name == "kaiser":
        return name, amount(op, "window", parameter, 0.0, MAX_BETA)
    width = amount(op, "window", parameter)
    if width == 0.0:
        raise InvalidValueError(f"{op}: window is {safe_repr(window)}, expected a width above 0")
    return name, width


def window_values(name: str, parameter: float, length: int, periodic: bool) -> NDArray[np.float64]:
    """The window in float64."""
    import numpy as np

    if length <= 1:
        return np.ones(length)
    n = length + 1 if periodic else length
    i = np.arange(n, dtype=np.float64)
    x = 2 * i / (n - 1) - 1  # from -1 to 1
    if name in _COSINES:
        weights = _COSINES[name]
        values = sum(
            (-1) ** k * w * np.cos(2 * math.pi * k * i / (n - 1)) for k, w in enumerate(weights)
        )
    elif name == "bartlett":
        values = 1 - np.abs(x)
    elif name == "triang":
        half = (n + 1) // 2
        rising = (np.arange(1, half + 1) * 2.0 - (n + 1) % 2) / (n + n % 2)
        values = np.concatenate([rising, rising[::-1] if n % 2 == 0 else rising[-2::-1]])
    elif name == "cosine":
        values = np.sin(math.pi / n * (i + 0.5))
    elif name == "kaiser":
        values = np.i0(parameter * np.sqrt(np.maximum(1 - x * x, 0))) / np.i0(parameter)
    else:
        values = np.exp(-0.5 * ((i - (n - 1) / 2) / parameter) ** 2)
    result: NDArray[np.float64] = np.asarray(values, np.float64)[:length]
    return result


def frame_window_values(
    name: str, parameter: float, win_length: int, n_fft: int
) -> NDArray[np.float64]:
    """A periodic window in the middle of a frame, zeros around it."""
    import numpy as np

    left = (n_fft - win_length) // 2
    values = window_values(name, parameter, win_length, True)
    return np.pad(values, (left, n_fft - win_length - left))


def frame_window(op: str, window: Any, win_length: int, n_fft: int, like: GPUArray) -> GPUArray:
    """A window of n_fft samples: a name, or an array of win_length (or n_fft) samples."""
    if not isinstance(window, GPUArray):
        name, parameter = parse_window(op, window)
        return table(frame_window_values, (name, parameter, win_length, n_fft), like)
    if window.ndim != 1 or window.size not in (win_length, n_fft):
        raise InvalidValueError(
            f"{op}: window has shape {window.shape}, expected ({win_length},) samples"
        )
    values = _native.astype(real(op, "window", window), like.dtype, False)
    left = (n_fft - window.size) // 2
    right = n_fft - window.size - left
    return _native.pad(values, [(left, right)], "constant", [(0.0, 0.0)])


__all__ = ["get_window"]

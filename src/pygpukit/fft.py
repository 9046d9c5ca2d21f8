"""Discrete Fourier transforms: numpy.fft's functions, the array API standard's fft extension.

>>> spectrum = gp.fft.rfft(signal)
>>> gp.fft.irfft(spectrum, n=signal.shape[-1])

Any length, along any axes, all other axes are batches. float32 gives complex64, float64
complex128; float16, bfloat16, integers and bool are transformed in float32. ``norm`` says which
direction is divided by the number of points: "backward" (the inverse, also None), "forward", or
both by its square root ("ortho"). ``n`` and ``s`` cut the input or pad it with zeros.
"""

from __future__ import annotations

from operator import index

from pygpukit import _native
from pygpukit._naming import name_all
from pygpukit._native import GPUArray, safe_repr
from pygpukit.core.arguments import array_argument, require_arrays, whole
from pygpukit.core.errors import InvalidTypeError, InvalidValueError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Protocol, TypeVar

    from pygpukit._native import _ArrayLike

    Axes = int | Sequence[int] | None
    Norm = str | None
    Function = TypeVar("Function", bound=Callable[..., GPUArray])

    class AlongOne(Protocol):
        """Cuts or pads the axis to n points, then transforms it."""

        def __call__(
            self,
            x: _ArrayLike,
            /,
            n: int | None = None,
            axis: int = -1,
            norm: Norm = None,
            *,
            out: GPUArray | None = None,
        ) -> GPUArray: ...

    class AlongMany(Protocol):
        """Cuts or pads the axes to the sizes s, then transforms them."""

        def __call__(
            self,
            x: _ArrayLike,
            /,
            s: Sequence[int] | None = None,
            axes: Axes = ...,
            norm: Norm = None,
            *,
            out: GPUArray | None = None,
        ) -> GPUArray: ...


def _along_one(op: str, doc: str) -> AlongOne:
    """The function ``op`` along one axis."""

    def transform(
        x: _ArrayLike,
        /,
        n: int | None = None,
        axis: int = -1,
        norm: Norm = None,
        *,
        out: GPUArray | None = None,
    ) -> GPUArray:
        x = _input(op, x, out)
        lengths = None if n is None else (whole(op, "n", n, 1),)
        along = (_integer(op, "axis", axis),)
        return _native.fft_execute(op, x, op, lengths, along, norm, out=out)

    return _named(transform, op, doc)


def _along_many(op: str, kind: str, default: Axes, doc: str) -> AlongMany:
    """The function ``op`` along several axes: transforms of one kind."""

    def transform(
        x: _ArrayLike,
        /,
        s: Sequence[int] | None = None,
        axes: Axes = default,
        norm: Norm = None,
        *,
        out: GPUArray | None = None,
    ) -> GPUArray:
        x = _input(op, x, out)
        return _native.fft_execute(op, x, kind, s, axes, norm, out=out)

    return _named(transform, op, doc)


def _named(function: Function, name: str, doc: str) -> Function:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _input(op: str, x: Any, out: GPUArray | None) -> GPUArray:
    if out is not None:
        require_arrays(op, out=out)
    return array_argument(op, "x", x, out)


def _integer(op: str, name: str, value: Any) -> int:
    try:
        return index(value)
    except TypeError:
        raise InvalidTypeError(f"{op}: {name} is {safe_repr(value)}, expected an int") from None


fft = _along_one("fft", "The discrete Fourier transform along an axis.")
ifft = _along_one("ifft", "The inverse of fft.")
rfft = _along_one(
    "rfft", "The first n // 2 + 1 outputs of fft for real x; the others are their conjugates."
)
irfft = _along_one("irfft", "The inverse of rfft: n reals, by default 2 * (x.shape[axis] - 1).")
hfft = _along_one(
    "hfft", "fft of a signal with Hermitian symmetry, of which x is the first half: n reals."
)
ihfft = _along_one("ihfft", "The inverse of hfft.")
fftn = _along_many(
    "fftn",
    "fft",
    None,
    "fft along several axes, by default the last len(s) or all. -1 in s: the size of the axis.",
)
ifftn = _along_many("ifftn", "ifft", None, "The inverse of fftn.")
rfftn = _along_many(
    "rfftn", "rfft", None, "rfft along the last of the axes, then fft along the others."
)
irfftn = _along_many("irfftn", "irfft", None, "The inverse of rfftn.")
fft2 = _along_many("fft2", "fft", (-2, -1), "fftn along the last two axes.")
ifft2 = _along_many("ifft2", "ifft", (-2, -1), "ifftn along the last two axes.")
rfft2 = _along_many("rfft2", "rfft", (-2, -1), "rfftn along the last two axes.")
irfft2 = _along_many("irfft2", "irfft", (-2, -1), "irfftn along the last two axes.")


def _real_dtype(op: str, dtype: Any) -> Any:
    import pygpukit as gp

    if dtype is None:
        return "float32"
    if not gp.isdtype(gp.empty(0, dtype, device="cpu").dtype, "real floating"):
        raise InvalidTypeError(f"{op}: dtype is {safe_repr(dtype)}, expected a real floating dtype")
    return dtype


def _points(op: str, n: int, d: float) -> tuple[int, float]:
    count = whole(op, "n", n, 1)
    try:
        step = float(d)
    except (TypeError, ValueError):
        raise InvalidTypeError(f"{op}: d is {safe_repr(d)}, expected a number") from None
    if step == 0.0:
        raise InvalidValueError(f"{op}: d is 0, expected the distance of two samples")
    return count, step


def fftfreq(n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None) -> GPUArray:
    """The frequencies of fft's outputs, in cycles per unit of d, the distance of two samples."""
    import pygpukit as gp

    dtype = _real_dtype("fftfreq", dtype)
    count, step = _points("fftfreq", n, d)
    places = gp.arange(count, dtype="int64", device=device)
    half = (count - 1) // 2 + 1
    wrapped = gp.where(places < half, places, places - count)
    return gp.astype(gp.astype(wrapped, "float64") / (count * step), dtype)


def rfftfreq(n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None) -> GPUArray:
    """The frequencies of rfft's outputs, in cycles per unit of d, the distance of two samples."""
    import pygpukit as gp

    dtype = _real_dtype("rfftfreq", dtype)
    count, step = _points("rfftfreq", n, d)
    places = gp.arange(count // 2 + 1, dtype="int64", device=device)
    return gp.astype(gp.astype(places, "float64") / (count * step), dtype)


def fftshift(x: _ArrayLike, /, axes: Axes = None) -> GPUArray:
    """x rolled by half of each axis, so that frequency 0 is in the middle."""
    return _rolled("fftshift", x, axes, 1)


def ifftshift(x: _ArrayLike, /, axes: Axes = None) -> GPUArray:
    """The inverse of fftshift."""
    return _rolled("ifftshift", x, axes, -1)


def _rolled(op: str, x: _ArrayLike, axes: Axes, sign: int) -> GPUArray:
    import pygpukit as gp
    from pygpukit.core.errors import AxisError

    x = array_argument(op, "x", x)
    if axes is None:
        chosen: list[int] = list(range(x.ndim))
    elif isinstance(axes, (list, tuple)):
        chosen = [_integer(op, "axes", axis) for axis in axes]
    else:
        chosen = [_integer(op, "axes", axes)]
    for axis in chosen:
        if not -x.ndim <= axis < x.ndim:
            raise AxisError(f"{op}: axis {axis} is out of bounds for array of dimension {x.ndim}")
    # -(size // 2) for the inverse, not (-size) // 2: they differ for odd sizes.
    return gp.roll(x, tuple(sign * (x.shape[axis] // 2) for axis in chosen), tuple(chosen))


def explain(n: int, *, dtype: Any = "complex64", kind: str = "fft") -> str:
    """The passes over memory and the kernels of transforms of n along contiguous rows.

    For the default device; on the CPU, for an H200. ``kind`` is fft, ifft, rfft, irfft, hfft or
    ihfft, ``dtype`` that of the input.
    """
    if not isinstance(kind, str):
        raise InvalidTypeError(f"explain: kind is {safe_repr(kind)}, expected a str")
    return _native.fft_plan(kind, whole("explain", "n", n, 1), dtype)


__all__ = [
    "explain",
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]

name_all(globals(), __all__)

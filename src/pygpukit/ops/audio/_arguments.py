"""Arguments of audio functions: signals, spectra, choices, tables on a device."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit._native import GPUArray, safe_repr
from pygpukit.core.arguments import amount, require_arrays, whole
from pygpukit.core.errors import InvalidTypeError, InvalidValueError
from pygpukit.ops.audio.buffer import AudioBuffer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from pygpukit._native import _DeviceLike

    Signal = GPUArray | AudioBuffer


def signal(op: str, audio: Signal, name: str = "audio") -> GPUArray:
    """The samples, along the last axis, as float32 or float64."""
    if isinstance(audio, AudioBuffer):
        if audio.channels != 1:
            raise InvalidValueError(
                f"{op}: {name} has {audio.channels} interleaved channels, expected 1; "
                "to_mono() mixes them, planes() separates them"
            )
        audio = audio.data
    require_arrays(op, **{name: audio})
    if audio.ndim == 0:
        raise InvalidValueError(f"{op}: {name} has no axes, expected at least one")
    return real(op, name, audio)


def real(op: str, name: str, x: GPUArray) -> GPUArray:
    """`x` as float32 or float64; 16-bit floats become float32."""
    kind = x.dtype.name
    if kind in ("float32", "float64"):
        return x
    if kind in ("float16", "bfloat16"):
        return _native.astype(x, "float32", False)
    hint = "; from_pcm() converts samples" if "int" in kind else ""
    raise InvalidTypeError(f"{op}: {name} has dtype {kind}, expected float32 or float64{hint}")


def rows(op: str, name: str, x: GPUArray, least: int = 2) -> GPUArray:
    """A real array of at least `least` axes."""
    require_arrays(op, **{name: x})
    x = real(op, name, x)
    if x.ndim < least:
        raise InvalidValueError(f"{op}: {name} has shape {x.shape}, expected at least {least} axes")
    return x


def choice(op: str, name: str, value: Any, known: Sequence[str | None]) -> None:
    """Raises unless `value` is one of `known`."""
    if not any(value is one or (isinstance(value, str) and value == one) for one in known):
        words = ", ".join(repr(one) for one in known)
        raise InvalidValueError(f"{op}: {name} is {safe_repr(value)}, expected one of {words}")


def number(op: str, name: str, value: Any) -> float:
    """Any finite number, as a float."""
    return amount(op, name, value, -math.inf)


def numbers(op: str, name: str, value: Any) -> NDArray[np.float64]:
    """Numbers on the host: a number, a list, a NumPy array or a GPUArray."""
    import numpy as np

    try:
        array = np.asarray(value.to_numpy() if isinstance(value, GPUArray) else value)
        return array.astype(np.float64, casting="same_kind")
    except (TypeError, ValueError):
        raise InvalidTypeError(
            f"{op}: {name} is {safe_repr(value)}, expected real numbers"
        ) from None


def rate_of(
    op: str, audio: Signal, given: int | None, name: str = "audio", default: int = 16000
) -> int:
    """The buffer's sample rate, else the given one, else the default.

    One that is given for a buffer is the buffer's.
    """
    rate = default if given is None else whole(op, "sample_rate", given, 1)
    if not isinstance(audio, AudioBuffer):
        return rate
    if given is not None:
        check_rate(op, name, audio, rate)
    return audio.sample_rate


def check_rate(op: str, name: str, audio: Any, rate: int) -> None:
    """Raises where `audio` is a buffer of another rate."""
    if isinstance(audio, AudioBuffer) and audio.sample_rate != rate:
        raise InvalidValueError(
            f"{op}: {name} has a rate of {audio.sample_rate} Hz, expected {rate}"
        )


def flag(op: str, name: str, value: Any) -> bool:
    """What can be true or false, as a bool."""
    try:
        return bool(value)
    except (TypeError, ValueError):
        raise InvalidTypeError(f"{op}: {name} is {safe_repr(value)}, expected a bool") from None


def table(make: Callable[..., NDArray[Any]], arguments: Any, like: GPUArray) -> GPUArray:
    """make(*arguments) on the device of `like` and in its dtype; the last ones are kept."""
    return _table(make, arguments, like.dtype.name, str(like.device))


@lru_cache(maxsize=256)
def _table(make: Any, arguments: Any, dtype: str, device: _DeviceLike) -> GPUArray:
    import numpy as np

    values = make(*arguments)
    complexes = {"float32": "complex64", "float64": "complex128"}
    kind = {"f": dtype, "c": complexes.get(dtype)}.get(values.dtype.kind, values.dtype.name)
    return _native.from_numpy(np.ascontiguousarray(values, kind), device=device)

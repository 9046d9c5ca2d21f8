"""One of several values for each element."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit._naming import name_all
from pygpukit._native import GPUArray, safe_repr
from pygpukit.core.errors import InvalidTypeError, InvalidValueError
from pygpukit.ops.conversion import array_beside, as_operands, asarray, device_beside

if TYPE_CHECKING:
    from collections.abc import Sequence


def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> GPUArray:
    """For each element the choice of the first condition that is true, else the default."""
    if len(condlist) != len(choicelist):
        raise InvalidValueError(
            f"select: condlist has {len(condlist)} elements, choicelist {len(choicelist)}; "
            "expected as many"
        )
    if len(condlist) == 0:
        raise InvalidValueError("select: with an empty condition list is not possible")
    device = device_beside(*condlist, *choicelist, default)
    conditions = [asarray(c, device=device) for c in condlist]
    for n, c in enumerate(conditions):
        if c.dtype.name != "bool":
            raise InvalidTypeError(
                f"select: invalid entry {n} in condlist: should be boolean, is {c.dtype}"
            )
    device = conditions[0].device
    arrays = [c for c in (*choicelist, default) if isinstance(c, GPUArray)]
    choices = [_operand(c, arrays, device) for c in choicelist]
    fallback = _operand(default, arrays, device)
    dtype = _native.result_type(*choices, fallback)
    shape = _native.broadcast_shapes(
        *(c.shape for c in conditions), *(getattr(c, "shape", ()) for c in (*choices, fallback))
    )
    result = _native.full(shape, fallback, dtype, device=device)
    for condition, choice in zip(conditions[::-1], choices[::-1], strict=True):
        result = _native.where(condition, choice, result)
    return _native.astype(result, dtype, False)


def _operand(value: Any, arrays: list[GPUArray], device: str | None) -> Any:
    """Python numbers as they are, which are weak in promotion."""
    if type(value) in (bool, int, float, complex):
        return value
    return array_beside(value, arrays) if arrays else asarray(value, device=device)


def choose(a: Any, choices: Any, out: GPUArray | None = None, mode: str = "raise") -> GPUArray:
    """choices[a[n]][n] for each element n, everything broadcast.

    mode 'wrap' takes indices modulo the number of choices, 'clip' limits them, 'raise' reports
    those out of range.
    """
    if mode not in ("raise", "wrap", "clip"):
        raise InvalidValueError(
            f"choose: mode is {safe_repr(mode)}, expected 'raise', 'wrap' or 'clip'"
        )
    choices = list(choices)
    which, *arrays = as_operands(a, *choices)
    if "int" not in which.dtype.name and which.dtype.name != "bool":
        raise InvalidTypeError(f"choose: a has dtype {which.dtype}, expected integers")
    if not arrays:
        raise InvalidValueError("choose: choices is empty")
    which = _native.astype(which, "int64", False)
    if mode == "wrap":
        which = _native.remainder(which, len(arrays))
    elif mode == "clip":
        which = _native.clip(which, 0, len(arrays) - 1)
    shape = _native.broadcast_shapes(which.shape, *(c.shape for c in arrays))
    dtype = _native.result_type(*arrays)
    stacked = _native.stack(
        [_native.broadcast_to(_native.astype(c, dtype, False), shape) for c in arrays], 0
    )
    places = _native.expand_dims(_native.broadcast_to(which, shape), 0)
    result = _native.squeeze(_native.take_along_axis(stacked, places, axis=0), 0)
    return result if out is None else _native.add(result, 0, out=out)


def piecewise(x: Any, condlist: Any, funclist: Sequence[Any], *args: Any, **kw: Any) -> GPUArray:
    """For each element the function (or number) of the last condition that is true, else 0.

    One function more than conditions is the default. Each function is called with the whole of
    x, and its results are selected, so that no shape depends on values.
    """
    array = asarray(x)
    conditions = _conditions(condlist, array)
    count = len(conditions)
    if len(funclist) not in (count, count + 1):
        raise InvalidValueError(
            f"piecewise: {count} conditions and {len(funclist)} functions, expected {count} or "
            f"{count + 1}"
        )
    result = _native.zeros(array.shape, array.dtype, device=array.device)
    if len(funclist) == count + 1:
        result = _chosen(result, True, funclist[-1], array, args, kw)
    for condition, function in zip(conditions, funclist, strict=False):
        result = _chosen(result, condition, function, array, args, kw)
    return result


def _conditions(condlist: Any, x: GPUArray) -> list[Any]:
    if isinstance(condlist, bool):
        return [condlist]
    if hasattr(condlist, "dtype"):
        array = asarray(condlist, device=x.device)
        if array.ndim < 2:  # one condition; else one in each row
            return [array]
        return [array[n] for n in range(array.shape[0])]
    if all(isinstance(c, bool) for c in condlist) and x.ndim > 0:
        return [asarray(condlist, device=x.device)]
    return [c if isinstance(c, bool) else asarray(c, device=x.device) for c in condlist]


def _chosen(
    result: GPUArray, condition: Any, function: Any, x: GPUArray, args: Any, kw: Any
) -> GPUArray:
    value = function(x, *args, **kw) if callable(function) else function
    return _native.astype(_native.where(condition, value, result), x.dtype, False)


__all__ = ["choose", "piecewise", "select"]

name_all(globals(), __all__)

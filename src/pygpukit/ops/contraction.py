"""Sums of products over axes."""

from __future__ import annotations

from pygpukit import _native
from pygpukit._native import GPUArray, safe_repr
from pygpukit.core.errors import InvalidTypeError, InvalidValueError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


def matrix_transpose(x: GPUArray, /) -> GPUArray:
    """A view with the last two axes swapped."""
    return _native.matrix_transpose(x)


def vecdot(
    x1: GPUArray, x2: GPUArray, /, *, axis: int = -1, out: GPUArray | None = None
) -> GPUArray:
    """Sum over one axis of conj(x1) * x2; the other axes broadcast."""
    return _native.vecdot(x1, x2, axis, out)


def tensordot(
    x1: GPUArray,
    x2: GPUArray,
    /,
    *,
    axes: int | tuple[int | Sequence[int], int | Sequence[int]] = 2,
) -> GPUArray:
    """Sum of products over pairs of axes.

    ``axes`` is a number (that many last axes of x1 and first axes of x2) or the axes of each. The
    result has the other axes of x1, then those of x2.
    """
    return _native.tensordot(x1, x2, axes)


def dot(a: GPUArray, b: GPUArray, /) -> GPUArray:
    """NumPy's dot: the last axis of a with the last but one (or only) axis of b."""
    return _native.dot(a, b)


def inner(a: GPUArray, b: GPUArray, /) -> GPUArray:
    """Sum of products over the last axes of both."""
    return _native.inner(a, b)


def outer(a: GPUArray, b: GPUArray, /) -> GPUArray:
    """All products of an element of a and one of b, both flattened."""
    return _native.outer(a, b)


def vdot(a: GPUArray, b: GPUArray, /) -> GPUArray:
    """Sum of conj(a) * b over all elements, in order."""
    return _native.vdot(a, b)


def kron(a: GPUArray, b: GPUArray, /) -> GPUArray:
    """The Kronecker product: blocks of b, scaled by the elements of a."""
    return _native.kron(a, b)


def trace(
    x: GPUArray, /, offset: int = 0, axis1: int = 0, axis2: int = 1, *, dtype: Any = None
) -> GPUArray:
    """Sum over a diagonal. Integers are summed in 64 bits unless ``dtype`` says otherwise."""
    return _native.trace(x, offset, axis1, axis2, dtype)


def einsum(*operands: Any, out: GPUArray | None = None) -> GPUArray:
    """Sum of products over named axes: ``einsum("ij,jk->ik", a, b)``, as NumPy's einsum.

    Explicit and implicit output, ``...``, repeated indices (diagonals), sizes of 1 that broadcast,
    and the form with lists, ``einsum(a, [0, 1], b, [1, 2], [0, 2])``. Operands are contracted from
    left to right. One operand whose axes are only moved or taken along a diagonal gives a view.
    """
    if operands and isinstance(operands[0], str):
        arrays = list(operands[1:])
        inputs, output = _parse(operands[0], len(arrays))
    else:
        arrays, inputs, output = _parse_lists(operands)
    for number, array in enumerate(arrays):
        if not isinstance(array, GPUArray):
            raise InvalidTypeError(
                f"einsum: operand {number} is {safe_repr(array)}, expected a GPUArray"
            )
    labels, ellipsis = _expand_inputs(inputs, arrays)
    result = _implicit(inputs, ellipsis) if output is None else _expand(output, ellipsis)
    if ellipsis and output is not None and _ELLIPSIS not in output:
        raise InvalidValueError(
            "einsum: the operands have dimensions of '...' but the output subscripts have none"
        )
    _check_output(result, labels)
    return _native.einsum(arrays, labels, result, out)


# Subscripts of one operand: labels, with _ELLIPSIS in the place of "...".
_ELLIPSIS = -1


def _labels(text: str) -> list[int]:
    """Letters as their code points, in the order NumPy sorts them."""
    found: list[int] = []
    text = text.replace(" ", "")
    at = 0
    while at < len(text):
        if text.startswith("...", at):
            found.append(_ELLIPSIS)
            at += 3
        elif text[at].isascii() and text[at].isalpha():
            found.append(ord(text[at]))
            at += 1
        else:
            raise InvalidValueError(
                f"einsum: invalid subscript '{text[at]}' in {safe_repr(text)}, "
                "subscripts must be letters"
            )
    if found.count(_ELLIPSIS) > 1:
        raise InvalidValueError(f"einsum: more than one '...' in {safe_repr(text)}")
    return found


def _parse(subscripts: str, count: int) -> tuple[list[list[int]], list[int] | None]:
    left, arrow, right = subscripts.partition("->")
    inputs = [_labels(part) for part in left.split(",")]
    if len(inputs) != count:
        raise InvalidValueError(
            f"einsum: '{subscripts}' names {len(inputs)} operands, {count} were given"
        )
    return inputs, _labels(right) if arrow else None


def _parse_lists(
    operands: tuple[Any, ...],
) -> tuple[list[Any], list[list[int]], list[int] | None]:
    """array, labels, array, labels, ... and perhaps the labels of the result."""
    if len(operands) < 2:
        raise InvalidValueError("einsum: expected subscripts and at least one operand")
    arrays = list(operands[0 : len(operands) // 2 * 2 : 2])
    lists = [*operands[1 : len(operands) // 2 * 2 : 2]]
    if len(operands) % 2 == 1:
        lists.append(operands[-1])
    inputs: list[list[int]] = []
    for labels in lists:
        inputs.append([_ELLIPSIS if x is Ellipsis else _list_label(x) for x in labels])
        if inputs[-1].count(_ELLIPSIS) > 1:
            raise InvalidValueError(f"einsum: more than one Ellipsis in {safe_repr(labels)}")
    output = inputs.pop() if len(operands) % 2 == 1 else None
    return arrays, inputs, output


def _list_label(label: Any) -> int:
    if not isinstance(label, int):
        raise InvalidTypeError(f"einsum: subscript {safe_repr(label)}, expected an int or Ellipsis")
    if not 0 <= label < 52:
        raise InvalidValueError(f"einsum: subscript {safe_repr(label)}, expected 0 to 51")
    return label


def _expand_inputs(
    inputs: list[list[int]], arrays: list[GPUArray]
) -> tuple[list[list[int]], list[int]]:
    """One label per dimension; those of "..." are negative, counted from the last dimension."""
    longest = 0
    expanded: list[list[int]] = []
    for number, (labels, array) in enumerate(zip(inputs, arrays, strict=True)):
        missing = array.ndim - (len(labels) - labels.count(_ELLIPSIS))
        if missing < 0:
            raise InvalidValueError(
                f"einsum: too many subscripts for operand {number}, which has shape {array.shape}"
            )
        if missing > 0 and _ELLIPSIS not in labels:
            raise InvalidValueError(
                f"einsum: operand {number} has shape {array.shape}, more dimensions than "
                "subscripts, and no '...'"
            )
        longest = max(longest, missing)
        expanded.append(_expand(labels, _dots(missing)))
    return expanded, _dots(longest)


def _dots(count: int) -> list[int]:
    return [-2 - place for place in reversed(range(count))]


def _expand(labels: list[int], dots: list[int]) -> list[int]:
    found: list[int] = []
    for label in labels:
        found.extend(dots if label == _ELLIPSIS else [label])
    return found


def _implicit(inputs: list[list[int]], ellipsis: list[int]) -> list[int]:
    """The dimensions of "...", then what appears once, sorted."""
    every = [label for labels in inputs for label in labels if label != _ELLIPSIS]
    return [*ellipsis, *sorted(label for label in set(every) if every.count(label) == 1)]


def _check_output(result: list[int], labels: list[list[int]]) -> None:
    for label in result:
        name = chr(label) if label >= ord("A") else str(label)
        if result.count(label) > 1:
            raise InvalidValueError(f"einsum: output subscript '{name}' appears more than once")
        if not any(label in operand for operand in labels):
            raise InvalidValueError(f"einsum: output subscript '{name}' never appeared in an input")


__all__ = [
    "dot",
    "einsum",
    "inner",
    "kron",
    "matrix_transpose",
    "outer",
    "tensordot",
    "trace",
    "vdot",
    "vecdot",
]

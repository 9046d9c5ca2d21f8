"""Tensor contractions."""

from __future__ import annotations

from pygpukit import _native
from pygpukit._naming import name_all
from pygpukit._native import GPUArray, safe_repr
from pygpukit.core.arguments import array_argument
from pygpukit.core.errors import InvalidTypeError, InvalidValueError
from pygpukit.ops._declared import contraction as _declared
from pygpukit.ops._declared.contraction import *  # noqa: F403

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


def einsum(
    *operands: Any, out: GPUArray | None = None, optimize: bool | str | Sequence[Any] = False
) -> GPUArray:
    """Contraction over labelled axes: ``einsum("ij,jk->ik", a, b)``, like NumPy's einsum.

    Explicit and implicit output, ``...``, repeated indices (diagonals), sizes of 1 that broadcast,
    and the form with lists, ``einsum(a, [0, 1], b, [1, 2], [0, 2])``. Operands are contracted from
    left to right, whatever ``optimize`` says: write them in the order to contract. A single operand
    that is only permuted or reduced to a diagonal gives a view.
    """
    if operands and isinstance(operands[0], str):
        arrays = list(operands[1:])
        inputs, output = _parse(operands[0], len(arrays))
    else:
        arrays, inputs, output = _parse_lists(operands)
    beside = next((array for array in arrays if isinstance(array, GPUArray)), None)
    for number, array in enumerate(arrays):
        if not isinstance(array, GPUArray) and not hasattr(array, "__len__"):
            raise InvalidTypeError(
                f"einsum: operand {number} is {safe_repr(array)}, expected a GPUArray"
            )
        arrays[number] = array_argument("einsum", f"operand {number}", array, beside)
    if len(arrays) > 2:  # pairs alone would promote int8, uint16 and float32 to float64
        common = _native.result_type(*arrays)
        arrays = [_native.astype(array, common, False) for array in arrays]
    labels, ellipsis = _expand_inputs(inputs, arrays)
    result = _implicit(inputs, ellipsis) if output is None else _expand(output, ellipsis)
    if ellipsis and output is not None and _ELLIPSIS not in output:
        raise InvalidValueError(
            "einsum: the operands have dimensions of '...' but the output subscripts have none"
        )
    _check_output(result, labels)
    return _native.einsum(arrays, labels, result, out)


# Subscripts of one operand: labels, with _ELLIPSIS in place of "...".
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
    """array, labels, array, labels, ... and optionally the labels of the result."""
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
    """The dimensions of "...", then the labels that appear once, sorted."""
    every = [label for labels in inputs for label in labels if label != _ELLIPSIS]
    return [*ellipsis, *sorted(label for label in set(every) if every.count(label) == 1)]


def _check_output(result: list[int], labels: list[list[int]]) -> None:
    for label in result:
        name = chr(label) if label >= ord("A") else str(label)
        if result.count(label) > 1:
            raise InvalidValueError(f"einsum: output subscript '{name}' appears more than once")
        if not any(label in operand for operand in labels):
            raise InvalidValueError(f"einsum: output subscript '{name}' never appeared in an input")


__all__ = ["einsum"]
__all__ += _declared.__all__

name_all(globals(), __all__)

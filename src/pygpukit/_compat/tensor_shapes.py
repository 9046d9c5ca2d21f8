"""Shape and cast functions under 0.2's names. New code uses the array API's names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pygpukit import _native
from pygpukit._naming import name_all
from pygpukit._native import GPUArray
from pygpukit.core.arguments import require_arrays

if TYPE_CHECKING:
    from pygpukit._native import _ShapeLike


def concat_axis0(a: GPUArray, b: GPUArray) -> GPUArray:
    """Joins a and b along the first axis."""
    return _native.concat_as("concat_axis0", [a, b], 0)


def repeat_interleave_axis1(x: GPUArray, repeats: int) -> GPUArray:
    """Repeats each element along the second axis."""
    return _native.repeat(x, repeats, 1)


def transpose_3d_021(x: GPUArray, *, out: GPUArray | None = None) -> GPUArray | None:
    """Swaps axes 0 and 1 of three, despite its name; a copy. With out: returns None."""
    return _rearranged(x, (1, 0, 2), out, "transpose_3d_021")


def transpose_3d_012(x: GPUArray, *, out: GPUArray | None = None) -> GPUArray | None:
    """Swaps axes 1 and 2 of three; a copy. With out: returns None."""
    return _rearranged(x, (0, 2, 1), out, "transpose_3d_012")


def transpose_4d_0213(x: GPUArray, *, out: GPUArray | None = None) -> GPUArray | None:
    """Swaps axes 1 and 2 of four; a copy. With out: returns None."""
    return _rearranged(x, (0, 2, 1, 3), out, "transpose_4d_0213")


def transpose_4d_0132(x: GPUArray, *, out: GPUArray | None = None) -> GPUArray | None:
    """Swaps axes 2 and 3 of four; a copy. With out: returns None."""
    return _rearranged(x, (0, 1, 3, 2), out, "transpose_4d_0132")


def _rearranged(
    x: GPUArray, axes: tuple[int, ...], out: GPUArray | None, op: str
) -> GPUArray | None:
    require_arrays(op, x=x)
    if x.ndim != len(axes):
        from pygpukit.core.errors import InvalidValueError

        raise InvalidValueError(f"{op}: x has shape {x.shape}, expected {len(axes)} dimensions")
    view = _native.permute_dims(x, axes)
    if out is None:
        return _native.copy(view)
    _fill(out, view, op)
    return None


def reshape_copy(
    x: GPUArray, new_shape: _ShapeLike | None = None, *, out: GPUArray | None = None
) -> GPUArray | None:
    """A copy with new_shape, or written to out in out's shape (returns None)."""
    from pygpukit.core.errors import InvalidValueError

    if new_shape is None:
        if out is None:
            raise InvalidValueError("reshape_copy: either new_shape or out must be given")
        require_arrays("reshape_copy", out=out)
        new_shape = out.shape
    if out is None:
        return _native.reshape(x, new_shape, copy=True)
    _fill(out, _native.reshape(x, new_shape), "reshape_copy")
    return None


def copy_to(src: GPUArray, dst: GPUArray) -> None:
    """Copies src to dst, which has the same size and dtype."""
    require_arrays("copy_to", src=src, dst=dst)
    from pygpukit.core.errors import InvalidValueError

    if src.size != dst.size or src.dtype != dst.dtype:
        raise InvalidValueError(
            f"copy_to: src is {src.dtype} {src.shape}, dst {dst.dtype} {dst.shape}; sizes and "
            "dtypes must agree"
        )
    _native.copy_into(dst, _native.reshape(src, dst.shape))


def _fill(out: GPUArray, view: GPUArray, op: str) -> None:
    from pygpukit.core.errors import InvalidTypeError, InvalidValueError

    require_arrays(op, out=out)
    if out.shape != view.shape:
        raise InvalidValueError(f"{op}: out has shape {out.shape}, the result has {view.shape}")
    if out.dtype != view.dtype:
        raise InvalidTypeError(f"{op}: out has dtype {out.dtype}, the result has {view.dtype}")
    _native.copy_into(out, view)


def cast_f32_to_bf16(src: GPUArray) -> GPUArray:
    """float32 to bfloat16, rounded to nearest even."""
    return _cast(src, "float32", "bfloat16", "cast_f32_to_bf16")


def cast_f32_to_f16(src: GPUArray) -> GPUArray:
    """float32 to float16, rounded to nearest even."""
    return _cast(src, "float32", "float16", "cast_f32_to_f16")


def cast_bf16_to_f32(src: GPUArray) -> GPUArray:
    """bfloat16 to float32, exact."""
    return _cast(src, "bfloat16", "float32", "cast_bf16_to_f32")


def cast_f16_to_f32(src: GPUArray) -> GPUArray:
    """float16 to float32, exact."""
    return _cast(src, "float16", "float32", "cast_f16_to_f32")


def _cast(src: GPUArray, given: str, wanted: str, op: str) -> GPUArray:
    require_arrays(op, src=src)
    if src.dtype.name != given:
        from pygpukit.core.errors import InvalidTypeError

        raise InvalidTypeError(f"{op}: src has dtype {src.dtype}, expected {given}")
    return _native.astype(src, wanted)


__all__ = [
    "cast_bf16_to_f32",
    "cast_f16_to_f32",
    "cast_f32_to_bf16",
    "cast_f32_to_f16",
    "concat_axis0",
    "copy_to",
    "repeat_interleave_axis1",
    "reshape_copy",
    "transpose_3d_012",
    "transpose_3d_021",
    "transpose_4d_0132",
    "transpose_4d_0213",
]

name_all(globals(), __all__)

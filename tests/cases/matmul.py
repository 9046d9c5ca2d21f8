"""Cases of matmul and vecdot."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import ml_dtypes  # noqa: F401 - makes np.dtype("bfloat16") work
import numpy as np
import pytest

import pygpukit as gp
from cases.must_raise import Refused
from pygpukit.ops.matmul import matmul, matrix_transpose, vecdot

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
COMPLEX = ("complex64", "complex128")
COMPUTE = ("bool", *INTEGERS, *FLOATS, *COMPLEX)

Shape = tuple[int, ...]
any_matmul: Any = matmul  # for arguments that are no arrays

# Every kind of result, and every kernel: tiles, thin, tiny, short k, long k, stacks.
SHAPES: tuple[tuple[Shape, Shape], ...] = (
    ((1,), (1,)),
    ((0,), (0,)),
    ((4099,), (4099,)),
    ((33,), (33, 31)),
    ((31, 33), (33,)),
    ((0, 3), (3, 2)),
    ((3, 0), (0, 5)),
    ((2, 3, 0), (0,)),
    ((3,), (0, 3, 5)),
    ((1, 1), (1, 1)),
    ((2, 3), (3, 4)),
    ((31, 32), (32, 33)),
    ((64, 64), (64, 64)),
    ((3, 64, 64), (3, 64, 64)),
    ((65, 100), (100, 129)),
    ((130, 17), (17, 70)),
    ((40, 4099), (4099, 20)),
    ((300, 7), (7, 300)),
    ((1, 500), (500, 300)),
    ((300, 500), (500, 1)),
    ((4, 500), (500, 200)),
    ((200, 500), (500, 5)),
    ((5, 2, 3), (3,)),
    ((3,), (5, 3, 2)),
    ((4, 20, 30), (30, 25)),
    ((20, 30), (4, 30, 25)),
    ((2, 1, 20, 30), (3, 30, 25)),
    ((2, 3, 17, 18), (2, 3, 18, 19)),
    ((50, 4, 5), (50, 5, 6)),
    ((1, 2, 1, 2, 1, 2, 1, 2, 3, 4), (2, 1, 2, 1, 2, 1, 2, 1, 4, 3)),
    ((7, 0, 3), (7, 3, 2)),
)

# "c": contiguous; "t": the last two axes swapped in memory; "s": every second element, backwards;
# "r": rows and stacks backwards.
LAYOUTS = ("ct", "tc", "tt", "ss", "sc", "cs", "rc", "cr", "rr")

VECDOT: tuple[tuple[Shape, Shape, int], ...] = (
    ((1,), (1,), -1),
    ((0,), (0,), -1),
    ((4099,), (4099,), -1),
    ((70000,), (70000,), 0),
    ((500, 3), (500, 3), -1),
    ((3, 500), (3, 500), 0),
    ((40, 300), (300,), -1),
    ((300,), (2, 40, 300), -1),
    ((2, 1, 33), (5, 33), -1),
    ((33, 2, 3), (33, 2, 3), -3),
    ((3, 0), (3, 0), -1),
    ((0, 3), (0, 3), -1),
)


@dataclass(frozen=True)
class Case:
    """One call: shapes and layouts of both operands, and the destination."""

    op: str
    dtype: str
    a: Shape
    b: Shape
    layout: str = "cc"
    out: str = "new"  # "new", "given" or a layout
    axis: int = -1  # of vecdot

    def __str__(self) -> str:
        parts = (self.op, self.dtype, self.a, self.b, self.layout, self.out, self.axis)
        return "-".join(str(part) for part in parts).replace(" ", "")


def cases() -> Iterator[Case]:
    for dtype in COMPUTE:
        for a, b in SHAPES:
            yield Case("matmul", dtype, a, b)
        for axes in VECDOT:
            yield Case("vecdot", dtype, axes[0], axes[1], axis=axes[2])
    for dtype in ("int8", "bfloat16", "float32", "complex128"):
        for a, b in SHAPES:
            if len(a) > 1 and len(b) > 1:
                for layout in LAYOUTS:
                    yield Case("matmul", dtype, a, b, layout)
        for a, b, axis in VECDOT:
            if len(a) > 1 and len(b) > 1:
                yield Case("vecdot", dtype, a, b, "ts", axis=axis)
        for out in ("given", "s", "r"):
            yield Case("matmul", dtype, (65, 100), (100, 129), "cc", out)
            yield Case("matmul", dtype, (64, 64), (64, 64), "cc", out)
            yield Case("matmul", dtype, (3, 20, 30), (30, 25), "cc", out)
            yield Case("vecdot", dtype, (4, 6, 33), (4, 6, 33), "cc", out)


CASES = list(cases())


def host_array(shape: Shape, dtype: str, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return np.asarray(rng.integers(0, 8, shape) == 0)
    if dtype in INTEGERS:
        info = np.iinfo(dtype)
        return np.asarray(
            rng.integers(info.min, info.max, shape, dtype=np.dtype(dtype), endpoint=True)
        )
    values = np.asarray(rng.normal(size=shape))
    if dtype in COMPLEX:
        values = values + 1j * np.asarray(rng.normal(size=shape))
    return values.astype(dtype)


def place(host: Any, layout: str, device: str | None) -> gp.GPUArray:
    """The array with these values and that layout in memory."""
    if layout == "t":
        return matrix_transpose(gp.from_numpy(np.swapaxes(host, -1, -2).copy(), device=device))
    if layout == "s":
        wide = np.zeros((*host.shape[:-1], 2 * host.shape[-1]), host.dtype)
        wide[..., ::-2] = host
        return gp.from_numpy(wide, device=device)[..., ::-2]
    if layout == "r":
        axes = tuple(range(host.ndim - 1))
        return gp.flip(gp.from_numpy(np.flip(host, axes).copy(), device=device), axis=axes)
    return gp.from_numpy(host, device=device)


_WIDER: dict[str, Any] = {
    "bool": bool,
    "float64": np.longdouble,
    "complex64": np.complex128,
    "complex128": np.clongdouble,
    **dict.fromkeys(INTEGERS, np.int64),
    **dict.fromkeys(("float16", "bfloat16", "float32"), np.float64),
}


def _wide(x: Any) -> Any:
    """A type in which products and sums are practically exact, or wrap as in 64 bits."""
    return x.astype(_WIDER[x.dtype.name])


def _product(case: Case, a: Any, b: Any) -> Any:
    if case.op == "matmul":
        return np.asarray(np.matmul(a, b))
    terms = np.moveaxis(a.conj(), case.axis, -1) * np.moveaxis(b, case.axis, -1)
    return np.asarray(terms.any(-1) if terms.dtype == bool else terms.sum(-1))


def assert_product(case: Case, got: Any, a: Any, b: Any) -> None:
    """Integers and bool exactly; others within the rounding of sums of that many terms."""
    with np.errstate(all="ignore"):
        want = _product(case, _wide(a), _wide(b))
        assert got.shape == want.shape
        assert got.dtype == np.dtype(case.dtype)
        if case.dtype == "bool" or case.dtype in INTEGERS:
            np.testing.assert_array_equal(got, want.astype(case.dtype))
            return
        size = _product(case, np.abs(_wide(a)), np.abs(_wide(b)))
    # Half a step of the result's dtype, relative and where numbers are subnormal.
    unit, least = {"float16": (2**-11, 2**-25), "bfloat16": (2**-8, 0.0)}.get(
        case.dtype, (0.0, 0.0)
    )
    part = np.float64 if case.dtype in ("float64", "complex128") else np.float32
    terms = a.shape[case.axis] + 4
    bound = np.abs(want) * unit + least + size * float(np.finfo(part).eps) * max(4.0, terms**0.5)
    error = np.abs(got.astype(want.dtype) - want)
    assert (error <= bound).all(), f"error {error.max()}, allowed {bound.flat[error.argmax()]}"


def run_case(case: Case, device: str | None = None) -> Any:
    """Calls the op, compares with wide arithmetic, and returns the result's values."""
    seed = zlib.crc32(str(case).encode())
    a, b = (host_array(s, case.dtype, seed + i) for i, s in enumerate((case.a, case.b)))
    operands = [place(x, layout, device) for x, layout in zip((a, b), case.layout, strict=True)]
    op: Callable[..., gp.GPUArray] = matmul if case.op == "matmul" else vecdot
    options: dict[str, Any] = {} if case.op == "matmul" else {"axis": case.axis}
    if case.out == "new":
        result = op(*operands, **options)
        assert result.is_contiguous()
    else:
        shape = _product(case, np.zeros(case.a, bool), np.zeros(case.b, bool)).shape
        out = place(np.zeros(shape, case.dtype), "c" if case.out == "given" else case.out, device)
        result = op(*operands, **options, out=out)
        assert result is out
    values = result.to_numpy()
    assert_product(case, values, a, b)
    for host, operand in zip((a, b), operands, strict=True):
        np.testing.assert_array_equal(operand.to_numpy(), host)
    return values


# Calls get a function that makes arrays of ones.
MUST_RAISE = [
    Refused(
        "core dimensions",
        lambda ones: matmul(ones((2, 3)), ones((4, 5))),
        ValueError,
        ("matmul: Input operand 1", "mismatch in its core dimension 0", "(2, 3)", "(4, 5)"),
    ),
    Refused(
        "core dimension of a stack",
        lambda ones: matmul(ones((2, 3)), ones((7, 4, 5))),
        ValueError,
        ("dimension mismatch", "(2, 3)", "(7, 4, 5)"),
    ),
    Refused("vectors", lambda ones: matmul(ones((3,)), ones((4,))), ValueError, ("(3,)", "(4,)")),
    Refused(
        "stacks",
        lambda ones: matmul(ones((3, 2, 3)), ones((2, 3, 4))),
        ValueError,
        ("broadcast", "(3, 2, 3)", "(2, 3, 4)"),
    ),
    Refused(
        "0-d first",
        lambda ones: matmul(ones(()), ones((4,))),
        ValueError,
        ("Input operand 0", "enough dimensions"),
    ),
    Refused(
        "0-d second",
        lambda ones: matmul(ones((4,)), ones(())),
        ValueError,
        ("Input operand 1", "enough dimensions"),
    ),
    Refused("a number", lambda ones: any_matmul(ones((4,)), 3.0), ValueError, ("operand 1",)),
    Refused("a list", lambda ones: any_matmul(["a"], ones((1,))), TypeError, ("x1 is ['a']",)),
    Refused(
        "a NumPy array",
        lambda ones: any_matmul(ones((4,)), np.ones(4)),
        TypeError,
        ("x2", "GPUArray"),
    ),
    Refused(
        "out shape",
        lambda ones: matmul(ones((2, 3)), ones((3, 4)), out=ones((2, 5))),
        ValueError,
        ("out has shape (2, 5)", "(2, 4)"),
    ),
    Refused(
        "out dtype",
        lambda ones: matmul(ones((2, 3)), ones((3, 4)), out=ones((2, 4), "int32")),
        TypeError,
        ("out has dtype int32", "float32"),
    ),
    Refused(
        "out is no array",
        lambda ones: any_matmul(ones((2, 3)), ones((3, 4)), out=np.ones((2, 4))),
        TypeError,
        ("out", "GPUArray"),
    ),
    Refused(
        "storage type",
        lambda ones: matmul(ones((2, 2), "float8_e5m2"), ones((2, 2), "float8_e5m2")),
        TypeError,
        ("x1 has dtype float8_e5m2", "storage type"),
    ),
    Refused(
        "tf32",
        lambda ones: matmul(ones((2, 2), "float64"), ones((2, 2), "float64"), use_tf32=True),
        RuntimeError,
        ("use_tf32", "float32", "float64"),
    ),
    Refused(
        "vecdot sizes",
        lambda ones: vecdot(ones((3,)), ones((4,))),
        ValueError,
        ("vecdot: ", "core dimension", "(3,)", "(4,)"),
    ),
    Refused(
        "vecdot size 1",
        lambda ones: vecdot(ones((2, 3)), ones((2, 1))),
        ValueError,
        ("vecdot: ", "core dimension"),
    ),
    Refused(
        "vecdot axis", lambda ones: vecdot(ones((3,)), ones((3,)), axis=1), IndexError, ("axis 1",)
    ),
    Refused("vecdot 0-d", lambda ones: vecdot(ones(()), ones((3,))), ValueError, ("operand 0",)),
    Refused(
        "vecdot stacks",
        lambda ones: vecdot(ones((2, 3)), ones((4, 3))),
        ValueError,
        ("broadcast", "(2, 3)", "(4, 3)"),
    ),
]


def run_must_raise(case: Refused, device: str | None = None) -> None:
    def ones(shape: Any, dtype: str = "float32") -> gp.GPUArray:
        make = gp.zeros if dtype.startswith("float8") else gp.ones
        return make(shape, dtype, device=device)

    with pytest.raises(case.error) as caught:
        case.call(ones)
    assert isinstance(caught.value, gp.PyGPUkitError)
    for word in case.words:
        assert word in str(caught.value)

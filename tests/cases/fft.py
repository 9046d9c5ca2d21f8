"""Cases of the fft family: an oracle in higher precision, and calls that are refused."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes  # noqa: F401 - makes np.dtype("bfloat16") work
import numpy as np

import pygpukit as gp
from cases.must_raise import MustRaise

Shape = tuple[int, ...]
OPS = {"fft_execute"}

# Every radix and their products; primes, and products with one, take Bluestein's algorithm; the
# long ones take two or three passes.
LENGTHS = (1, 2, 3, 4, 5, 7, 8, 11, 13, 16, 17, 31, 64, 97, 100, 127, 128, 243, 254, 400, 1000,
           1009, 1024, 2187, 4096, 4099, 6000, 8192, 16384, 18000, 32768, 65536, 65537, 100000,
           131074, 2**20)  # fmt: skip
DIRECT = 300  # points up to which the oracle is a sum
FROM_REAL = ("rfft", "ihfft", "rfftn", "rfft2")
TO_REAL = ("irfft", "hfft", "irfftn", "irfft2")
ONE_AXIS = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")


def direct(x: Any, n: int, axis: int, sign: int) -> Any:
    """sum over i of x[i] e^(sign 2 pi i ik / n), in long double."""
    x = np.moveaxis(x.astype(np.clongdouble), axis, -1)[..., :n]
    x = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, n - x.shape[-1])])
    turns = np.outer(np.arange(n), np.arange(n)) % n
    pi = np.longdouble("3.14159265358979323846264338327950288")
    angles = 2 * pi * turns / np.longdouble(n)
    # matmul has no clongdouble kernels on every platform
    matrix = np.cos(angles) + 1j * sign * np.sin(angles)
    y = (x[..., None, :] * matrix).sum(-1)
    return np.moveaxis(y, -1, axis)


def one_axis(kind: str, x: Any, n: int, axis: int) -> Any:
    """Without scaling, by the definition where that is cheap."""
    if n > DIRECT:
        wide = x.astype(np.complex128 if np.iscomplexobj(x) else np.float64)
        norm = "forward" if kind in ("ifft", "irfft", "ihfft") else "backward"
        return getattr(np.fft, kind)(wide, n, axis, norm)
    if kind in ("fft", "ifft"):
        return direct(x, n, axis, -1 if kind == "fft" else 1)
    if kind in ("rfft", "ihfft"):
        y = direct(x, n, axis, -1 if kind == "rfft" else 1)
        return np.moveaxis(np.moveaxis(y, axis, -1)[..., : n // 2 + 1], -1, axis)
    half = np.moveaxis(x.astype(np.clongdouble), axis, -1)[..., : n // 2 + 1]
    half = np.pad(half, [(0, 0)] * (half.ndim - 1) + [(0, n // 2 + 1 - half.shape[-1])])
    half[..., 0] = half[..., 0].real
    if n % 2 == 0:
        half[..., -1] = half[..., -1].real
    tail = half[..., 1 : (n + 1) // 2][..., ::-1].conj()
    whole = np.moveaxis(np.concatenate([half, tail], -1), -1, axis)
    return direct(whole, n, axis, 1 if kind == "irfft" else -1).real


def oracle(
    op: str, x: Any, lengths: list[int] | None, axes: list[int] | None, norm: str | None
) -> Any:
    if x.dtype.kind not in "fc" or x.dtype.itemsize == 2:
        x = x.astype(np.float32)
    kind = op if op in ONE_AXIS else op.rstrip("n2")
    if axes is None:
        axes = list(range(x.ndim))[-(len(lengths) if lengths else x.ndim) :]
    if lengths is None:
        lengths = [-1] * len(axes)
    sizes = [x.shape[axis] if n == -1 else n for n, axis in zip(lengths, axes, strict=True)]
    if op in TO_REAL and lengths[-1] == -1:
        sizes[-1] = 2 * (x.shape[axes[-1]] - 1)
    inverse = kind in ("ifft", "irfft", "ihfft")
    others = [("ifft" if inverse else "fft", n, axis) for n, axis in zip(sizes, axes, strict=True)]
    last = (kind, sizes[-1], axes[-1])
    steps = [*others[:-1], last] if op in TO_REAL else [last, *others[-2::-1]]
    scale = 1.0
    y = x
    for step, n, axis in steps:
        y = one_axis(step, y, n, axis)
        scale *= n
    if norm == "ortho":
        return y / np.sqrt(scale)
    return y / scale if inverse == (norm in (None, "backward")) else y


@dataclass(frozen=True)
class Case:
    op: str
    shape: Shape
    dtype: str
    view: str = "whole"
    options: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        size = "x".join(map(str, self.shape))
        extra = "".join(f"-{name}={value}" for name, value in self.options.items())
        view = "" if self.view == "whole" else f"-{self.view}"
        return f"{self.op}-{size}-{self.dtype}{extra}{view}"

    def draw(self, shape: Shape) -> Any:
        rng = np.random.default_rng(zlib.crc32(str(self).encode()))
        if self.dtype in ("int32", "uint8", "bool"):
            return rng.integers(0, 2 if self.dtype == "bool" else 100, shape).astype(self.dtype)
        x = rng.normal(size=shape)
        if self.dtype.startswith("complex"):
            x = x + 1j * rng.normal(size=shape)
        return x.astype(self.dtype)

    def want(self, x: Any) -> Any:
        options = dict(self.options)
        if self.op in ONE_AXIS:
            n, axis = options.get("n"), options.get("axis", -1)
            return oracle(self.op, x, None if n is None else [n], [axis], options.get("norm"))
        two = self.op.endswith("2")
        axes = options.get("axes", (-2, -1) if two else None)
        s = options.get("s")
        return oracle(
            self.op,
            x,
            None if s is None else list(s),
            None if axes is None else [axes] if isinstance(axes, int) else list(axes),
            options.get("norm"),
        )

    @property
    def points(self) -> int:
        """Of the longest transform."""
        return max([*self.shape, *(v for v in (self.options.get("n"),) if v)])


def dtypes_of(op: str, wide: bool) -> str:
    if op in FROM_REAL:
        return "float64" if wide else "float32"
    return "complex128" if wide else "complex64"


def length_cases() -> Iterator[Case]:
    for number, n in enumerate(LENGTHS):
        batch = 3 if n <= 20000 else 1
        for op in ("fft", "ifft", "rfft", "irfft"):
            for wide in (False, True):
                if n > 20000 and op == "ifft" and wide:
                    continue
                size = n // 2 + 1 if op == "irfft" else n
                options = {"n": n} if op == "irfft" else {}
                yield Case(op, (batch, size), dtypes_of(op, wide), options=options)
        yield Case("fft", (2, n), ("float32", "float64")[number % 2])
        for op in ("hfft", "ihfft"):
            size = n // 2 + 1 if op == "hfft" else n
            options = {"n": n} if op == "hfft" else {}
            if n <= 20000:
                yield Case(op, (2, size), dtypes_of(op, number % 2 == 0), options=options)


def axis_cases() -> Iterator[Case]:
    for n in (2, 6, 16, 31, 64, 100, 256, 1024, 4096, 20000):
        other = 5 if n < 4096 else 2
        for op in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
            yield Case(op, (2, n, other), dtypes_of(op, False), options={"axis": 1})
        yield Case("fft", (n, 33 if n < 4096 else 2), "complex128", options={"axis": 0})
    yield Case("fft", (2, 3, 4, 5, 6), "complex64", options={"axis": 2})
    yield Case("fft", (1, 1, 8), "complex64", options={"axis": 0})
    for view in (
        "offset",
        "rows",
        "odd rows",
        "step",
        "reversed",
        "transposed",
        "column",
        "rotated",
    ):
        yield Case("fft", (6, 64), "complex64", view)
        yield Case("ifft", (5, 30), "complex128", view, {"axis": 0})
        yield Case("rfft", (6, 64), "float32", view)
        yield Case("rfft", (4, 15), "float64", view)
        yield Case("irfft", (6, 33), "complex64", view)
        yield Case("fft", (3, 17), "float32", view)
        yield Case("rfft", (2, 32768), "float32", view)


def option_cases() -> Iterator[Case]:
    for norm in ("backward", "ortho", "forward", None):
        for op in ONE_AXIS:
            yield Case(op, (3, 12), dtypes_of(op, False), options={"norm": norm})
            yield Case(op, (2, 19), dtypes_of(op, True), options={"norm": norm})
        for op in ("fftn", "rfftn", "irfftn"):
            yield Case(op, (4, 6), dtypes_of(op, False), options={"norm": norm})
    for op in ONE_AXIS:
        for n in (1, 5, 8, 16, 37, 40, 33000):
            yield Case(op, (2, 16), dtypes_of(op, False), options={"n": n})
        yield Case(op, (5, 2), dtypes_of(op, True), options={"n": 7, "axis": 0})
        yield Case(op, (0, 8), dtypes_of(op, False))
        yield Case(op, (2, 0), dtypes_of(op, False), options={"n": 6})
    for op in ("fft", "rfft", "ihfft"):
        for dtype in ("float16", "bfloat16", "int32", "uint8", "bool"):
            yield Case(op, (2, 24), dtype)
    yield Case("irfft", (2, 9), "float32")
    yield Case("hfft", (2, 9), "float64")


def many_axes_cases() -> Iterator[Case]:
    for op in ("fftn", "ifftn", "rfftn", "irfftn", "fft2", "ifft2", "rfft2", "irfft2"):
        for wide in (False, True):
            yield Case(op, (3, 8, 10), dtypes_of(op, wide))
        yield Case(op, (64, 128), dtypes_of(op, False))
        yield Case(op, (3, 8, 10), dtypes_of(op, False), options={"axes": (0, 2)})
        yield Case(op, (3, 8, 10), dtypes_of(op, False), options={"axes": (2, 0)})
        yield Case(op, (6, 5, 4), dtypes_of(op, False), options={"s": (7, 9), "axes": (0, 1)})
        yield Case(op, (6, 5, 4), dtypes_of(op, False), options={"s": (-1, 3), "axes": (2, 1)})
        yield Case(op, (6, 7), dtypes_of(op, True), "transposed")
    yield Case("fftn", (4, 6), "float32")
    yield Case("fftn", (4, 6, 3), "complex64", options={"s": (5, 8)})
    yield Case("fftn", (4, 6), "complex64", options={"axes": (1, 1)})
    yield Case("rfftn", (4, 6), "float32", options={"axes": 1})
    yield Case("irfftn", (5, 0, 6), "complex64", options={"axes": (0, 2)})


CASES = [*length_cases(), *axis_cases(), *option_cases(), *many_axes_cases()]


X = np.ones((2, 6), np.float32)
Z = np.ones((2, 6), np.complex64)
MUST_RAISE = [
    MustRaise("fft", "not an array", lambda a: gp.fft.fft(1.0), TypeError,  # type: ignore[arg-type]
              ("x is of type float", "GPUArray")),
    MustRaise("fft", "n", lambda a: gp.fft.fft(a(Z), 0), ValueError, ("n is 0", "at least 1")),
    MustRaise("fft", "negative n", lambda a: gp.fft.fft(a(Z), -1), ValueError, ("n is -1",)),
    MustRaise("fft", "n is text", lambda a: gp.fft.fft(a(Z), "6"), TypeError,  # type: ignore[arg-type]
              ("n is str '6'", "int")),
    MustRaise("fft", "too long", lambda a: gp.fft.fft(a(Z), 2**30 + 1), ValueError,
              ("1073741825 points", "2**30")),
    MustRaise("fft", "a long prime", lambda a: gp.fft.fft(a(Z), 2**29 + 11), ValueError,
              ("536870923 points", "2**29")),
    MustRaise("fft", "empty axis", lambda a: gp.fft.fft(a(Z[:, :0])), ValueError,
              ("axis 1 has 0 points", "at least 1")),
    MustRaise("fft", "axis", lambda a: gp.fft.fft(a(Z), axis=2), IndexError, ("axis 2",)),
    MustRaise("fft", "axis is text", lambda a: gp.fft.fft(a(Z), axis="0"), TypeError,  # type: ignore[arg-type]
              ("axis is '0'", "an int")),
    MustRaise("fft", "0-d", lambda a: gp.fft.fft(a(Z[0, 0])), IndexError, ("axis -1",)),
    MustRaise("ifft", "norm", lambda a: gp.fft.ifft(a(Z), norm="both"), ValueError,
              ("norm is 'both'", "backward, ortho, forward")),
    MustRaise("ifft", "norm is a number", lambda a: gp.fft.ifft(a(Z), norm=1), TypeError,  # type: ignore[arg-type]
              ("norm is 1", "a str")),
    MustRaise("rfft", "complex", lambda a: gp.fft.rfft(a(Z)), TypeError,
              ("x has dtype complex64", "real")),
    MustRaise("ihfft", "complex", lambda a: gp.fft.ihfft(a(Z)), TypeError,
              ("x has dtype complex64", "real")),
    MustRaise("rfftn", "complex", lambda a: gp.fft.rfftn(a(Z)), TypeError,
              ("x has dtype complex64", "real")),
    MustRaise("fft", "float8", lambda a: gp.fft.fft(gp.astype(a(X), "float8_e5m2")), TypeError,
              ("x has dtype float8_e5m2",)),
    MustRaise("irfft", "one point", lambda a: gp.fft.irfft(a(Z[:, :1])), ValueError,
              ("axis 1 has 0 points",)),
    MustRaise("fftn", "s and axes", lambda a: gp.fft.fftn(a(Z), (4,), (0, 1)), ValueError,
              ("s has 1 lengths", "axes has 2")),
    MustRaise("fftn", "s", lambda a: gp.fft.fftn(a(Z), (4, 0)), ValueError, ("0 points",)),
    MustRaise("fftn", "s is text", lambda a: gp.fft.fftn(a(Z), ("4", 2)), TypeError, ("s ",)),  # type: ignore[arg-type]
    MustRaise("fftn", "too many lengths", lambda a: gp.fft.fftn(a(Z), (4, 4, 4)), IndexError,
              ("axis -3",)),
    MustRaise("fft2", "1-d", lambda a: gp.fft.fft2(a(Z[0])), IndexError, ("axis -2",)),
    MustRaise("rfftn", "no axes", lambda a: gp.fft.rfftn(a(X), axes=()), ValueError,
              ("axes is empty",)),
    MustRaise("irfftn", "no axes", lambda a: gp.fft.irfftn(a(Z), axes=()), ValueError,
              ("axes is empty",)),
    MustRaise("fft", "out's shape", lambda a: gp.fft.fft(a(Z), 4, out=a(Z)), ValueError,
              ("out", "(2, 4)")),
    MustRaise("fft", "out's dtype", lambda a: gp.fft.fft(a(Z), out=a(X)), TypeError, ("out",)),
    MustRaise("fftfreq", "n", lambda a: gp.fft.fftfreq(0), ValueError, ("n is 0",)),
    MustRaise("fftfreq", "d", lambda a: gp.fft.fftfreq(3, 0.0), ValueError, ("d is 0",)),
    MustRaise("rfftfreq", "dtype", lambda a: gp.fft.rfftfreq(3, dtype="int32"), TypeError,
              ("dtype is 'int32'", "real floating")),
    MustRaise("fftshift", "axes", lambda a: gp.fft.fftshift(a(X), 2), IndexError, ("axis 2",)),
    MustRaise("ifftshift", "not an array", lambda a: gp.fft.ifftshift(3), TypeError,  # type: ignore[arg-type]
              ("x is of type int",)),
    MustRaise("explain", "kind", lambda a: gp.fft.explain(8, kind="dct"), ValueError,
              ("kind is 'dct'", "rfft")),
]  # fmt: skip

"""The special cases of the array API standard 2024.12, as tables of operands and results.

A line is an op and its cases, `operands:result`. A complex number is written `a,b`. Names stand for
several operands (GROUPS); of a result, `~` leaves the sign open, and `x1`, `|x1|` are operands.
Two lines differ from the standard's text, as C and NumPy do (docs/array-api.md): sqrt of infinities
with a finite imaginary part, and the sign of the zero of tanh.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import pygpukit as gp

INF, NAN = math.inf, math.nan

GROUPS: dict[str, tuple[float, ...]] = {
    "zero": (0.0, -0.0),
    "infs": (INF, -INF),
    "pos": (0.5, 1.0, 3.0),
    "neg": (-0.5, -1.0, -3.0),
    "nonzero": (0.5, 1.0, 3.0, -0.5, -1.0, -3.0),
    "finite": (0.0, -0.0, 0.5, 1.0, 3.0, -0.5, -1.0, -3.0),
    "number": (0.0, -0.0, 1.0, -3.0, INF, -INF),
    "any": (0.0, -0.0, 1.0, -3.0, INF, -INF, NAN),
    "up": (0.5, 1.0, 3.0, INF),
    "down": (-0.5, -1.0, -3.0, -INF),
    "large": (1.5, 3.0, INF),
    "-large": (-1.5, -3.0, -INF),
    "big": (1.5, 3.0, -1.5, -3.0, INF, -INF),
    "small": (0.0, -0.0, 0.5, -0.25),
    "unit": (1.0, -1.0),
    "odd": (1.0, 3.0),
    "-odd": (-1.0, -3.0),
    "even": (0.5, 2.0, 4.0),
    "-even": (-0.5, -2.0, -4.0),
    "fraction": (0.5, -1.5),
}

UNARY = """
abs     nan:nan -0:0 -inf:inf
acos    nan:nan large:nan -large:nan 1:0
acosh   nan:nan small:nan down:nan 1:0 inf:inf
asin    nan:nan large:nan -large:nan 0:0 -0:-0
asinh   nan:nan 0:0 -0:-0 inf:inf -inf:-inf
atan    nan:nan 0:0 -0:-0 inf:pi/2 -inf:-pi/2
atanh   nan:nan large:nan -large:nan 1:inf -1:-inf 0:0 -0:-0
ceil    nan:nan 0:0 -0:-0 inf:inf -inf:-inf 3:3 -3:-3
cos     nan:nan 0:1 -0:1 inf:nan -inf:nan
cosh    nan:nan 0:1 -0:1 inf:inf -inf:inf
exp     nan:nan 0:1 -0:1 inf:inf -inf:0
expm1   nan:nan 0:0 -0:-0 inf:inf -inf:-1
floor   nan:nan 0:0 -0:-0 inf:inf -inf:-inf 3:3 -3:-3
isfinite nan:0 infs:0 finite:1
isinf   nan:0 infs:1 finite:0
isnan   nan:1 infs:0 finite:0
log     nan:nan down:nan zero:-inf 1:0 inf:inf
log1p   nan:nan -large:nan -1:-inf 0:0 -0:-0 inf:inf
log2    nan:nan down:nan zero:-inf 1:0 inf:inf
log10   nan:nan down:nan zero:-inf 1:0 inf:inf
reciprocal nan:nan 0:inf -0:-inf inf:0 -inf:-0
round   nan:nan 0:0 -0:-0 inf:inf -inf:-inf 0.5:0 1.5:2 2.5:2 -0.5:-0 -1.5:-2
sign    nan:nan down:-1 zero:~0 up:1
signbit 0:0 -0:1 inf:0 -inf:1 pos:0 neg:1 nan:0 -nan:1
sin     nan:nan 0:0 -0:-0 infs:nan
sinh    nan:nan 0:0 -0:-0 inf:inf -inf:-inf
square  nan:nan zero:0 infs:inf
sqrt    nan:nan down:nan 0:0 -0:-0 inf:inf
tan     nan:nan 0:0 -0:-0 infs:nan
tanh    nan:nan 0:0 -0:-0 inf:1 -inf:-1
trunc   nan:nan 0:0 -0:-0 inf:inf -inf:-inf 3:3 -3:-3
"""

BINARY = """
add     nan any:nan  any nan:nan  inf -inf:nan  -inf inf:nan  inf inf:inf  -inf -inf:-inf
add     inf finite:inf  -inf finite:-inf  finite inf:inf  finite -inf:-inf
add     -0 -0:-0  -0 0:0  0 -0:0  0 0:0  zero nonzero:x2  nonzero zero:x1  3 -3:0  -0.5 0.5:0
subtract  nan any:nan  any nan:nan  inf inf:nan  -inf -inf:nan  inf -inf:inf  -inf inf:-inf
subtract  inf finite:inf  -inf finite:-inf  finite inf:-inf  finite -inf:inf
subtract  -0 0:-0  -0 -0:0  0 0:0  0 -0:0  nonzero zero:x1  3 3:0
atan2   nan any:nan  any nan:nan  up zero:pi/2  down zero:-pi/2
atan2   0 pos:0  0 0:0  0 -0:pi  0 neg:pi  -0 pos:-0  -0 0:-0  -0 -0:-pi  -0 neg:-pi
atan2   pos inf:0  pos -inf:pi  neg inf:-0  neg -inf:-pi  inf finite:pi/2  -inf finite:-pi/2
atan2   inf inf:pi/4  inf -inf:3pi/4  -inf inf:-pi/4  -inf -inf:-3pi/4
copysign  number down:-|x1|  number -0:-|x1|  number 0:|x1|  number up:|x1|
copysign  number -nan:-|x1|  number nan:|x1|
divide  nan any:nan  any nan:nan  infs infs:nan  zero zero:nan
divide  0 up:0  -0 up:-0  0 down:-0  -0 down:0  up 0:inf  up -0:-inf  down 0:-inf  down -0:inf
divide  inf pos:inf  inf neg:-inf  -inf pos:-inf  -inf neg:inf
divide  pos inf:0  pos -inf:-0  neg inf:-0  neg -inf:0
floor_divide  nan any:nan  any nan:nan  infs infs:nan  zero zero:nan
floor_divide  0 up:0  -0 up:-0  0 down:-0  -0 down:0
floor_divide  up 0:inf  up -0:-inf  down 0:-inf  down -0:inf
floor_divide  inf pos:inf  inf neg:-inf  -inf pos:-inf  -inf neg:inf
floor_divide  pos inf:0  pos -inf:-0  neg inf:-0  neg -inf:0
hypot   infs any:inf  any infs:inf  zero any:|x2|  any zero:|x1|  finite nan:nan  nan finite:nan
hypot   nan nan:nan
logaddexp  nan any:nan  any nan:nan  inf number:inf  number inf:inf
maximum nan any:nan  any nan:nan
minimum nan any:nan  any nan:nan
multiply  nan any:nan  any nan:nan  infs zero:nan  zero infs:nan  inf up:inf  inf down:-inf
multiply  -inf up:-inf  -inf down:inf  up inf:inf  down inf:-inf  up -inf:-inf  down -inf:inf
multiply  0 pos:0  -0 pos:-0  0 neg:-0  -0 neg:0
nextafter nan any:nan  any nan:nan  -0 0:0  0 -0:-0
pow     zero nan:nan  number -0:1  any 0:1  any -0:1  nan nonzero:nan  -3 nan:nan  infs nan:nan
pow     big inf:inf  big -inf:0  unit infs:1  1 number:1  small inf:0  small -inf:inf
pow     inf up:inf  inf down:0  -inf odd:-inf  -inf even:inf  -inf -odd:-0  -inf -even:0
pow     0 up:0  0 down:inf  -0 odd:-0  -0 even:0  -0 -odd:-inf  -0 -even:inf  neg fraction:nan
remainder  nan any:nan  any nan:nan  infs infs:nan  zero zero:nan  zero up:0  zero down:-0
remainder  up zero:nan  down zero:nan  infs nonzero:nan
remainder  pos inf:x1  pos -inf:x2  neg inf:x2  neg -inf:x1
equal   nan any:0  any nan:0  inf inf:1  -inf -inf:1  zero zero:1  inf -inf:0  3 3:1  3 1:0
not_equal  nan any:1  any nan:1  inf inf:0  inf -inf:1  -inf inf:1  zero zero:0  3 1:1
less    nan any:0  any nan:0  -inf inf:1  zero zero:0  -0 0:0
greater_equal  nan any:0  any nan:0  inf inf:1  zero zero:1  -0 0:1
"""

COMPLEX = """
abs     infs,any:inf any,infs:inf zero,pos:b pos,zero:a nan,finite:nan finite,nan:nan nan,nan:nan
acos    zero,0:pi/2,-0 zero,nan:pi/2,nan finite,inf:pi/2,-inf nonzero,nan:nan,nan
acos    -inf,pos:pi,-inf inf,pos:0,-inf -inf,inf:3pi/4,-inf inf,inf:pi/4,-inf infs,nan:nan,~inf
acos    nan,finite:nan,nan nan,inf:nan,-inf nan,nan:nan,nan
acosh   zero,0:0,pi/2 finite,inf:inf,pi/2 nonzero,nan:nan,nan 0,nan:nan,~pi/2
acosh   -inf,pos:inf,pi inf,pos:inf,0 -inf,inf:inf,3pi/4 inf,inf:inf,pi/4 infs,nan:inf,nan
acosh   nan,finite:nan,nan nan,inf:inf,nan nan,nan:nan,nan
asinh   0,0:0,0 pos,inf:inf,pi/2 finite,nan:nan,nan inf,pos:inf,0 inf,inf:inf,pi/4
asinh   nan,0:nan,0 nan,nonzero:nan,nan nan,inf:~inf,nan nan,nan:nan,nan
atanh   0,0:0,0 0,nan:0,nan 1,0:inf,0 pos,inf:0,pi/2 nonzero,nan:nan,nan inf,pos:0,pi/2
atanh   inf,inf:0,pi/2 inf,nan:0,nan nan,finite:nan,nan nan,inf:~0,pi/2 nan,nan:nan,nan
cosh    0,0:1,0 0,inf:nan,~0 0,nan:nan,~0 nonzero,inf:nan,nan nonzero,nan:nan,nan inf,0:inf,0
cosh    inf,nonzero:inf*cos,inf*sin inf,inf:~inf,nan inf,nan:inf,nan nan,zero:nan,~0
cosh    nan,nonzero:nan,nan nan,nan:nan,nan
exp     zero,0:1,0 finite,inf:nan,nan finite,nan:nan,nan inf,0:inf,0 -inf,finite:0*cos,0*sin
exp     inf,nonzero:inf*cos,inf*sin -inf,inf:~0,~0 inf,inf:~inf,nan -inf,nan:~0,~0 inf,nan:~inf,nan
exp     nan,0:nan,0 nan,nonzero:nan,nan nan,nan:nan,nan
expm1   zero,0:~0,0 finite,inf:nan,nan finite,nan:nan,nan inf,0:inf,0 -inf,finite:-1,0*sin
expm1   inf,nonzero:inf*cos,inf*sin -inf,inf:-1,~0 inf,inf:~inf,nan -inf,nan:-1,~0 inf,nan:~inf,nan
expm1   nan,0:nan,0 nan,nonzero:nan,nan nan,nan:nan,nan
isfinite nan,any:0 any,nan:0 infs,any:0 any,infs:0 finite,finite:1
isinf   infs,any:1 any,infs:1 nan,finite:0 finite,nan:0 finite,finite:0 nan,nan:0
isnan   nan,any:1 any,nan:1 infs,infs:0 finite,finite:0
log     -0,0:-inf,pi 0,0:-inf,0 finite,inf:inf,pi/2 finite,nan:nan,nan -inf,pos:inf,pi inf,pos:inf,0
log     -inf,inf:inf,3pi/4 inf,inf:inf,pi/4 infs,nan:inf,nan nan,finite:nan,nan nan,inf:inf,nan
log     nan,nan:nan,nan
log1p   -1,0:-inf,0 finite,inf:inf,pi/2 finite,nan:nan,nan -inf,pos:inf,pi inf,pos:inf,0
log1p   -inf,inf:inf,3pi/4 inf,inf:inf,pi/4 infs,nan:inf,nan nan,finite:nan,nan nan,inf:inf,nan
log1p   nan,nan:nan,nan
round   nan,inf:nan,inf -0,0.5:-0,0 1.5,-2.5:2,-2 -inf,-0:-inf,-0
sign    zero,zero:~0,~0 nan,any:nan,nan any,nan:nan,nan
sinh    0,0:0,0 0,inf:~0,nan 0,nan:~0,nan pos,inf:nan,nan pos,nan:nan,nan inf,0:inf,0
sinh    inf,pos:inf*cos,inf*sin inf,inf:~inf,nan inf,nan:~inf,nan nan,0:nan,0 nan,nonzero:nan,nan
sinh    nan,nan:nan,nan
sqrt    zero,0:0,0 number,inf:inf,inf finite,nan:nan,nan -inf,nan:nan,~inf inf,nan:inf,nan
sqrt    nan,finite:nan,nan nan,nan:nan,nan nan,inf:inf,inf
sqrt    -inf,pos:0,inf inf,pos:inf,0
tanh    0,0:0,0 nonzero,inf:nan,nan 0,inf:0,nan nonzero,nan:nan,nan 0,nan:0,nan inf,pos:1,0*sin2
tanh    inf,inf:1,~0 inf,nan:1,~0 nan,0:nan,0 nan,nonzero:nan,nan nan,nan:nan,nan
"""

# f(z) = -i g(i z): the standard defines the special cases of f by those of g.
ROTATED = {"asin": "asinh", "atan": "atanh", "sin": "sinh", "tan": "tanh"}
# f(conj(z)) = conj(f(z)), and f(-z) = -f(z).
CONJUGATE = frozenset(
    [
        "acos",
        "acosh",
        "asinh",
        "atanh",
        "cosh",
        "exp",
        "expm1",
        "log",
        "log1p",
        "sinh",
        "sqrt",
        "tanh",
    ]
)
ODD = frozenset(["asinh", "atanh", "sinh", "tanh"])
EVEN = frozenset(["cosh"])


@dataclass(frozen=True)
class Part:
    """A real result, or the real or imaginary part of one. NaN has no sign."""

    value: float
    signed: bool = True

    def negated(self) -> Part:
        return Part(-self.value, self.signed)


@dataclass(frozen=True)
class SpecialCase:
    """Operands, as pairs where they are complex, and one or two parts of the result."""

    operands: tuple[float, ...]
    parts: tuple[Part, ...]


def _numbers(text: str) -> tuple[float, ...]:
    return GROUPS[text] if text in GROUPS else (float(text),)


def _part(text: str, operands: tuple[float, ...]) -> Part:
    signed = not text.startswith("~")
    text = text.lstrip("~")
    factor, _, function = text.partition("*")
    if function:  # inf * cis(b), 0 * cis(b)
        value = math.cos(operands[1]) if function == "cos" else math.sin(operands[1])
        if function == "sin2":
            value = math.sin(2 * operands[1])
        return Part(float(factor) * math.copysign(1, value), signed)
    sign = -1.0 if text.startswith("-") else 1.0
    body = text.lstrip("-")
    if body in ("x1", "x2"):
        return Part(sign * operands[int(body[1]) - 1])
    if body in ("|x1|", "|x2|"):
        return Part(sign * abs(operands[int(body[2]) - 1]))
    if body in ("a", "b"):
        return Part(operands["ab".index(body)])
    if "pi" in body:
        times, _, over = body.partition("pi")
        return Part(sign * float(times or 1) * math.pi / float(over.lstrip("/") or 1), signed)
    return Part(math.copysign(float(body), sign), signed)


def _table(text: str, separator: str) -> dict[str, list[SpecialCase]]:
    table: dict[str, list[SpecialCase]] = {}
    for line in text.strip().split("\n"):
        op, _, cases = line.partition(" ")
        for case in _split(cases, separator):
            given, _, result = case.partition(":")
            for operands in itertools.product(*map(_numbers, given.split(separator))):
                parts = tuple(_part(part, operands) for part in result.split(","))
                table.setdefault(op, []).append(SpecialCase(operands, parts))
    return table


def _split(cases: str, separator: str) -> Iterator[str]:
    if separator == ",":
        yield from cases.split()
        return
    words = iter(cases.split())
    for word in words:
        yield word if ":" in word else f"{word} {next(words)}"


def _with_symmetries(op: str, cases: list[SpecialCase]) -> list[SpecialCase]:
    """Beside each case those that follow from it; the table's own come first."""
    found = list(cases)
    if op in CONJUGATE:
        found += [
            SpecialCase((c.operands[0], -c.operands[1]), (c.parts[0], c.parts[1].negated()))
            for c in cases
        ]
    if op in ODD:
        found += [
            SpecialCase(
                (-c.operands[0], -c.operands[1]), (c.parts[0].negated(), c.parts[1].negated())
            )
            for c in list(found)
        ]
    if op in EVEN:
        found += [SpecialCase((-c.operands[0], -c.operands[1]), c.parts) for c in list(found)]
    return found


def _complex_table() -> dict[str, list[SpecialCase]]:
    table = {op: _with_symmetries(op, cases) for op, cases in _table(COMPLEX, ",").items()}
    for op, other in ROTATED.items():
        table[op] = [
            SpecialCase((c.operands[1], -c.operands[0]), (c.parts[1], c.parts[0].negated()))
            for c in table[other]
        ]
    table["cos"] = [SpecialCase((c.operands[1], -c.operands[0]), c.parts) for c in table["cosh"]]
    for op, base in (("log2", 2.0), ("log10", 10.0)):
        table[op] = [
            SpecialCase(
                c.operands, tuple(Part(p.value / math.log(base), p.signed) for p in c.parts)
            )
            for c in table["log"]
        ]
    return table


REAL_CASES = {**_table(UNARY, " "), **_table(BINARY, " ")}
COMPLEX_CASES = _complex_table()


def _as_complex(pairs: list[tuple[float, ...]], dtype: Any) -> Any:
    """Part by part: a + 1j * b would make NaN of infinities."""
    parts = np.array(pairs, dtype=np.float64)
    result = np.empty(len(pairs), np.complex128)
    result.real, result.imag = parts[:, 0], parts[:, 1]
    return result.astype(dtype)


def check(op: str, dtype: str, make: Callable[[Any], Any]) -> None:
    """With arrays that `make` makes of NumPy's."""
    check_call(op, dtype, lambda *given: getattr(gp, op)(*map(make, given)).to_numpy())


def check_call(op: str, dtype: str, call: Callable[..., Any]) -> None:
    """All cases of an op in one call of NumPy arrays."""
    cases = (COMPLEX_CASES if dtype.startswith("complex") else REAL_CASES)[op]
    if dtype.startswith("complex"):
        operands = [_as_complex([c.operands for c in cases], dtype)]
    else:
        operands = [
            np.array(column, dtype) for column in zip(*(c.operands for c in cases), strict=True)
        ]
    got = call(*operands)
    values = [got.real, got.imag] if len(cases[0].parts) == 2 else [got]
    wrong = []
    for n, case in enumerate(cases):
        found = [float(v[n]) for v in values]
        if not all(map(_fits, found, case.parts)):
            wrong.append(f"{op}{case.operands} is {found}, expected {case.parts}")
    assert not wrong, "\n".join(wrong)


def _fits(got: float, want: Part) -> bool:
    if math.isnan(want.value):
        return math.isnan(got)
    if want.signed and math.copysign(1, got) != math.copysign(1, want.value):
        return False
    return math.isclose(abs(got), abs(want.value), rel_tol=1e-6)

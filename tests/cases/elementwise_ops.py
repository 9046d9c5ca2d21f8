"""What every elementwise op means: NumPy (or Python's math) in a wider dtype, rounded once."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import scipy.special

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
COMPLEX = ("complex64", "complex128")
COMPUTE = ("bool", *INTEGERS, *FLOATS, *COMPLEX)
STORAGE = ("float8_e4m3fn", "float8_e5m2", "int4", "uint4", "float4_e2m1fn")

Function = Callable[..., Any]
Range = tuple[float, float]


def numpy_type(name: str) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, name, name))


@dataclass(frozen=True)
class Op:
    """`function` gets operands of a wider dtype; `like` is NumPy's op with the same dtype rules."""

    function: Function
    like: Function
    arity: int = 1
    ulps: float = 0  # beyond rounding; 0: exact
    complex_ulps: float = 8  # of the magnitude
    floor: float = 0.0  # units of smaller results are those of this number
    domain: Range = (-10.0, 10.0)  # of random operands, beside special values
    integers: tuple[Range, ...] | None = None  # of integer operands; None: all values
    nonzero: tuple[str, ...] = ()  # dtype kinds whose last operand must not be 0
    native: bool = False  # in the dtype it computes in: rounding inside the formula is part of it
    signed_zeros: bool = True  # the sign of a result 0.0 is defined


def _unary(function: Function, ulps: float = 0, **options: Any) -> Op:
    return Op(function, options.pop("like", function), 1, ulps, **options)


def _binary(function: Function, ulps: float = 0, **options: Any) -> Op:
    return Op(function, options.pop("like", function), 2, ulps, **options)


def _by_math(function: Callable[[float], float]) -> Function:
    vectorized = np.vectorize(function, otypes=[np.float64])
    return lambda x: vectorized(x.astype(np.float64)) if x.size else x.astype(np.float64)


def _lgamma(x: float) -> float:
    if math.isinf(x) or abs(x) > 1e300 or (x <= 0 and x == math.floor(x)):
        return math.inf
    return math.lgamma(x)


def _by_scipy(name: str) -> Function:
    """In float64, which scipy.special computes in."""
    function = getattr(scipy.special, name)
    return lambda *operands: function(*(x.astype(np.float64) for x in operands))


def _erfcinv(c: Any) -> Any:
    """SciPy's; where that loses the tail, through its inverse of log(ndtr)."""
    c = c.astype(np.float64)
    tail = -scipy.special.ndtri_exp(np.log(c) - math.log(2)) / math.sqrt(2)
    return np.where((c > 0) & (c < 1e-10), tail, scipy.special.erfcinv(c))


def _i0(x: Any) -> Any:
    """SciPy's has NaN at infinity."""
    return np.where(np.isinf(x), np.inf, _by_scipy("i0")(x))


def _kept(function: Function) -> Function:
    """The rule of floor: integers and bool stay as they are."""
    return lambda x: x if x.dtype.kind in "biu" else function(x)


def _floor_divide(a: Any, b: Any) -> Any:
    """The standard's rule for infinities, where NumPy follows Python."""
    result = np.floor_divide(a, b)
    if result.dtype.kind != "f":
        return result
    return np.where(np.isinf(a) | np.isinf(b), np.floor(a / b), result)


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _gelu(x: Any) -> Any:
    # As x sigmoid(2 u): 1 + tanh(u) would cancel.
    s = _sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))
    return np.where(s == 0, 0 * x, x * s)


def _gelu_erf(x: Any) -> Any:
    return 0.5 * x * _by_math(math.erfc)(-x / math.sqrt(2))


def _softplus(x: Any) -> Any:
    return np.logaddexp(x, 0)


def _relu(x: Any) -> Any:
    return np.where(x < 0, x.dtype.type(0), x)


def _nan_to_num(x: Any, nan: Any, posinf: Any, neginf: Any) -> Any:
    if x.dtype.kind == "c":
        parts = [_nan_to_num(part, nan.real, posinf.real, neginf.real) for part in (x.real, x.imag)]
        return parts[0] + 1j * parts[1]
    return np.where(
        np.isnan(x), nan, np.where(np.isposinf(x), posinf, np.where(np.isneginf(x), neginf, x))
    )


def _promoted(*operands: Any) -> Any:
    return np.zeros(1, np.result_type(*operands))


SHIFTS = ((-1e30, 1e30), (-3.0, 70.0))

OPS: dict[str, Op] = {
    "add": _binary(np.add),
    "subtract": _binary(np.subtract),
    "multiply": _binary(np.multiply),
    "divide": _binary(np.true_divide, nonzero=("c",)),
    "floor_divide": _binary(_floor_divide, like=np.floor_divide, native=True),
    "remainder": _binary(np.remainder, native=True),
    "fmod": _binary(np.fmod, native=True),
    "pow": _binary(np.power, 4, complex_ulps=64, integers=((-1e30, 1e30), (0, 12))),
    "maximum": _binary(np.maximum, signed_zeros=False),
    "minimum": _binary(np.minimum, signed_zeros=False),
    "fmax": _binary(np.fmax, signed_zeros=False),
    "fmin": _binary(np.fmin, signed_zeros=False),
    "gcd": _binary(np.gcd),
    "lcm": _binary(np.lcm, integers=((-100, 100), (-100, 100))),
    "atan2": _binary(np.arctan2, 4),
    "hypot": _binary(np.hypot, 3),
    "copysign": _binary(np.copysign),
    "nextafter": _binary(np.nextafter, native=True, signed_zeros=False),
    "heaviside": _binary(np.heaviside),
    "logaddexp": _binary(np.logaddexp, 4, floor=1.0),
    "logaddexp2": _binary(np.logaddexp2, 4, floor=1.0),
    "equal": _binary(np.equal),
    "not_equal": _binary(np.not_equal),
    "less": _binary(np.less),
    "less_equal": _binary(np.less_equal),
    "greater": _binary(np.greater),
    "greater_equal": _binary(np.greater_equal),
    "logical_and": _binary(np.logical_and),
    "logical_or": _binary(np.logical_or),
    "logical_xor": _binary(np.logical_xor),
    "bitwise_and": _binary(np.bitwise_and),
    "bitwise_or": _binary(np.bitwise_or),
    "bitwise_xor": _binary(np.bitwise_xor),
    "bitwise_left_shift": _binary(np.left_shift, integers=SHIFTS),
    "bitwise_right_shift": _binary(np.right_shift, integers=SHIFTS),
    "bitwise_invert": _unary(np.invert),
    "logical_not": _unary(np.logical_not),
    "negative": _unary(np.negative),
    "positive": _unary(np.positive),
    "abs": _unary(np.abs, complex_ulps=3),
    "sign": _unary(np.sign),
    "square": _unary(np.square),
    "reciprocal": _unary(np.reciprocal, nonzero=("i", "u", "c")),
    "conj": _unary(np.conj),
    "real": _unary(np.real),
    "imag": _unary(np.imag),
    "floor": _unary(np.floor),
    "ceil": _unary(np.ceil),
    "trunc": _unary(np.trunc),
    "rint": _unary(_kept(np.rint)),
    "isnan": _unary(np.isnan),
    "isinf": _unary(np.isinf),
    "isfinite": _unary(np.isfinite),
    "signbit": _unary(np.signbit),
    "sqrt": _unary(np.sqrt),
    "rsqrt": _unary(lambda x: 1 / np.sqrt(x), 2, like=np.sqrt, nonzero=("c",)),
    "cbrt": _unary(np.cbrt, 3),
    "exp": _unary(np.exp, 2),
    "exp2": _unary(np.exp2, 2, complex_ulps=16),
    "expm1": _unary(np.expm1, 2),
    "log": _unary(np.log, 2),
    "log2": _unary(np.log2, 2),
    "log10": _unary(np.log10, 3),
    "log1p": _unary(np.log1p, 2, domain=(-0.99, 10.0)),
    "sin": _unary(np.sin, 2),
    "cos": _unary(np.cos, 2),
    "tan": _unary(np.tan, 4, complex_ulps=16),
    "asin": _unary(np.arcsin, 4, domain=(-1.0, 1.0)),
    "acos": _unary(np.arccos, 4, domain=(-1.0, 1.0)),
    "atan": _unary(np.arctan, 2, complex_ulps=16),
    "sinh": _unary(np.sinh, 3),
    "cosh": _unary(np.cosh, 3),
    "tanh": _unary(np.tanh, 3, complex_ulps=16),
    "asinh": _unary(np.arcsinh, 4),
    "acosh": _unary(np.arccosh, 4, domain=(1.0, 20.0)),
    "atanh": _unary(np.arctanh, 4, domain=(-1.0, 1.0), complex_ulps=16),
    "deg2rad": _unary(np.deg2rad, 2),
    "rad2deg": _unary(np.rad2deg, 2),
    "erf": _unary(_by_math(math.erf), 3, like=np.cbrt),
    "erfc": _unary(_by_math(math.erfc), 8, like=np.cbrt),
    "lgamma": _unary(_by_math(_lgamma), 8, like=np.cbrt, domain=(0.05, 30.0), floor=1.0),
    "gamma": _unary(_by_scipy("gamma"), 10, like=np.cbrt),
    "digamma": _unary(_by_scipy("digamma"), 8, like=np.cbrt, domain=(0.05, 30.0), floor=1.0),
    "erfinv": _unary(_by_scipy("erfinv"), 8, like=np.cbrt, domain=(-1.0, 1.0)),
    "erfcinv": _unary(_erfcinv, 8, like=np.cbrt, domain=(0.0, 2.0)),
    "ndtr": _unary(_by_scipy("ndtr"), 8, like=np.cbrt, domain=(-2.0, 6.0)),
    "ndtri": _unary(_by_scipy("ndtri"), 8, like=np.cbrt, domain=(0.0, 1.0)),
    "logit": _unary(_by_scipy("logit"), 4, like=np.cbrt, domain=(0.0, 1.0)),
    "i0": _unary(_i0, 8, like=np.cbrt),
    "sinc": _unary(np.sinc, 4, like=np.cbrt, floor=1.0),
    "entr": _unary(_by_scipy("entr"), 4, like=np.cbrt, domain=(0.0, 10.0)),
    "xlogy": _binary(_by_scipy("xlogy"), 4, like=np.hypot, domain=(0.0, 10.0)),
    "xlog1py": _binary(_by_scipy("xlog1py"), 4, like=np.hypot, domain=(-0.99, 10.0)),
    "sigmoid": _unary(_sigmoid, 4, like=np.cbrt, domain=(-20.0, 20.0)),
    "silu": _unary(lambda x: x * _sigmoid(x), 4, like=np.cbrt, domain=(-20.0, 20.0)),
    "gelu": _unary(_gelu, 8, like=np.cbrt, domain=(-6.0, 6.0), floor=1.0),
    "gelu_erf": _unary(_gelu_erf, 8, like=np.cbrt, domain=(-6.0, 6.0), floor=1.0),
    "quick_gelu": _unary(lambda x: x * _sigmoid(1.702 * x), 8, like=np.cbrt, floor=1.0),
    "softplus": _unary(_softplus, 4, like=np.cbrt, floor=1.0),
    "leaky_relu": _binary(lambda x, slope: np.where(x < 0, x * slope, x), 1, like=np.hypot),
    "snake": _binary(
        lambda x, a: x + np.sin(a * x) ** 2 / a, 8, like=np.hypot, native=True, floor=1.0
    ),
    "silu_multiply": _binary(lambda x, y: x * _sigmoid(x) * y, 6, like=np.hypot, native=True),
    "gelu_multiply": _binary(
        lambda x, y: _gelu(x) * y, 24, like=np.hypot, domain=(-6.0, 6.0), floor=8.0, native=True
    ),
    "relu": _unary(_relu, like=_kept(np.cbrt)),
    "relu2": _unary(lambda x: np.square(_relu(x)), like=_kept(np.cbrt)),
    "where": Op(np.where, lambda condition, a, b: _promoted(a, b), 3),
    "clip": Op(
        lambda x, low, high: np.minimum(np.maximum(x, low), high), _promoted, 3, signed_zeros=False
    ),
    "nan_to_num": Op(_nan_to_num, _promoted, 4),
}

"""Elementwise ops. Operands are converted to `dtype`; 16-bit floats compute in float32."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from pygpukit import _native
from pygpukit._reference.blocks import LARGE, blocks_of
from pygpukit._reference.special import SPECIAL
from pygpukit.core.errors import InvalidValueError

if TYPE_CHECKING:
    from numpy.typing import NDArray

Function = Callable[..., Any]


def _scalar_function(function: Callable[[float], float]) -> Function:
    """Vectorises a function of Python's math module that NumPy lacks."""
    vectorized = np.vectorize(function, otypes=[np.float64])

    def run(x: NDArray[Any]) -> NDArray[Any]:
        result: NDArray[Any] = vectorized(x.astype(np.float64)) if x.size else x
        return result.astype(x.dtype)

    return run


def _lgamma(x: float) -> float:
    if math.isinf(x) or (x <= 0 and x == math.floor(x)):
        return math.inf
    try:
        return math.lgamma(x)
    except OverflowError:
        return math.inf


def _polynomial(x: NDArray[Any], coefficients: tuple[float, ...]) -> NDArray[Any]:
    """By Horner's rule, the highest power first."""
    value = np.full_like(x, coefficients[0])
    for c in coefficients[1:]:
        value *= x
        value += c
    return value


# Cody's rational approximations of erf (up to 15/32) and of exp(x^2) erfc(x) (up to 4, and beyond
# in 1 / x^2), numerators and denominators.
_ERF = (
    (
        *(1.85777706184603153e-1, 3.16112374387056560, 1.13864154151050156e2),
        *(3.77485237685302021e2, 3.20937758913846947e3),
    ),
    (
        *(1.0, 2.36012909523441209e1, 2.44024637934444173e2, 1.28261652607737228e3),
        2.84423683343917062e3,
    ),
)
_ERFC_NEAR = (
    (
        *(2.15311535474403846e-8, 5.64188496988670089e-1, 8.88314979438837594),
        *(6.61191906371416295e1, 2.98635138197400131e2, 8.81952221241769090e2),
        *(1.71204761263407058e3, 2.05107837782607147e3, 1.23033935479799725e3),
    ),
    (
        *(1.0, 1.57449261107098347e1, 1.17693950891312499e2, 5.37181101862009858e2),
        *(1.62138957456669019e3, 3.29079923573345963e3, 4.36261909014324716e3),
        *(3.43936767414372164e3, 1.23033935480374942e3),
    ),
)
_ERFC_FAR = (
    (
        *(1.63153871373020978e-2, 3.05326634961232344e-1, 3.60344899949804439e-1),
        *(1.25781726111229246e-1, 1.60837851487422766e-2, 6.58749161529837803e-4),
    ),
    (
        *(1.0, 2.56852019228982242, 1.87295284992346725, 5.27905102951428412e-1),
        *(6.05183413124413191e-2, 2.33520497626869185e-3),
    ),
)


_BLOCK = 1 << 14  # values that stay in the cache


def _erfc(x: NDArray[Any]) -> NDArray[Any]:
    """erfc of many values at once, in float64."""
    flat = np.ascontiguousarray(x).reshape(-1)
    result = np.empty_like(flat)
    with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        for first in range(0, flat.size, _BLOCK):
            part = slice(first, first + _BLOCK)
            result[part] = _erfc_block(flat[part].astype(np.float64))
    return result.reshape(x.shape)


def _erfc_block(z: NDArray[Any]) -> NDArray[Any]:
    y = np.abs(z)
    near = np.minimum(y, 4.0)
    value = np.exp(-np.square(near))
    value *= _polynomial(near, _ERFC_NEAR[0])
    value /= _polynomial(near, _ERFC_NEAR[1])
    far = y > 4.0
    if far.any():
        t = y[far]
        inverse = 1.0 / np.square(t)
        tail = inverse * _polynomial(inverse, _ERFC_FAR[0]) / _polynomial(inverse, _ERFC_FAR[1])
        value[far] = np.exp(-np.square(t)) * (1.0 / math.sqrt(math.pi) - tail) / t
    value = np.where(z < 0, 2.0 - value, value)
    small = y <= 0.46875
    if small.any():
        t = z[small]
        square = np.square(t)
        value[small] = 1.0 - t * _polynomial(square, _ERF[0]) / _polynomial(square, _ERF[1])
    result: NDArray[Any] = value
    return result


def _kept_integers(function: Function) -> Function:
    """Leaves integers and bool, which need no rounding."""
    return lambda x: function(x) if x.dtype.kind in "fc" else x


def _rint(x: NDArray[Any]) -> Any:
    return np.rint(x) if x.dtype.kind in "fc" else x


def _sigmoid(x: NDArray[Any]) -> Any:
    return 1 / (1 + np.exp(-x))


def _gelu(x: NDArray[Any]) -> Any:
    s = _sigmoid(1.5957691216057308 * (x + 0.044715 * x**3))
    return np.where(s == 0, 0 * x, x * s)


def _relu(x: NDArray[Any]) -> Any:
    return np.where(x < 0, x.dtype.type(0), x)


def _reciprocal(x: NDArray[Any]) -> Any:
    if x.dtype.kind in "fc":
        return np.reciprocal(x)
    return np.where(x == 0, x.dtype.type(0), np.reciprocal(np.where(x == 0, x.dtype.type(1), x)))


def _floor_divide(a: Any, b: Any, out: NDArray[Any] | None = None) -> Any:
    """NumPy's, but with infinities as in the array API standard: floor(a / b)."""
    infinite = None
    if any(_may_be_infinite(x) for x in (a, b)):
        infinite = np.isinf(a) | np.isinf(b)
        quotient = np.floor(np.true_divide(a, b))
    result = np.floor_divide(a, b, out=out)
    if infinite is not None:
        result = np.where(infinite, quotient, result)
        if out is not None:
            out[...] = result
    return result


def _may_be_infinite(x: Any) -> bool:
    """Sums are infinite or NaN where an element is; others may overflow, too."""
    if isinstance(x, np.ndarray):
        return x.dtype.kind == "f" and not np.isfinite(np.add.reduce(x, axis=None))
    return isinstance(x, float) and math.isinf(x)


def _pow(x: Any, exponent: Any, out: NDArray[Any] | None = None) -> Any:
    """Squares at the cost of a product, as NumPy's x ** 2."""
    if type(exponent) in (int, float) and exponent == 2 and isinstance(x, np.ndarray):
        return np.square(x, out=out)
    try:
        return np.power(x, exponent, out=out)
    except ValueError:  # the values of an array; a GPU gives 0 for them
        raise InvalidValueError(
            "pow: integers to negative integer powers are not allowed"
        ) from None


def _expm1(x: NDArray[Any]) -> Any:
    """NumPy's, but with complex infinities and NaN as in the array API standard."""
    result = np.expm1(x)
    if x.dtype.kind != "c":
        return result
    re, im = x.real, x.imag
    exact = np.exp(x) - 1
    odd = ~np.isfinite(im) & np.isinf(re)
    real = np.where(np.isinf(re) & (re < 0), -1 + 0 * exact.real, result.real)
    real = np.where(odd, np.where(re > 0, np.inf, -1), real)
    imag = np.where(odd, np.where(re > 0, np.nan, 0), result.imag)
    real = np.where(im == 0, np.expm1(re) + 0, real)
    imag = np.where(im == 0, im, imag)
    whole = np.empty_like(x)
    whole.real, whole.imag = real, imag
    return whole


def _sign(x: NDArray[Any]) -> Any:
    """NumPy's, but with complex NaN as in the array API standard: both parts are NaN."""
    result = np.sign(x)
    if x.dtype.kind == "c":
        result = np.where(np.isnan(x), x.dtype.type(complex(np.nan, np.nan)), result)
    return result


def _nan_to_num(x: NDArray[Any], nan: Any, positive: Any, negative: Any) -> Any:
    if x.dtype.kind == "c":
        real, imag = (
            _nan_to_num(part, nan.real, positive.real, negative.real) for part in (x.real, x.imag)
        )
        return real + 1j * imag
    if x.dtype.kind != "f":
        return x
    return np.where(
        np.isnan(x), nan, np.where(x == np.inf, positive, np.where(x == -np.inf, negative, x))
    )


FUNCTIONS: dict[str, Function] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.true_divide,
    "floor_divide": _floor_divide,
    "remainder": np.remainder,
    "fmod": np.fmod,
    "pow": _pow,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "fmax": np.fmax,
    "fmin": np.fmin,
    "gcd": np.gcd,
    "lcm": np.lcm,
    "atan2": np.arctan2,
    "hypot": np.hypot,
    "copysign": np.copysign,
    "nextafter": np.nextafter,
    "heaviside": np.heaviside,
    "logaddexp": np.logaddexp,
    "logaddexp2": np.logaddexp2,
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "bitwise_left_shift": np.left_shift,
    "bitwise_right_shift": np.right_shift,
    "bitwise_invert": np.invert,
    "logical_not": np.logical_not,
    "negative": np.negative,
    "positive": np.positive,
    "abs": np.abs,
    "sign": _sign,
    "square": np.square,
    "reciprocal": _reciprocal,
    "conj": np.conj,
    "real": np.real,
    "imag": np.imag,
    "floor": _kept_integers(np.floor),
    "ceil": _kept_integers(np.ceil),
    "trunc": _kept_integers(np.trunc),
    "rint": _kept_integers(np.rint),
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isfinite": np.isfinite,
    "signbit": np.signbit,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "cbrt": np.cbrt,
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": _expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "deg2rad": np.deg2rad,
    "rad2deg": np.rad2deg,
    "erf": _scalar_function(math.erf),
    "erfc": _scalar_function(math.erfc),
    "lgamma": _scalar_function(_lgamma),
    **SPECIAL,
    "sigmoid": _sigmoid,
    "silu": lambda x: x * _sigmoid(x),
    "gelu": _gelu,
    "gelu_erf": lambda x: 0.5 * x * _erfc(-0.7071067811865476 * x),
    "quick_gelu": lambda x: x * _sigmoid(x.dtype.type(1.702) * x),
    "softplus": lambda x: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))),
    "leaky_relu": lambda x, slope: np.where(x < 0, x * slope, x),
    "snake": lambda x, alpha: x + np.square(np.sin(alpha * x)) / alpha,
    "silu_multiply": lambda gate, up: gate * _sigmoid(gate) * up,
    "gelu_multiply": lambda gate, up: _gelu(gate) * up,
    "relu": _relu,
    "relu2": lambda x: np.square(_relu(x)),
    "where": np.where,
    "clip": lambda x, low, high: np.minimum(np.maximum(x, low), high),
    "nan_to_num": _nan_to_num,
}

# On the stored bits, not on widened copies.
_EXACT = ("nextafter",)


def _is_narrow(dtype: np.dtype[Any]) -> bool:
    return dtype.name in ("float16", "bfloat16")


def _run(name: str, operands: tuple[Any, ...], dtype: np.dtype[Any], out: NDArray[Any]) -> None:
    compute = dtype
    if _is_narrow(dtype) and name not in _EXACT:
        compute = np.dtype(np.float32)
    condition = [np.asarray(operands[0]).astype(bool)] if name == "where" else []
    values = condition + [
        np.asarray(x).astype(dtype, copy=False).astype(compute, copy=False)
        for x in operands[len(condition) :]
    ]
    result = np.asarray(FUNCTIONS[name](*values))
    if result.dtype == compute:
        result = result.astype(dtype, copy=False)
    np.copyto(out, result.astype(out.dtype, copy=False))


# Dtypes that NumPy computes in as the kernels do: all but the 16-bit floats.
_AS_THEY_ARE = "?bhilqBHILQfdFD"
# Functions that take `out`, as ufuncs do.
_INTO: dict[str, Function] = {"floor_divide": _floor_divide, "pow": _pow, "clip": np.clip}


def _make(name: str) -> Function:
    function = FUNCTIONS[name]

    def run(*operands: Any, dtype: np.dtype[Any], out: NDArray[Any]) -> None:
        _run(name, operands, dtype, out)

    def run_into(*operands: Any, dtype: np.dtype[Any], out: NDArray[Any]) -> None:
        """Straight into `out`."""
        if dtype.char in _AS_THEY_ARE:
            for x in operands:
                if type(x) is np.ndarray and x.dtype is not dtype:
                    operands = tuple(
                        x.astype(dtype, copy=False) if type(x) is np.ndarray else x
                        for x in operands
                    )
                    break
            into(*operands, out=out)
            return
        _run(name, operands, dtype, out)

    into: Any = function if isinstance(function, np.ufunc) else _INTO.get(name)
    chosen = run if into is None else run_into
    chosen.__name__ = chosen.__qualname__ = name
    return chosen


globals().update({name: _make(name) for name in FUNCTIONS})


def _as_array(x: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
    if type(x) is not np.ndarray:
        return np.array(x, dtype)
    return x if x.dtype is dtype else x.astype(dtype, copy=False)


def where(condition: Any, x: Any, y: Any, *, dtype: np.dtype[Any], out: NDArray[Any]) -> None:
    """out = x where the condition holds, else y"""
    if dtype is not out.dtype or dtype.char not in _AS_THEY_ARE:
        _run("where", (condition, x, y), dtype, out)
        return
    test = condition if type(condition) is np.ndarray else np.asarray(condition)
    if test.dtype.kind != "b":
        test = test.astype(np.bool_)
    first = _as_array(x, dtype)
    second = _as_array(y, dtype)
    if _native.host_select(test, first, second, out):
        return
    if out.size < LARGE:
        np.copyto(out, np.where(test, first, second))
        return
    spread = [np.broadcast_to(v, out.shape) for v in (test, first, second)]
    for key in blocks_of(out.shape):  # the second copy stays in the cache
        out[key] = np.where(*(v[key] for v in spread))


def copy(x: Any, *, out: NDArray[Any]) -> None:
    """out[...] = x, cast to its dtype"""
    if type(x) is not np.ndarray:
        x = np.asarray(x.real if isinstance(x, complex) and out.dtype.kind not in "cb" else x)
        x = x.astype(out.dtype, copy=False)
    elif x.dtype.kind == "c" and out.dtype.kind not in "cb":
        x = x.real
    np.copyto(out, x, casting="unsafe")


def unpack4(data: NDArray[Any], dtype: np.dtype[Any], *, out: NDArray[Any]) -> None:
    """out = the four-bit numbers of `data`, two per byte, the even one in the low nibble"""
    codes = np.stack([data & 15, data >> 4], axis=-1).reshape(-1)[: out.size]
    values = codes.astype(np.uint8).view(dtype).astype(np.float32)
    out[...] = values.reshape(out.shape).astype(out.dtype)


def pack4(x: NDArray[Any], dtype: np.dtype[Any], *, out: NDArray[Any]) -> None:
    """out = x as four-bit numbers, two per byte; integers keep their low four bits"""
    flat = np.asarray(x).reshape(-1)
    with np.errstate(all="ignore"):
        if dtype == np.dtype(ml_dtypes.float4_e2m1fn):
            codes = flat.astype(np.float32).astype(dtype).view(np.uint8) & 15
        else:
            codes = (flat.astype(np.int64) & 15).astype(np.uint8)
    codes = np.append(codes, np.zeros(codes.size % 2, np.uint8))
    out[...] = codes[0::2] | codes[1::2] << 4


__all__ = ["FUNCTIONS", "copy", "pack4", "unpack4", *FUNCTIONS]

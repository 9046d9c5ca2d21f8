"""The distributions of a Generator beyond uniform, normal and exponential numbers.

Parameters are numbers, arrays, or sequences that become arrays; arrays broadcast with the size.
Numbers are checked. Elements of arrays are not, since that would synchronise: where one is invalid
the result is NaN, or -1 for integers (poisson, binomial).
"""

from __future__ import annotations

import math
from operator import index

from pygpukit import _native
from pygpukit._native import GPUArray, safe_repr
from pygpukit.core.arguments import amount, items, whole
from pygpukit.core.errors import InvalidTypeError, InvalidValueError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    Size = int | Sequence[int] | None


class Distributions:
    """Methods that a Generator inherits. `size` is None for one number, or for as many as the
    parameters have; `dtype` is float16, bfloat16, float32 (default) or float64."""

    if TYPE_CHECKING:
        _device: Any

        def _draw_by_rejection(
            self, op: str, function: Callable[..., GPUArray], shape: Any, dtype: Any, *args: Any
        ) -> GPUArray: ...
        def random(self, size: Size = None, dtype: Any = None) -> GPUArray: ...
        def standard_normal(self, size: Size = None, dtype: Any = None) -> GPUArray: ...
        def standard_exponential(self, size: Size = None, dtype: Any = None) -> GPUArray: ...
        def bernoulli(self, p: float = 0.5, size: Size = None) -> GPUArray: ...

    # --- by rejection, one kernel each ------------------------------------------------------------

    def gamma(
        self, shape: Any, scale: Any = 1.0, size: Size = None, dtype: Any = "float32"
    ) -> GPUArray:
        """Gamma numbers with mean shape * scale."""
        return self._gamma("gamma", shape, scale, size, dtype)

    def standard_gamma(self, shape: Any, size: Size = None, dtype: Any = "float32") -> GPUArray:
        """Gamma numbers with scale 1."""
        return self._gamma("standard_gamma", shape, 1.0, size, dtype)

    def _gamma(self, op: str, shape: Any, scale: Any, size: Size, dtype: Any) -> GPUArray:
        shape, scale = self._parameter(op, "shape", shape), self._parameter(op, "scale", scale)
        whole = result_shape(op, size, shape, scale)
        return self._draw_by_rejection(op, _native.random_gamma, whole, dtype, shape, scale)

    def poisson(self, lam: Any = 1.0, size: Size = None) -> GPUArray:
        """Poisson numbers with mean lam, as int64."""
        lam = self._parameter("poisson", "lam", lam)
        shape = result_shape("poisson", size, lam)
        function = _native.random_poisson
        return self._draw_by_rejection("poisson", function, shape, "int64", lam)

    def binomial(self, n: Any, p: Any, size: Size = None) -> GPUArray:
        """Numbers of successes in n trials with probability p, as int64."""
        n, p = self._parameter("binomial", "n", n), self._parameter("binomial", "p", p)
        shape = result_shape("binomial", size, n, p)
        function = _native.random_binomial
        return self._draw_by_rejection("binomial", function, shape, "int64", n, p)

    # --- from gamma numbers -----------------------------------------------------------------------

    def chisquare(self, df: Any, size: Size = None, dtype: Any = "float32") -> GPUArray:
        """Sums of the squares of df normal numbers."""
        df = self._positive("chisquare", "df", df)
        return self._gamma("chisquare", _times(df, 0.5), 2.0, size, dtype)

    def noncentral_chisquare(
        self, df: Any, nonc: Any, size: Size = None, dtype: Any = "float32"
    ) -> GPUArray:
        """Sums of the squares of df normal numbers whose squared means sum up to nonc."""
        op = "noncentral_chisquare"
        df = self._positive(op, "df", df)
        nonc = self._parameter(op, "nonc", nonc, 0.0)
        shape = result_shape(op, size, df, nonc)
        extra = self.poisson(_times(nonc, 0.5), shape)
        half = _native.add(_native.astype(extra, "float64"), _times(df, 0.5))
        return self._gamma(op, half, 2.0, shape, dtype)

    def f(self, dfnum: Any, dfden: Any, size: Size = None, dtype: Any = "float32") -> GPUArray:
        """Ratios of two chi-square numbers over their degrees of freedom."""
        dfnum, dfden = self._positive("f", "dfnum", dfnum), self._positive("f", "dfden", dfden)
        shape = result_shape("f", size, dfnum, dfden)
        top = self._gamma("f", _times(dfnum, 0.5), 1.0, shape, "float64")
        bottom = self._gamma("f", _times(dfden, 0.5), 1.0, shape, "float64")
        ratio = _native.divide(_native.multiply(top, dfden), _native.multiply(bottom, dfnum))
        return _native.astype(ratio, dtype, False)

    def standard_t(self, df: Any, size: Size = None, dtype: Any = "float32") -> GPUArray:
        """Student's t with df degrees of freedom."""
        df = self._positive("standard_t", "df", df)
        shape = result_shape("standard_t", size, df)
        normal = self.standard_normal(shape, "float64")
        half = self._gamma("standard_t", _times(df, 0.5), 1.0, shape, "float64")
        spread = _native.sqrt(_native.divide(_native.multiply(half, 2.0), df))
        return _native.astype(_native.divide(normal, spread), dtype, False)

    def beta(self, a: Any, b: Any, size: Size = None, dtype: Any = "float32") -> GPUArray:
        """Beta numbers, in [0, 1]."""
        a, b = self._positive("beta", "a", a), self._positive("beta", "b", b)
        shape = result_shape("beta", size, a, b)
        # Through logarithms: for small a and b both gamma numbers would underflow.
        difference = _native.subtract(
            self._log_gamma("beta", a, shape), self._log_gamma("beta", b, shape)
        )
        return _native.astype(_native.sigmoid(difference), dtype, False)

    def dirichlet(self, alpha: Any, size: Size = None, dtype: Any = "float32") -> GPUArray:
        """Probability vectors: gamma numbers over their sum, along a last axis."""
        weights = self._array(alpha)
        if weights.ndim != 1:
            raise InvalidValueError(
                f"dirichlet: alpha has shape {weights.shape}, expected one dimension"
            )
        if not isinstance(alpha, GPUArray) and any(value < 0 for value in alpha):
            raise InvalidValueError(
                f"dirichlet: alpha is {_native.safe_repr(alpha)}, expected no negative numbers"
            )
        shape = (*as_shape("dirichlet", size), weights.size)
        logs = self._log_gamma("dirichlet", weights, shape)
        # Over their sum; the largest is subtracted first, so that not all of them underflow.
        parts = _native.exp(_native.subtract(logs, _native.max(logs, -1, keepdims=True)))
        shares = _native.divide(parts, _native.sum(parts, -1, keepdims=True))
        return _native.astype(shares, dtype, False)

    def _log_gamma(self, op: str, a: Any, shape: tuple[int, ...]) -> GPUArray:
        """Logarithms of gamma numbers: log(gamma(a + 1)) + log(u) / a."""
        more = _native.add(a, 1.0) if isinstance(a, GPUArray) else a + 1.0
        whole = self._gamma(op, more, 1.0, shape, "float64")
        power = _native.divide(self.standard_exponential(shape, "float64"), a)
        return _native.subtract(_native.log(whole), power)

    def negative_binomial(self, n: Any, p: Any, size: Size = None) -> GPUArray:
        """Numbers of failures before n successes with probability p, as int64."""
        op = "negative_binomial"
        n = self._positive(op, "n", n)
        p = self._probability(op, p)
        shape = result_shape(op, size, n, p)
        odds = _native.divide(_native.subtract(1.0, p), p) if isinstance(p, GPUArray) else None
        means = self._gamma(op, n, (1.0 - p) / p if odds is None else odds, shape, "float64")
        return self.poisson(means, shape)

    def multinomial(self, n: Any, pvals: Sequence[float], size: Size = None) -> GPUArray:
        """How often each of several outcomes occurs in n trials, along a last axis, as int64."""
        chances = [
            amount("multinomial", f"pvals[{i}]", p)
            for i, p in enumerate(items("multinomial", "pvals", pvals, "probabilities"))
        ]
        if any(not 0.0 <= p <= 1.0 for p in chances) or sum(chances[:-1]) > 1.0 + 1e-12:
            raise InvalidValueError(
                f"multinomial: pvals is {safe_repr(pvals)}, expected probabilities with sum 1"
            )
        n = self._parameter("multinomial", "n", n, 0.0)
        shape = result_shape("multinomial", size, n)
        left = _native.broadcast_to(
            _native.full((), int(n), "int64", device=self._device)
            if not isinstance(n, GPUArray)
            else _native.astype(n, "int64", False),
            shape,
        )
        counts, rest = [], 1.0
        for p in chances[:-1]:
            share = min(p / rest, 1.0) if rest > 0.0 else 0.0
            counts.append(self.binomial(left, share, shape))
            left = _native.subtract(left, counts[-1])
            rest -= p
        return _native.stack([*counts, left], -1)

    # --- from exponential numbers -----------------------------------------------------------------

    def laplace(
        self, loc: Any = 0.0, scale: Any = 1.0, size: Size = None, dtype: Any = "float32"
    ) -> GPUArray:
        """Double exponential numbers with mean loc."""
        shape, loc, scale = self._located("laplace", loc, scale, size)
        right = self.standard_exponential(shape, dtype)
        sign = self.bernoulli(0.5, shape)
        return placed(_native.where(sign, right, _native.negative(right)), loc, scale, dtype)

    def gumbel(
        self, loc: Any = 0.0, scale: Any = 1.0, size: Size = None, dtype: Any = "float32"
    ) -> GPUArray:
        """The distribution of the largest of many numbers: -log of an exponential number."""
        shape, loc, scale = self._located("gumbel", loc, scale, size)
        return placed(_native.negative(self._log_exponential(shape)), loc, scale, dtype)

    def logistic(
        self, loc: Any = 0.0, scale: Any = 1.0, size: Size = None, dtype: Any = "float32"
    ) -> GPUArray:
        """Logistic numbers with mean loc: the difference of two Gumbel numbers."""
        shape, loc, scale = self._located("logistic", loc, scale, size)
        first, second = self._log_exponential(shape), self._log_exponential(shape)
        return placed(_native.subtract(first, second), loc, scale, dtype)

    def rayleigh(self, scale: Any = 1.0, size: Size = None, dtype: Any = "float32") -> GPUArray:
        """The length of a vector of two normal numbers."""
        scale = self._parameter("rayleigh", "scale", scale, 0.0)
        shape = result_shape("rayleigh", size, scale)
        twice = _native.multiply(self.standard_exponential(shape, dtype), 2.0)
        return placed(_native.sqrt(twice), 0.0, scale, dtype)

    def weibull(self, a: Any, size: Size = None, dtype: Any = "float32") -> GPUArray:
        """Weibull numbers: an exponential number to the power of 1 / a."""
        a = self._positive("weibull", "a", a)
        draw = self.standard_exponential(result_shape("weibull", size, a), "float64")
        power = _native.divide(1.0, a) if isinstance(a, GPUArray) else 1.0 / a
        return _native.astype(_native.pow(draw, power), dtype, False)

    def pareto(self, a: Any, size: Size = None, dtype: Any = "float32") -> GPUArray:
        """Pareto II (Lomax) numbers with shape a."""
        a = self._positive("pareto", "a", a)
        draw = self.standard_exponential(result_shape("pareto", size, a), "float64")
        return _native.astype(_native.expm1(_native.divide(draw, a)), dtype, False)

    def power(self, a: Any, size: Size = None, dtype: Any = "float32") -> GPUArray:
        """A uniform number to the power of 1 / a, in [0, 1]."""
        a = self._positive("power", "a", a)
        draw = self.standard_exponential(result_shape("power", size, a), "float64")
        result = _native.exp(_native.negative(_native.divide(draw, a)))
        return _native.astype(result, dtype, False)

    def geometric(self, p: Any, size: Size = None) -> GPUArray:
        """The number of the first success with probability p, from 1, as int64."""
        p = self._probability("geometric", p)
        draw = self.standard_exponential(result_shape("geometric", size, p), "float64")
        if isinstance(p, GPUArray):
            rate: Any = _native.negative(_native.log1p(_native.negative(p)))
        else:
            rate = math.inf if p == 1.0 else -math.log1p(-p)
        number = _native.clip(_native.ceil(_native.divide(draw, rate)), 1.0, 2.0**62)
        return _native.astype(number, "int64")

    def _log_exponential(self, shape: tuple[int, ...]) -> GPUArray:
        # The smallest exponential number may be 0, whose logarithm is not a number to return.
        draw = self.standard_exponential(shape, "float64")
        return _native.log(_native.maximum(draw, 2.0**-54))

    # --- from normal and uniform numbers ----------------------------------------------------------

    def lognormal(
        self, mean: Any = 0.0, sigma: Any = 1.0, size: Size = None, dtype: Any = "float32"
    ) -> GPUArray:
        """exp of normal numbers."""
        mean = self._parameter("lognormal", "mean", mean)
        sigma = self._parameter("lognormal", "sigma", sigma, 0.0)
        shape = result_shape("lognormal", size, mean, sigma)
        normal = self.standard_normal(shape, "float64")
        return _native.astype(_native.exp(placed(normal, mean, sigma, "float64")), dtype, False)

    def wald(self, mean: Any, scale: Any, size: Size = None, dtype: Any = "float32") -> GPUArray:
        """Inverse Gaussian numbers (Michael, Schucany and Haas, 1976)."""
        mean, scale = self._positive("wald", "mean", mean), self._positive("wald", "scale", scale)
        shape = result_shape("wald", size, mean, scale)
        y = _native.multiply(_native.square(self.standard_normal(shape, "float64")), mean)
        twice = _times(scale, 2.0)
        root = _native.sqrt(_native.add(_native.multiply(y, _times(twice, 2.0)), _native.square(y)))
        # The smaller root as a quotient: the difference would cancel.
        small = _native.multiply(
            _native.divide(twice, _native.add(_native.add(y, root), twice)), mean
        )
        u = self.random(shape, "float64")
        first = _native.less_equal(u, _native.divide(mean, _native.add(small, mean)))
        large = _native.divide(_squared(mean), small)
        return _native.astype(_native.where(first, small, large), dtype, False)

    def standard_cauchy(self, size: Size = None, dtype: Any = "float32") -> GPUArray:
        """Cauchy numbers: the tangent of a uniform angle."""
        angle = _native.subtract(self.random(size, "float64"), 0.5)
        return _native.astype(_native.tan(_native.multiply(angle, math.pi)), dtype, False)

    def triangular(
        self, left: Any, mode: Any, right: Any, size: Size = None, dtype: Any = "float32"
    ) -> GPUArray:
        """Numbers from left to right whose density is a triangle with its top at mode."""
        op = "triangular"
        numbers = [
            self._parameter(op, name, value)
            for name, value in (("left", left), ("mode", mode), ("right", right))
        ]
        if not any(isinstance(value, GPUArray) for value in numbers):
            low, top, high = numbers
            if not low <= top <= high or low == high:
                raise InvalidValueError(
                    f"triangular: left, mode and right are {left}, {mode} and {right}, expected "
                    "left <= mode <= right and left < right"
                )
        u = self.random(result_shape(op, size, *numbers), "float64")
        low, top, high = (_native.add(_native.multiply(u, 0.0), value) for value in numbers)
        width = _native.subtract(high, low)
        share = _native.divide(_native.subtract(top, low), width)
        rise = _native.multiply(_native.multiply(u, width), _native.subtract(top, low))
        fall = _native.multiply(
            _native.multiply(_native.subtract(1.0, u), width), _native.subtract(high, top)
        )
        result = _native.where(
            _native.less(u, share),
            _native.add(low, _native.sqrt(rise)),
            _native.subtract(high, _native.sqrt(fall)),
        )
        return _native.astype(result, dtype, False)

    def multivariate_normal(
        self, mean: Any, cov: Any, size: Size = None, dtype: Any = "float32"
    ) -> GPUArray:
        """Normal vectors with that mean and covariance, along a last axis.

        The covariance is factored in float64 on the device, a step of a few launches per
        variable; it must be symmetric and positive semidefinite, which is not checked.
        """
        centre, matrix = self._array(mean), self._array(cov)
        count = centre.size
        if centre.ndim != 1:
            raise InvalidValueError(
                f"multivariate_normal: mean has shape {centre.shape}, mean must be 1 dimensional"
            )
        if matrix.shape != (count, count):
            raise InvalidValueError(
                f"multivariate_normal: cov has shape {matrix.shape}, mean {centre.shape}; cov "
                "must be a square matrix of mean's length"
            )
        factor = _cholesky(_native.astype(matrix, "float64", False))
        shape = (*as_shape("multivariate_normal", size), count)
        normal = _native.reshape(self.standard_normal(shape, "float64"), (-1, count))
        correlated = _native.matmul(normal, _native.transpose(factor))
        result = _native.add(_native.reshape(correlated, shape), centre)
        return _native.astype(result, dtype, False)

    # --- parameters -------------------------------------------------------------------------------

    def _array(self, value: Any) -> GPUArray:
        from pygpukit.ops.conversion import asarray

        return asarray(value, device=None if isinstance(value, GPUArray) else self._device)

    def _parameter(self, op: str, name: str, value: Any, least: float = -math.inf) -> Any:
        """A float, or an array that is not checked."""
        if is_array(value):
            return value if isinstance(value, GPUArray) else self._array(value)
        try:
            number = float(value)
        except (TypeError, ValueError):
            raise InvalidTypeError(
                f"{op}: {name} is {safe_repr(value)}, expected a number or an array"
            ) from None
        if not number >= least and least > -math.inf:
            raise InvalidValueError(f"{op}: {name} is {number}, expected {least:g} or more")
        return number

    def _positive(self, op: str, name: str, value: Any) -> Any:
        number = self._parameter(op, name, value)
        if not isinstance(number, GPUArray) and not number > 0.0:
            raise InvalidValueError(f"{op}: {name} is {number}, expected more than 0 ({name} <= 0)")
        return number

    def _probability(self, op: str, p: Any) -> Any:
        number = self._parameter(op, "p", p)
        if not isinstance(number, GPUArray) and not 0.0 < number <= 1.0:
            raise InvalidValueError(f"{op}: p is {number}, expected 0 < p <= 1")
        return number

    def _located(
        self, op: str, loc: Any, scale: Any, size: Size
    ) -> tuple[tuple[int, ...], Any, Any]:
        loc = self._parameter(op, "loc", loc)
        scale = self._parameter(op, "scale", scale, 0.0)
        return result_shape(op, size, loc, scale), loc, scale


def as_shape(op: str, size: Size) -> tuple[int, ...]:
    """The shape that `size` stands for."""
    if size is None:
        return ()
    try:
        return (index(size),)  # type: ignore[arg-type]
    except TypeError:
        sizes = items(op, "size", size, "None, an int or ints")
        return tuple(whole(op, f"size[{i}]", n) for i, n in enumerate(sizes))


def is_array(value: object) -> bool:
    """Whether a parameter is one number for each result: an array or a sequence."""
    return hasattr(value, "__len__") and not isinstance(value, (str, bytes))


def result_shape(op: str, size: Size, *parameters: Any) -> tuple[int, ...]:
    """The shape of the result: `size`, or what the parameters broadcast to."""
    shapes = [p.shape for p in parameters if isinstance(p, GPUArray)]
    if size is None:
        return _native.broadcast_shapes(*shapes) if shapes else ()
    shape = as_shape(op, size)
    try:
        fits = not shapes or _native.broadcast_shapes(*shapes, shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise InvalidValueError(
            f"{op}: size {shape} is not compatible with parameters of shapes {shapes}"
        )
    return shape


def _times(value: Any, factor: float) -> Any:
    return _native.multiply(value, factor) if isinstance(value, GPUArray) else value * factor


def _squared(value: Any) -> Any:
    return _native.square(value) if isinstance(value, GPUArray) else value * value


def placed(draw: GPUArray, loc: Any, scale: Any, dtype: Any) -> GPUArray:
    """loc + scale * draw."""
    result = _native.add(_native.multiply(draw, scale), loc)
    return _native.astype(result, dtype, False)


def _cholesky(matrix: GPUArray) -> GPUArray:
    """The lower factor of a positive semidefinite matrix; a pivot of (nearly) 0 gives zeros."""
    count = matrix.shape[0]
    if count == 0:
        return matrix
    largest = _native.max(_native.diagonal(matrix))
    least = _native.multiply(largest, count * 2.0**-50)
    columns = []
    rest = matrix
    for n in range(count):
        pivot = rest[n, n]
        usable = _native.greater(pivot, least)
        root = _native.sqrt(_native.where(usable, pivot, 1.0))
        below = _native.arange(count, 0, 1, "int64", matrix.device)
        kept = _native.logical_and(_native.greater_equal(below, n), usable)
        column = _native.where(kept, _native.divide(rest[:, n], root), 0.0)
        columns.append(column)
        rest = _native.subtract(
            rest, _native.multiply(_native.expand_dims(column, 1), _native.expand_dims(column, 0))
        )
    return _native.stack(columns, 1)


__all__ = ["Distributions", "as_shape"]

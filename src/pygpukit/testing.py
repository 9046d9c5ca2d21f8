"""numpy.testing for arrays of any library: GPUArrays are copied to host memory, then compared.

>>> gp.testing.assert_allclose(x + x, 2 * x)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pygpukit.ops.porting import asnumpy


def assert_allclose(
    actual: Any,
    desired: Any,
    rtol: float = 1e-7,
    atol: float = 0,
    equal_nan: bool = True,
    err_msg: str = "",
    verbose: bool = True,
    *,
    strict: bool = False,
) -> None:
    """AssertionError unless all elements are equal within |actual - desired| <= atol + rtol *
    |desired|."""
    __tracebackhide__ = True
    np.testing.assert_allclose(
        asnumpy(actual),
        asnumpy(desired),
        rtol,
        atol,
        equal_nan,
        err_msg,
        verbose,
        strict=strict,
    )


def assert_array_equal(
    actual: Any, desired: Any, err_msg: str = "", verbose: bool = True, *, strict: bool = False
) -> None:
    """AssertionError unless shapes and all elements are equal."""
    __tracebackhide__ = True
    np.testing.assert_array_equal(
        asnumpy(actual), asnumpy(desired), err_msg, verbose, strict=strict
    )


def assert_equal(
    actual: Any, desired: Any, err_msg: str = "", verbose: bool = True, *, strict: bool = False
) -> None:
    """AssertionError unless arrays, numbers, or lists and dictionaries of them are equal."""
    __tracebackhide__ = True
    np.testing.assert_equal(_host(actual), _host(desired), err_msg, verbose, strict=strict)


def assert_array_almost_equal(
    actual: Any, desired: Any, decimal: int = 6, err_msg: str = "", verbose: bool = True
) -> None:
    """AssertionError unless all elements are equal up to a number of decimals."""
    __tracebackhide__ = True
    np.testing.assert_array_almost_equal(
        asnumpy(actual), asnumpy(desired), decimal, err_msg, verbose
    )


def assert_almost_equal(
    actual: Any, desired: Any, decimal: int = 7, err_msg: str = "", verbose: bool = True
) -> None:
    """AssertionError unless arrays or numbers are equal up to a number of decimals."""
    __tracebackhide__ = True
    np.testing.assert_almost_equal(_host(actual), _host(desired), decimal, err_msg, verbose)


def assert_array_less(
    x: Any, y: Any, err_msg: str = "", verbose: bool = True, *, strict: bool = False
) -> None:
    """AssertionError unless every element of x is below that of y."""
    __tracebackhide__ = True
    np.testing.assert_array_less(asnumpy(x), asnumpy(y), err_msg, verbose, strict=strict)


def _host(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(map(_host, value))
    if isinstance(value, dict):
        return {key: _host(item) for key, item in value.items()}
    return asnumpy(value) if hasattr(value, "to_numpy") else value


assert_raises = np.testing.assert_raises
assert_raises_regex = np.testing.assert_raises_regex

__all__ = [
    "assert_allclose",
    "assert_almost_equal",
    "assert_array_almost_equal",
    "assert_array_equal",
    "assert_array_less",
    "assert_equal",
    "assert_raises",
    "assert_raises_regex",
]

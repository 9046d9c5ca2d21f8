"""The whole surface of the array API standard 2024.12, on CPU simulation."""

from __future__ import annotations

import numpy as np
import pytest
from cases import standard

import pygpukit as gp

# Answers about dtypes, in test_data_types.py.
ABOUT_DTYPES = {"can_cast", "finfo", "iinfo", "isdtype", "result_type"}


def name_of(text: str) -> str:
    return text.partition("(")[0]


@pytest.mark.parametrize("text", standard.TABLE, ids=name_of)
def test_signature(text: str) -> None:
    standard.check_signature(text)


@pytest.mark.parametrize("name", standard.CALLS)
def test_call(name: str) -> None:
    standard.check_call(name, gp.from_numpy)


def test_every_function_is_called() -> None:
    assert {name_of(text) for text in standard.TABLE} - set(standard.CALLS) == ABOUT_DTYPES


def test_descending_order() -> None:
    """NumPy has no such argument."""
    x = gp.from_numpy(standard.X)
    order = gp.argsort(x, axis=1, descending=True)
    np.testing.assert_array_equal(order.to_numpy(), np.argsort(-standard.X, 1, stable=True))
    np.testing.assert_array_equal(gp.sort(x, descending=True).to_numpy(), -np.sort(-standard.X, 1))


def test_array_object() -> None:
    for name in standard.ATTRIBUTES.split():
        assert hasattr(gp.GPUArray, name), name
    for name in standard.METHODS.split():
        assert hasattr(gp.GPUArray, f"__{name}__"), name
    assert callable(gp.GPUArray.to_device)
    for name in ("e", "inf", "nan", "newaxis", "pi"):
        assert name in gp.__all__


def test_statistics_of_nothing_and_of_nan() -> None:
    """The special cases of statistical and utility functions."""
    nothing, nan = gp.zeros((0, 3)), gp.asarray([1.0, float("nan"), 2.0])
    assert gp.sum(nothing).item() == 0
    assert gp.prod(nothing, axis=0).tolist() == [1, 1, 1]
    assert np.isnan(gp.mean(nothing).item())
    assert np.isnan(gp.var(gp.ones(2), correction=2).item())
    assert np.isnan(gp.std(gp.ones(2), correction=3.0).item())
    assert gp.all(nothing).item() is True
    assert gp.any(nothing).item() is False
    for name in ("sum", "prod", "mean", "std", "var", "max", "min"):
        assert np.isnan(getattr(gp, name)(nan).item()), name
    assert gp.any(nan).item() is True
    assert gp.unique_values(gp.asarray([float("nan")] * 2)).size == 2
    assert gp.cumulative_sum(nothing, axis=0, include_initial=True).shape == (1, 3)
    with pytest.raises(ValueError, match=r"^max: "):
        gp.max(nothing)

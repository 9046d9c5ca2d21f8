"""Runs the cases of the nn family on a device. Shared by tests/unit and tests/gpu."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pygpukit as gp
from cases.nn import FUNCTIONS, TOLERANCE, Case
from cases.views import VIEWS


def to_device(value: Any, device: str | None, view: str = "whole") -> Any:
    """Arrays on the device, as a view of that kind; other values as they are."""
    if not isinstance(value, np.ndarray):
        return value
    if view == "whole" or value.ndim == 0:
        return gp.from_numpy(value, device=device)
    of = VIEWS[view]
    array = of.take(gp.from_numpy(np.zeros(of.base(value.shape), value.dtype), device=device))
    array[...] = gp.from_numpy(value, device=device)
    return array


def compare(got: gp.GPUArray, want: Any, dtype: str) -> None:
    assert got.shape == want.shape
    rtol, atol = TOLERANCE[dtype]
    np.testing.assert_allclose(
        got.to_numpy().astype(np.float64), want, rtol=rtol, atol=atol, equal_nan=True
    )


def run_case(case: Case, device: str | None = None, view: str = "whole") -> None:
    arguments = case.draw()
    want = case.want(arguments)
    options = {name: to_device(value, device) for name, value in case.options.items()}
    given = [
        to_device(value, device, view if i == 0 else "whole") for i, value in enumerate(arguments)
    ]
    result = FUNCTIONS[case.op](*given, **options)
    results = result if isinstance(result, tuple) else (result,)
    for ours, theirs in zip(results, want, strict=True):
        assert ours.device == given[0].device
        compare(ours, theirs, case.dtype)
        if case.op != "log_likelihood":
            assert ours.dtype.name == case.dtype
    for ours, before in zip(given, arguments, strict=True):
        if isinstance(before, np.ndarray):
            np.testing.assert_array_equal(ours.to_numpy(), before)


def run_fp8(shape: tuple[int, ...], dtype: str, device: str | None = None) -> None:
    """Values within half a unit of the last place of e4m3, and the largest one at 448."""
    from cases.nn import normal, rmsnorm

    rng = np.random.default_rng(len(shape))
    x, residual = (normal(rng, shape, dtype, 3) for _ in range(2))
    weight = normal(rng, shape[-1:], dtype)
    for other in (None, residual):
        options = {} if other is None else {"residual": gp.from_numpy(other, device=device)}
        values, scales, *rest = FUNCTIONS["rmsnorm_fp8"](
            gp.from_numpy(x, device=device), gp.from_numpy(weight, device=device), **options
        )
        total = x if other is None else (x.astype("f4") + other.astype("f4")).astype(dtype)
        if other is not None:
            np.testing.assert_array_equal(rest[0].to_numpy(), total)
        want = rmsnorm(total, weight)
        assert (values.dtype.name, scales.dtype.name) == ("float8_e4m3fn", "float32")
        assert scales.shape == shape[:-1]
        numbers = values.to_numpy().astype(np.float64)
        got = numbers * scales.to_numpy()[..., None]
        assert np.abs(numbers).max(-1) == pytest.approx(448)
        unit = np.maximum(np.abs(want) / 16, scales.to_numpy()[..., None] * 2.0**-9)
        assert (np.abs(got - want) <= unit * 1.01).all()


def run_out(device: str | None = None) -> None:
    """out= in place, of another dtype, strided, overlapping."""
    rng = np.random.default_rng(3)
    host = rng.normal(size=(6, 64)).astype(np.float32)
    for name in ("rmsnorm", "layernorm", "softmax", "log_softmax"):
        function = FUNCTIONS[name]
        want = function(gp.from_numpy(host, device=device)).to_numpy()
        x = gp.from_numpy(host, device=device)
        assert function(x, out=x) is x
        np.testing.assert_array_equal(x.to_numpy(), want)
        wide = gp.zeros((6, 64), "float64", device=device)
        function(gp.from_numpy(host, device=device), out=wide)
        np.testing.assert_array_equal(wide.to_numpy(), want)
        turned = gp.zeros((64, 6), "float32", device=device)
        function(gp.from_numpy(host, device=device), out=gp.permute_dims(turned, (1, 0)))
        np.testing.assert_array_equal(turned.to_numpy().T, want)
        base = gp.from_numpy(np.concatenate([host[:1], host]), device=device)
        function(base[1:], out=base[:-1])
        np.testing.assert_array_equal(base.to_numpy()[:-1], want)
    x, residual = (gp.from_numpy(host + i, device=device) for i in range(2))
    want = FUNCTIONS["add_rmsnorm"](x, residual)
    out = gp.zeros_like(x)
    result = FUNCTIONS["add_rmsnorm"](x, residual, out=out, sum_out=residual)
    assert result[0] is out
    assert result[1] is residual
    np.testing.assert_array_equal(out.to_numpy(), want[0].to_numpy())
    np.testing.assert_array_equal(residual.to_numpy(), want[1].to_numpy())
    with pytest.raises(ValueError, match="out and sum_out share memory"):
        FUNCTIONS["add_rmsnorm"](x, x, out=out, sum_out=out)

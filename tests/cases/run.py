"""Runs a case on a device. Shared by tests/unit (CPU simulation) and tests/gpu."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pygpukit as gp
from cases import elementwise
from cases.elementwise import Arg
from cases.must_raise import Refused
from cases.tolerance import assert_close, assert_ulps
from cases.views import VIEWS
from pygpukit import _native


def random_array(shape: tuple[int, ...], dtype: str, seed: int) -> Any:
    """Values over the dtype's range, with zeros, extremes, infinities and NaN among them."""
    rng = np.random.default_rng(seed)
    type_ = np.dtype(dtype)
    if dtype == "bool":
        return np.asarray(rng.integers(0, 2, shape), dtype=bool)
    if dtype in elementwise.INTEGERS:
        info = np.iinfo(dtype)
        values = np.asarray(rng.integers(info.min, info.max, shape, dtype=type_, endpoint=True))
        special: list[Any] = [0, info.min, info.max]
    elif dtype in elementwise.COMPLEX:
        values = np.asarray(rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(type_)
        special = [0.0]
    else:
        values = np.asarray(rng.normal(size=shape) * 10.0 ** rng.integers(-3, 3, shape))
        values = values.astype(type_)
        special = [0.0, -0.0, np.inf, -np.inf, np.nan]
    flat = values.reshape(-1)
    if flat.size >= len(special) * 3:
        places = rng.choice(flat.size, len(special), replace=False)
        flat[places] = special
    return values


def on_host(array: gp.GPUArray) -> Any:
    """A NumPy copy of any array, also of a strided one."""
    return array.contiguous().to_numpy()


def _operands(case: elementwise.Case, device: str | None) -> tuple[list[Any], list[Any]]:
    """The operands for NumPy and for us."""
    op = elementwise.OPS[case.op]
    hosts: list[Any] = []
    ours: list[Any] = []
    for index, operand in enumerate(case.operands):
        if isinstance(operand, Arg):
            view = VIEWS[operand.view]
            shape = view.base(operand.shape)
            host = elementwise.make_operand(op, index, shape, operand.dtype, case.seed)
            hosts.append(view.take(host))
            ours.append(view.take(gp.from_numpy(host, device=device)))
            assert hosts[-1].shape == ours[-1].shape == operand.shape
        else:
            hosts.append(operand)
            ours.append(operand)
    return hosts, ours


def run_case(case: elementwise.Case, device: str | None = None) -> None:
    """Calls the op and compares value, dtype and shape; inputs must not change."""
    hosts, ours = _operands(case, device)
    want, dtype = elementwise.expected(case.op, hosts)
    result = _call(case, ours, want.shape, dtype, device)
    op = elementwise.OPS[case.op]
    got = on_host(result)
    if case.out in elementwise.COMPUTE:
        with np.errstate(all="ignore"):
            want = want.astype(dtype).astype(elementwise.numpy_type(case.out))
    assert_ulps(
        got,
        want,
        elementwise.ulps_of(op, dtype, hosts),
        floor=op.floor,
        signed_zeros=op.signed_zeros,
    )
    for host, operand in zip(hosts, ours, strict=True):
        if isinstance(operand, gp.GPUArray) and operand is not result:
            assert_close(on_host(operand), host, exact=True)


def _call(
    case: elementwise.Case, operands: list[Any], shape: Any, dtype: Any, device: str | None
) -> gp.GPUArray:
    function = getattr(_native, case.op)
    name = dtype.name
    if case.out == "new":
        result = function(*operands)
        assert all(result is not operand for operand in operands)
    else:
        name = case.out if case.out in elementwise.COMPUTE else dtype.name
        out = operands[0] if case.out == "first" else gp.empty(shape, name, device=device)
        result = function(*operands, out=out)
        assert result is out
    assert isinstance(result, gp.GPUArray)
    assert result.device == gp.empty(0, device=device).device
    assert result.dtype.name == name
    assert result.shape == shape
    return result


def run_must_raise(case: Refused, op: str, device: str | None = None) -> None:
    """The error's class and what its message names."""

    def ones(shape: Any, dtype: str = "float32") -> gp.GPUArray:
        return gp.ones(shape, dtype, device=device)

    with pytest.raises(case.error) as caught:
        case.call(getattr(_native, op), ones)
    assert isinstance(caught.value, gp.InvalidArgument)
    message = str(caught.value)
    assert message.startswith(f"{op}: ")
    for word in case.words:
        assert word in message

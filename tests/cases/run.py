"""Runs a case on a device. Shared by tests/unit (CPU simulation) and tests/gpu."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest

import pygpukit as gp
from cases import elementwise
from cases.tolerance import assert_close


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


def run_case(case: elementwise.Case, device: str | None = None) -> None:
    """Calls the op and compares value, dtype and shape; inputs must not change."""
    seed = zlib.crc32(str(case).encode())
    hosts: list[Any] = []
    operands: list[Any] = []
    for index, operand in enumerate((case.a, case.b)):
        if isinstance(operand, tuple):
            host = random_array(operand, case.dtype, seed + index)
            hosts.append(host)
            operands.append(gp.from_numpy(host, device=device))
        else:
            with np.errstate(over="ignore"):
                hosts.append(np.asarray(operand).astype(case.dtype))
            operands.append(operand)
    op = elementwise.OPS[case.op]
    with np.errstate(all="ignore"):
        want = np.asarray(op.reference(*hosts))
    result = _call(case, operands, want.shape, device)
    assert_close(result.to_numpy(), want, exact=case.dtype in op.exact)
    changed = operands[0] if case.out == "a" else None
    for host, operand in zip(hosts, operands, strict=True):
        if isinstance(operand, gp.GPUArray) and operand is not changed:
            assert_close(operand.to_numpy(), host, exact=True)


def _call(case: elementwise.Case, operands: list[Any], shape: Any, device: str | None) -> Any:
    function = getattr(gp, case.op)
    if case.out == "new":
        result = function(*operands)
        assert all(result is not operand for operand in operands)
    else:
        out = operands[0] if case.out == "a" else gp.empty(shape, case.dtype, device=device)
        result = function(*operands, out=out)
        assert result is out
    assert isinstance(result, gp.GPUArray)
    assert result.device == gp.empty(0, device=device).device
    assert result.dtype.name == case.dtype
    assert result.is_contiguous()
    return result


def run_must_raise(case: elementwise.MustRaise, op: str, device: str | None = None) -> None:
    """The error's class and what its message names."""

    def ones(shape: Any, dtype: str = "float32") -> gp.GPUArray:
        return gp.ones(shape, dtype, device=device)

    with pytest.raises(case.error) as caught:
        case.call(getattr(gp, op), ones)
    assert isinstance(caught.value, gp.InvalidArgument)
    message = str(caught.value)
    assert message.startswith(f"{op}: ")
    for word in case.words:
        assert word in message

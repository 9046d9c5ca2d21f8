"""DataType and the dtype singletons."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pygpukit as gp
from pygpukit.core import dtypes

SIZES = {
    "bool": 8,
    "int8": 8,
    "int16": 16,
    "int32": 32,
    "int64": 64,
    "uint8": 8,
    "uint16": 16,
    "uint32": 32,
    "uint64": 64,
    "float16": 16,
    "bfloat16": 16,
    "float32": 32,
    "float64": 64,
    "complex64": 64,
    "complex128": 128,
    "float8_e4m3fn": 8,
    "float8_e5m2": 8,
    "int4": 4,
    "uint4": 4,
    "float4_e2m1fn": 4,
}


def singleton(name: str) -> gp.DataType:
    return getattr(dtypes, "bool_" if name == "bool" else name)


def test_the_list_is_complete() -> None:
    assert {kind.value for kind in dtypes.DataTypeKind} == set(SIZES)
    exported = {getattr(dtypes, name) for name in dtypes.__all__}
    assert {d.name for d in exported if isinstance(d, gp.DataType)} == set(SIZES)


@pytest.mark.parametrize("name", SIZES)
def test_dtype(name: str) -> None:
    d = singleton(name)
    assert str(d) == d.name == name
    assert repr(d) == f"DataType({name})"
    assert d.bits == SIZES[name]
    assert d.itemsize == max(1, SIZES[name] // 8)
    assert d.kind is dtypes.DataTypeKind(name)
    assert d.kind.name == name.upper()
    wanted = np.dtype(getattr(ml_dtypes, name, name))
    assert d.to_numpy_dtype() == wanted
    assert d.itemsize == wanted.itemsize
    assert gp.DataType.from_string(name) is d
    assert gp.DataType.from_numpy_dtype(wanted) is d
    assert gp.DataType.from_numpy_dtype(d) is d


def test_equality_and_hash() -> None:
    all_ = [singleton(name) for name in SIZES]
    assert len(set(all_)) == len(SIZES)
    assert gp.float32 == gp.float32
    assert gp.float32 != gp.float64
    assert gp.float32 != "float32"
    assert {gp.float32: 1}[gp.zeros(1).dtype] == 1


def test_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'name'"):
        gp.float32.name = "x"  # type: ignore[misc]
    with pytest.raises(AttributeError):
        gp.float32.new = 1  # type: ignore[attr-defined]
    assert gp.float32.name == "float32"


@pytest.mark.parametrize("name", SIZES)
def test_copies_are_the_same_object(name: str) -> None:
    d = singleton(name)
    assert copy.copy(d) is d
    assert copy.deepcopy([d])[0] is d
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(d, protocol)) is d


@pytest.mark.parametrize("name", ["nope", "", "Float32", "float", "f4 "])
def test_from_string_refuses(name: str) -> None:
    with pytest.raises(ValueError, match="Unsupported dtype string: ") as caught:
        gp.DataType.from_string(name)
    assert repr(name) in str(caught.value)
    assert "bfloat16" in str(caught.value)  # what is known


@pytest.mark.parametrize(
    "given", [np.dtype("M8[s]"), np.dtype("U3"), np.dtype(">f4"), object, 3, None]
)
def test_from_numpy_dtype_refuses(given: Any) -> None:
    with pytest.raises(gp.InvalidArgument, match="Unsupported dtype: "):
        gp.DataType.from_numpy_dtype(given)

"""DataType and the dtype singletons."""

from __future__ import annotations

import copy
import dataclasses
import operator
import pickle
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from cases import casts
from cases.elementwise import COMPUTE, STORAGE, numpy_type

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
    assert dtypes.DataTypeKind(name).name == name.upper()
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
    assert {gp.float32: 1}[gp.zeros(1).dtype] == 1


@pytest.mark.parametrize("name", SIZES)
def test_as_numpy(name: str) -> None:
    """The attributes of numpy.dtype, equality with what names it, and its hash."""
    d, theirs = singleton(name), numpy_type(name)
    for attribute in ("name", "itemsize", "kind", "char", "str", "type", "alignment"):
        assert getattr(d, attribute) == getattr(theirs, attribute), attribute
    assert np.dtype(d) == theirs
    assert np.zeros(1, d).dtype == theirs
    for same in (name, theirs, theirs.type):
        assert d == same
        assert same == d
        assert operator.ne(d, same) is False
    assert hash(d) == hash(theirs)
    assert {theirs: 1}[d] == 1
    for other in ("nonsense", None, 3, object(), object, "M8[s]", np.dtype("U3"), [], gp.ones(1)):
        assert (d == other) is False
        assert d != other


SPELLINGS = {
    "f4": "float32",
    "<f4": "float32",
    "=f8": "float64",
    "<i8": "int64",
    "i1": "int8",
    "u2": "uint16",
    "?": "bool",
    "c8": "complex64",
    "int": "int64",
    "float": "float64",
    "complex": "complex128",
    "half": "float16",
    "single": "float32",
    "double": "float64",
    "byte": "int8",
}


@pytest.mark.parametrize("spelling", [*SPELLINGS, int, float, bool, complex, np.half, np.intp])
def test_spellings_of_numpy(spelling: Any) -> None:
    """Wherever a dtype is taken."""
    want = np.dtype(spelling).name
    assert want == SPELLINGS.get(spelling, want)
    assert gp.zeros(2, spelling).dtype.name == want
    assert gp.ones(2).astype(spelling).dtype.name == want if want != "complex128" else True
    assert gp.asarray([1, 2], dtype=spelling).dtype.name == want
    assert gp.sum(gp.ones(2, "bool"), dtype=spelling).dtype.name == want
    assert gp.result_type(spelling).name == want
    assert gp.zeros(2, want).dtype == spelling


@pytest.mark.parametrize("name", SIZES)
def test_calls_make_numpy_scalars(name: str) -> None:
    d, theirs = singleton(name), numpy_type(name)
    for value in (0, 1, True) if name not in ("float4_e2m1fn",) else (0.0, 1.0):
        scalar = d(value)
        assert type(scalar) is theirs.type
        assert scalar == theirs.type(value)
    assert d() == theirs.type(0)
    assert d(gp.ones((), "float32")) == theirs.type(1)


def test_scalars_bring_their_dtype() -> None:
    x = gp.ones(3, "int8")
    assert (x + gp.int32(2)).dtype == gp.int32
    assert (x + gp.bfloat16(2)).dtype == gp.bfloat16
    for wrong in ([1, 2], np.ones(3), "1", None):
        with pytest.raises(TypeError, match=r"^float32: value is .*expected a number"):
            gp.float32(wrong)


KINDS = (np.generic, np.number, np.integer, np.signedinteger, np.unsignedinteger, np.inexact)
KINDS += (np.floating, np.complexfloating, np.bool_, np.float32, np.int64)


@pytest.mark.parametrize("name", COMPUTE)
def test_issubdtype(name: str) -> None:
    d = singleton(name)
    like = np.dtype("float16") if name == "bfloat16" else numpy_type(name)
    for kind in KINDS:
        assert gp.issubdtype(d, kind) == np.issubdtype(like, kind), kind
    for other in COMPUTE:
        assert gp.issubdtype(d, singleton(other)) == (name == other)
    assert gp.issubdtype(gp.ones(1, name), d)
    assert gp.issubdtype(np.float32, np.floating)


FLOATS = ["float16", "float32", "float64", "complex64", "complex128"]
FLOATS += ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn"]


@pytest.mark.parametrize("name", FLOATS)
def test_finfo_as_numpy(name: str) -> None:
    ours = gp.finfo(name)
    theirs = np.finfo(name) if name in FLOATS[:5] else ml_dtypes.finfo(name)
    fields = ["bits", "eps", "epsneg", "max", "min", "tiny", "smallest_normal"]
    fields += ["smallest_subnormal", "nmant", "nexp", "machep", "negep", "maxexp", "minexp"]
    if name in FLOATS[:5]:
        fields += ["precision"]
    for field in fields:
        assert float(getattr(ours, field)) == float(getattr(theirs, field)), field
    if name in FLOATS[:5]:
        assert ours.resolution == pytest.approx(float(theirs.resolution), rel=1e-3)
    assert gp.finfo(gp.zeros(1, name)).max == ours.max if name in COMPUTE else True


@pytest.mark.parametrize("name", [name for name in SIZES if "int" in name])
def test_iinfo_as_numpy(name: str) -> None:
    ours, theirs = gp.iinfo(name), (ml_dtypes if "int4" in name else np).iinfo(name)
    assert (ours.min, ours.max, ours.bits) == (int(theirs.min), int(theirs.max), theirs.bits)


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


@pytest.mark.parametrize("name", ["nope", "", "Float32", "f4,f4", "U3", ">f4", "object"])
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


# --- casts --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("source", "target"), casts.PAIRS)
def test_casts_as_numpy_and_ml_dtypes(source: str, target: str) -> None:
    """Every code of the small types; special values, halves and random numbers of the others."""
    given, want = casts.cast_pair(source, target)
    result = gp.astype(gp.from_numpy(given), target)
    assert result.dtype.name == target
    casts.same_bits(result.to_numpy(), want)


@pytest.mark.parametrize("target", ["float32", "int8", "float8_e5m2", "int4"])
def test_complex_numbers_are_not_cast_to_real_ones(target: str) -> None:
    with pytest.raises(TypeError, match=f"^astype: complex64 cannot be cast to {target}"):
        gp.astype(gp.ones(3, "complex64"), target)


@pytest.mark.parametrize("dtype", STORAGE)
def test_storage_types_survive_a_round_trip(dtype: str) -> None:
    codes = casts.every_code(dtype)
    wide = gp.astype(gp.from_numpy(codes), "float32")
    casts.same_bits(gp.astype(wide, dtype).to_numpy(), codes)


@pytest.mark.parametrize("count", [1, 2, 3, 33])
def test_odd_numbers_of_four_bit_values(count: int) -> None:
    host = (np.arange(count) % 8).astype(np.int32)
    packed = gp.astype(gp.from_numpy(host), "int4")
    assert packed.nbytes == (count + 1) // 2
    np.testing.assert_array_equal(gp.astype(packed, "int32").to_numpy(), host)


# --- promotion ----------------------------------------------------------------------------------


def _numpy_names(a: str, b: str) -> str:
    """As NumPy; bfloat16 as float16."""
    if "bfloat16" not in (a, b):
        return str(np.result_type(a, b))
    if a == b:
        return a
    both = {a, b} - {"bfloat16"}
    other = both.pop()
    if other == "float16":
        return "float32"
    found = str(np.result_type("float16", other))
    return "bfloat16" if found == "float16" else found


@pytest.mark.parametrize("a", COMPUTE)
def test_promotion_as_numpy(a: str) -> None:
    for b in COMPUTE:
        want = _numpy_names(a, b)
        assert gp.result_type(a, b).name == want
        assert gp.promote_types(a, b).name == want
        assert (gp.ones(1, a) + gp.ones(1, b)).dtype.name == want


@pytest.mark.parametrize("dtype", COMPUTE)
def test_python_numbers_are_weak(dtype: str) -> None:
    stand_in = np.float16 if dtype == "bfloat16" else np.dtype(dtype)
    for number in (True, 1, 0.5, 1j):
        want = str(np.result_type(stand_in, number))
        want = dtype if dtype == "bfloat16" and want == "float16" else want
        assert gp.result_type(gp.ones(1, dtype), number).name == want


@pytest.mark.parametrize("dtype", STORAGE)
def test_storage_types_promote_with_themselves_only(dtype: str) -> None:
    assert gp.result_type(dtype, dtype).name == dtype
    for other in (*COMPUTE, *STORAGE):
        if other != dtype:
            with pytest.raises(TypeError, match="no common dtype of") as caught:
                gp.promote_types(dtype, other)
            assert dtype in str(caught.value)
            assert other in str(caught.value)


def test_numpy_has_the_same_dtypes() -> None:
    for name in (*COMPUTE, *STORAGE):
        assert singleton(name).to_numpy_dtype() == numpy_type(name)

"""GPUArray on CPU simulation: creation, round trips, attributes, errors."""

from __future__ import annotations

import os
from typing import Any

import hypothesis.extra.numpy as hnp
import ml_dtypes
import numpy as np
import pytest
from cases.elementwise import COMPUTE, SHAPES, STORAGE
from cases.tolerance import assert_close
from hypothesis import given, settings
from hypothesis import strategies as st

import pygpukit as gp

ALL = (*COMPUTE, *STORAGE)


def numpy_type(name: str) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, name, name))


def some_values(shape: tuple[int, ...], dtype: str) -> Any:
    """Cycles through small values: exact in all dtypes, negative where the dtype is signed."""
    count = int(np.prod(shape))
    low = 0 if dtype in ("bool", "uint4") or dtype.startswith("uint") else -4
    wide = np.arange(count, dtype=np.float64) % 4 + low
    if dtype in STORAGE or dtype == "bfloat16":
        wide = np.clip(wide, -4, 4)
    return wide.reshape(shape).astype(numpy_type(dtype))


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_round_trip(dtype: str, shape: tuple[int, ...]) -> None:
    host = some_values(shape, dtype)
    x = gp.from_numpy(host)
    assert x.dtype.name == dtype
    assert x.shape == shape
    back = x.to_numpy()
    assert back.dtype == numpy_type(dtype)
    assert back.shape == shape
    assert back.flags.c_contiguous
    assert back.flags.writeable
    assert_close(back, host, exact=True)


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2", "bfloat16", "float16"])
def test_every_bit_pattern_survives(dtype: str) -> None:
    type_ = numpy_type(dtype)
    bits = np.arange(2 ** (8 * type_.itemsize), dtype=f"u{type_.itemsize}")
    back = gp.from_numpy(bits.view(type_)).to_numpy()
    np.testing.assert_array_equal(back.view(bits.dtype), bits)


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        ("int4", range(-8, 8)),
        ("uint4", range(16)),
        ("float4_e2m1fn", [0, 0.5, 1, 1.5, 2, 3, 4, 6, -6]),
    ],
)
@pytest.mark.parametrize("count", [1, 2, 7, 16])
def test_four_bit_types(dtype: str, values: Any, count: int) -> None:
    host = np.resize(np.array(list(values), dtype=np.float64), count).astype(numpy_type(dtype))
    x = gp.from_numpy(host)
    assert (x.size, x.nbytes, x.itemsize, x.dtype.bits) == (count, (count + 1) // 2, 1, 4)
    assert_close(x.to_numpy(), host, exact=True)


def test_uint16_is_uint16() -> None:
    assert gp.from_numpy(np.arange(3, dtype=np.uint16)).dtype is gp.uint16


@settings(max_examples=80, deadline=None)
@given(
    host=hnp.arrays(
        st.sampled_from(["?", "i1", "u2", "i4", "u8", "f2", "f4", "f8", "c8", "c16"]).map(np.dtype),
        hnp.array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=6),
    )
)
def test_round_trip_of_anything(host: Any) -> None:
    back = gp.from_numpy(host).to_numpy()
    assert back.dtype == host.dtype
    assert back.shape == host.shape
    assert back.tobytes() == host.tobytes()


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a.T,
        lambda a: a[:, ::2],
        lambda a: a[::-1, ::-1],
        lambda a: np.asfortranarray(a),
        lambda a: np.broadcast_to(a[:1], (5, a.shape[1])),
        lambda a: a[1:1],
    ],
    ids=["T", "step", "reversed", "fortran", "broadcast", "empty"],
)
@pytest.mark.parametrize("dtype", ["float32", "int4"])
def test_from_any_layout(view: Any, dtype: str) -> None:
    host = view(some_values((4, 6), dtype))
    x = gp.from_numpy(host)
    assert x.is_contiguous()
    assert x.contiguous() is x
    assert_close(x.to_numpy(), np.ascontiguousarray(host), exact=True)


def test_from_read_only_and_lists() -> None:
    host = np.arange(3.0)
    host.flags.writeable = False
    assert gp.from_numpy(host).to_numpy().tolist() == [0.0, 1.0, 2.0]
    assert gp.from_numpy([[1, 2], [3, 4]]).to_numpy().tolist() == [[1, 2], [3, 4]]
    assert gp.from_numpy(2.5).shape == ()


@pytest.mark.parametrize("shape", [(5,), ()])
def test_memory_is_not_shared(shape: tuple[int, ...]) -> None:
    host = np.ones(shape, np.float32)
    x = gp.from_numpy(host)
    y = x.clone()
    host[...] = 7
    x.to_numpy()[...] = 8
    assert np.all(x.to_numpy() == 1)
    gp.add(x, 1.0, out=x)
    assert np.all(x.to_numpy() == 2)
    assert np.all(y.to_numpy() == 1)
    assert y.device_ptr != x.device_ptr


@pytest.mark.parametrize("dtype", COMPUTE)
@pytest.mark.parametrize("shape", [(), (0,), (33,), (3, 5)], ids=str)
def test_creation(dtype: str, shape: tuple[int, ...]) -> None:
    type_ = numpy_type(dtype)
    assert_close(gp.zeros(shape, dtype).to_numpy(), np.zeros(shape, type_), exact=True)
    assert_close(gp.ones(shape, dtype).to_numpy(), np.ones(shape, type_), exact=True)
    value = True if dtype == "bool" else 5
    assert_close(gp.full(shape, value, dtype).to_numpy(), np.full(shape, value, type_), exact=True)
    assert gp.empty(shape, dtype).to_numpy().shape == shape


@pytest.mark.parametrize("dtype", STORAGE)
def test_zeros_of_storage_types(dtype: str) -> None:
    assert not gp.zeros(7, dtype).to_numpy().astype(np.float32).any()
    with pytest.raises(TypeError, match=f"ones: dtype {dtype} is a storage type"):
        gp.ones(7, dtype)


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (float("nan"), "float16"),
        (float("-inf"), "bfloat16"),
        (1e-40, "float32"),
        (6e-8, "float16"),
        (65519.0, "float16"),
        (65520.0, "float16"),
        (3.3895e38, "bfloat16"),
        (1 + 2**-11 + 2**-30, "float16"),  # a float32 in between would round to 1
        (1 + 2**-8 + 2**-30, "bfloat16"),
        (1 - 2j, "complex64"),
        (2**64 - 1, "uint64"),
        (-(2**63), "int64"),
        (2**64 - 1, "float64"),
        (np.float32(0.1), "float64"),
        (np.array(3), "int8"),
        (np.True_, "bool"),
    ],
    ids=str,
)
def test_full_rounds_as_numpy(value: Any, dtype: str) -> None:
    with np.errstate(over="ignore"):
        want = np.asarray(value).astype(numpy_type(dtype)).reshape(1)
    assert_close(gp.full(1, value, dtype).to_numpy(), want, exact=True)


def test_default_dtype_and_int_shape() -> None:
    x = gp.zeros(3)
    assert (x.shape, x.dtype) == ((3,), gp.float32)
    assert gp.zeros(np.int64(3)).shape == (3,)
    assert gp.zeros([2, np.int8(3)]).shape == (2, 3)


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        (gp.int16, "int16"),
        ("int16", "int16"),
        (np.int16, "int16"),
        (np.dtype("int16"), "int16"),
        (float, "float64"),
        (int, "int64"),
        (bool, "bool"),
        (complex, "complex128"),
        (ml_dtypes.bfloat16, "bfloat16"),
        (np.dtype(ml_dtypes.int4), "int4"),
    ],
    ids=str,
)
def test_dtype_arguments(dtype: Any, name: str) -> None:
    assert gp.empty(1, dtype).dtype.name == name


def test_attributes() -> None:
    x = gp.zeros((2, 3, 4), "int16")
    assert (x.shape, x.strides, x.size, x.ndim) == ((2, 3, 4), (24, 8, 2), 24, 3)
    assert (x.nbytes, x.itemsize, len(x)) == (48, 2, 2)
    assert x.dtype is gp.int16
    assert (x.device, x.on_gpu) == ("cpu", False)
    assert x.device_ptr % 64 == 0
    scalar = gp.zeros(())
    assert (scalar.shape, scalar.strides, scalar.size, scalar.ndim, scalar.nbytes) == (
        (),
        (),
        1,
        0,
        4,
    )
    with pytest.raises(TypeError, match="unsized"):
        len(scalar)
    for name in ("shape", "dtype", "size", "device_ptr"):
        with pytest.raises(AttributeError):
            setattr(x, name, getattr(x, name))


def test_repr() -> None:
    assert "shape=(2, 3), dtype=bfloat16, device='cpu')" in repr(gp.zeros((2, 3), "bfloat16"))
    assert "shape=()" in repr(gp.zeros(()))
    assert "shape=(1,)" in repr(gp.zeros(1))


@pytest.mark.parametrize(
    "make", [gp.zeros, gp.ones, gp.empty, lambda *a, **k: gp.full(a[0], 1, *a[1:], **k)]
)
@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (((2, -1),), ValueError, ("(2, -1)", "negative")),
        ((2.0,), TypeError, ("shape is 2.0", "integer")),
        (((2, "3"),), TypeError, ("'3'", "integer")),
        (("ab",), TypeError, ("shape is 'ab'",)),
        ((None,), TypeError, ("shape is None",)),
        ((2**63,), ValueError, ("9223372036854775808", "2**63 - 1")),
        (((2**32, 2**32),), ValueError, ("elements",)),
        ((2**62,), ValueError, ("2**62 bytes",)),
        (((1,) * 33,), ValueError, ("33 dimensions", "32")),
        ((1, "float31"), ValueError, ("Unsupported dtype string: 'float31'", "float32")),
        ((1, object), TypeError, ("Unsupported dtype", "object")),
    ],
    ids=str,
)
def test_bad_creation(make: Any, arguments: Any, error: Any, words: Any) -> None:
    with pytest.raises(error) as caught:
        make(*arguments)
    assert isinstance(caught.value, gp.InvalidArgument)
    assert str(caught.value).split(":")[0] in ("zeros", "ones", "empty", "full")
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("value", "dtype", "error", "words"),
    [
        ("a", "float32", TypeError, ("fill_value is 'a'", "number")),
        (None, "float32", TypeError, ("fill_value is None",)),
        (1j, "float32", TypeError, ("complex", "float32")),
        (0.5, "int32", TypeError, ("0.5", "int32")),
        (300, "int8", OverflowError, ("300", "int8")),
        (-1, "uint8", OverflowError, ("-1", "uint8")),
        (2**64, "int64", OverflowError, ("64 bits",)),
    ],
)
def test_bad_fill_value(value: Any, dtype: str, error: Any, words: Any) -> None:
    with pytest.raises(error, match=r"^full: ") as caught:
        gp.full(3, value, dtype)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("device", ["tpu", "cuda:x", "cuda1", 1.5, "cpu:0"])
def test_bad_device(device: Any) -> None:
    with pytest.raises(TypeError, match=r"^zeros: device is .*expected None, 'cpu'"):
        gp.zeros(1, device=device)


@pytest.mark.parametrize("device", [2**40, -(2**40)])
def test_device_index_out_of_range(device: int) -> None:
    with pytest.raises(gp.PyGPUkitError):
        gp.zeros(1, device=device)


def test_cpu_device_by_name() -> None:
    assert gp.zeros(1, device="cpu").device == "cpu"


def test_too_much_memory() -> None:
    with pytest.raises(gp.OutOfMemory, match=r"asked 4.00 PiB \(4503599627370496 bytes") as caught:
        gp.empty(2**50)
    assert isinstance(caught.value, MemoryError)
    assert caught.value.asked == 2**52


@pytest.mark.parametrize(
    "host",
    [
        np.ones(2, ">f4"),
        np.ones(2, ">i8"),
        np.array(["a"]),
        np.array([None]),
        np.array(["2020-01-01"], "datetime64[s]"),
        np.zeros(2, [("a", "f4")]),
        np.zeros(2, np.longdouble),
    ],
    ids=lambda host: str(host.dtype),
)
def test_from_numpy_refuses(host: Any) -> None:
    with pytest.raises(TypeError, match=r"^from_numpy: Unsupported dtype: ") as caught:
        gp.from_numpy(host)
    assert repr(host.dtype) in str(caught.value)


def test_constructor_is_not_for_users() -> None:
    with pytest.raises(TypeError, match="from_numpy"):
        gp.GPUArray((2,), gp.float32)


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs /proc")
def test_arrays_are_freed() -> None:
    def mapped_bytes() -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[0]) * os.sysconf("SC_PAGESIZE")

    size = 256 << 20
    before = mapped_bytes()
    for _ in range(20):
        gp.empty(size, "uint8")
    assert mapped_bytes() - before < 4 * size


@pytest.mark.parametrize(
    ("dtype", "bits"), [("float64", 64), ("complex128", 128), ("int8", 8), ("bool", 8)]
)
def test_nbytes_beyond_64_bits(dtype: str, bits: int) -> None:
    x = gp.broadcast_to(gp.ones(1, dtype), (2**31, 2**32 - 1))
    assert x.nbytes == 2**31 * (2**32 - 1) * bits // 8
    assert gp.broadcast_to(gp.ones(1, dtype), (2**63 - 1,)).nbytes == (2**63 - 1) * bits // 8
    with pytest.raises((ValueError, MemoryError)):
        x.to_numpy()

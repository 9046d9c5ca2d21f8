"""Exchange with DLPack producers and consumers, on CPU simulation."""

from __future__ import annotations

import ctypes
import gc
import threading
import weakref
from typing import Any

import hypothesis.extra.numpy as hnp
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pygpukit as gp
from pygpukit import _native

NUMPY_DTYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]


ML_DTYPES = ["bfloat16", "float8_e4m3fn", "float8_e5m2", "int4", "uint4", "float4_e2m1fn"]


class Managed(ctypes.Structure):
    """DLManagedTensorVersioned up to its flags."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
    )


def managed(capsule: Any) -> Managed:
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    return Managed.from_address(get(capsule, b"dltensor_versioned"))


class Producer:
    """Only DLPack; `old` is one from before version 1.0."""

    def __init__(self, host: Any, old: bool = False) -> None:
        self.host, self.old, self.asked = host, old, {}  # type: ignore[var-annotated]

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.host.__dlpack_device__()  # type: ignore[no-any-return]

    def __dlpack__(self, **options: Any) -> Any:
        if self.old and set(options) - {"stream"}:
            raise TypeError("unexpected keyword argument")
        self.asked = options
        return self.host.__dlpack__(**options)


# --- DLPack ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (33,), (3, 0, 5), (2, 3, 4)], ids=str)
def test_numpy_both_ways_without_a_copy(dtype: str, shape: tuple[int, ...]) -> None:
    host = np.arange(int(np.prod(shape))).reshape(shape).astype(dtype)
    x = gp.from_dlpack(host)
    assert (x.shape, x.dtype.to_numpy_dtype(), x.device) == (shape, host.dtype, "cpu")
    back = np.from_dlpack(x)
    assert back.dtype == host.dtype
    np.testing.assert_array_equal(back, host)
    if host.size:
        assert x.device_ptr == host.__array_interface__["data"][0] == back.ctypes.data
        host[...] = 1
        assert (x.to_numpy() == 1).all()
        assert (back == 1).all()


@pytest.mark.parametrize("dtype", ML_DTYPES)
@pytest.mark.parametrize("shape", [(4,), (5,), (2, 3, 4), (0, 2), ()], ids=str)
def test_dtypes_numpy_cannot_exchange(dtype: str, shape: tuple[int, ...]) -> None:
    host = (np.arange(int(np.prod(shape))) % 4).reshape(shape).astype(getattr(ml_dtypes, dtype))
    x = gp.from_numpy(host)
    y = gp.from_dlpack(x)
    assert (y.dtype, y.shape) == (x.dtype, shape)
    assert not x.size or y.device_ptr == x.device_ptr
    assert y.to_numpy().tobytes() == host.tobytes()


def test_float4_is_exported_in_pairs() -> None:
    even = managed(gp.zeros((2, 6), "float4_e2m1fn").__dlpack__(max_version=(1, 0)))
    assert (even.code, even.bits, even.lanes) == (17, 4, 2)
    odd = managed(gp.zeros((2, 5), "float4_e2m1fn").__dlpack__(max_version=(1, 0)))
    assert (odd.code, odd.bits, odd.lanes) == (17, 4, 1)


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_any_view(data: st.DataObject) -> None:
    host = data.draw(
        hnp.arrays(
            st.sampled_from(["i1", "f4", "c16"]).map(np.dtype),
            hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5),
        )
    )
    view = host.transpose(data.draw(st.permutations(range(host.ndim))))
    steps = [data.draw(st.sampled_from([1, 2, -1, -3])) for _ in range(host.ndim)]
    index = (*(slice(None, None, step) for step in steps), ...)
    view = view[index]
    x = gp.from_dlpack(view)
    assert x.shape == view.shape
    assert x.to_numpy().tobytes() == view.tobytes()
    assert not view.size or np.shares_memory(np.from_dlpack(x), host)
    assert gp.from_numpy(view).to_numpy().tobytes() == view.tobytes()


def test_old_producers_and_capsules() -> None:
    host = np.arange(4.0)
    for producer in (Producer(host), Producer(host, old=True)):
        x = gp.from_dlpack(producer)
        assert x.device_ptr == host.ctypes.data
    assert producer.asked == {}
    new = Producer(host)
    gp.from_dlpack(new)
    assert new.asked == {"max_version": (1, 1)}
    for options in ({}, {"max_version": (1, 0)}):
        capsule = host.__dlpack__(**options)
        assert gp.from_dlpack(capsule).device_ptr == host.ctypes.data
        assert '"used_dltensor' in repr(capsule)
        with pytest.raises(BufferError, match="consumed before"):
            gp.from_dlpack(capsule)


def test_versions_and_flags() -> None:
    x = gp.ones(3)
    assert '"dltensor"' in repr(x.__dlpack__())
    assert '"dltensor"' in repr(x.__dlpack__(max_version=(0, 8)))
    for version in ((1, 0), (1, 2), (2, 0)):
        capsule = x.__dlpack__(max_version=version)
        assert '"dltensor_versioned"' in repr(capsule)
        assert (managed(capsule).major, managed(capsule).flags) == (1, 0)
        assert managed(capsule).data == x.device_ptr
    copied = x.__dlpack__(max_version=(1, 0), copy=True)
    assert managed(copied).flags == 2
    assert managed(copied).data != x.device_ptr
    same = x.__dlpack__(max_version=(1, 0), dl_device=(1, 0), copy=False)
    assert managed(same).data == x.device_ptr
    managed(same).major = 2
    with pytest.raises(BufferError, match=r"DLPack 2\."):
        gp.from_dlpack(same)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"stream": 0}, ValueError),
        ({"stream": 1}, ValueError),
        ({"stream": "1"}, TypeError),
        ({"stream": True}, TypeError),
        ({"dl_device": (2, 99)}, BufferError),
        ({"dl_device": (10, 0)}, BufferError),
        ({"dl_device": (3, 0)}, BufferError),
        ({"dl_device": 1}, TypeError),
        ({"max_version": 1}, TypeError),
        ({"copy": 1}, TypeError),
    ],
    ids=str,
)
def test_bad_requests(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error, match=r"^__dlpack__: "):
        gp.ones(3).__dlpack__(**options)
    with pytest.raises(TypeError):
        gp.ones(3).__dlpack__(1)  # type: ignore[call-arg]


def test_no_stream_is_fine_on_the_cpu() -> None:
    gp.ones(3).__dlpack__(stream=-1)
    gp.ones(3).__dlpack__(stream=None)


def test_from_dlpack_copies_when_it_must() -> None:
    host = np.arange(3.0)
    assert gp.from_dlpack(host, copy=True).device_ptr != host.ctypes.data
    assert gp.from_dlpack(host, copy=False).device_ptr == host.ctypes.data
    assert gp.from_dlpack(host, device="cpu").device_ptr == host.ctypes.data
    host.flags.writeable = False
    lent = gp.from_dlpack(host, copy=False)
    assert lent.device_ptr == host.ctypes.data
    with pytest.raises(ValueError, match="add: out is read-only"):
        gp.add(lent, 1.0, out=lent)
    assert not np.from_dlpack(lent).flags.writeable
    own = gp.from_dlpack(host, copy=True)
    own += 1.0
    assert host.tolist() == [0.0, 1.0, 2.0]
    assert own.tolist() == [1.0, 2.0, 3.0]


def test_from_dlpack_refuses() -> None:
    for x in (None, [1.0], 3, object()):
        with pytest.raises(TypeError, match=r"^from_dlpack: x is .*__dlpack__"):
            gp.from_dlpack(x)
    with pytest.raises(TypeError, match="copy is 1"):
        gp.from_dlpack(np.ones(3), copy=1)  # type: ignore[arg-type]
    misaligned = np.frombuffer(bytearray(33), np.uint8)[1:].view(np.float64)
    with pytest.raises(BufferError, match="not a multiple of 8"):
        gp.from_dlpack(misaligned)

    class Elsewhere(Producer):
        def __dlpack_device__(self) -> tuple[int, int]:
            return (10, 0)

    with pytest.raises(BufferError, match="device type 10"):
        gp.from_dlpack(Elsewhere(np.ones(3)))
    asked = Elsewhere(np.ones(3))
    assert gp.from_dlpack(asked, device="cpu").tolist() == [1.0] * 3
    assert asked.asked["dl_device"] == (1, 0)


def test_an_error_of_the_producer_goes_through() -> None:
    class Broken(Producer):
        def __dlpack__(self, **options: Any) -> Any:
            raise BufferError("cannot")

    with pytest.raises(BufferError, match="cannot"):
        gp.from_dlpack(Broken(np.ones(3)))


def test_producers_live_as_long_as_needed() -> None:
    host = np.arange(3.0)
    alive = weakref.ref(host)
    x = gp.from_dlpack(host)
    del host
    gc.collect()
    assert alive() is not None
    assert x.tolist() == [0.0, 1.0, 2.0]
    del x
    assert alive() is None


@pytest.mark.parametrize("options", [{}, {"max_version": (1, 0)}], ids=["old", "versioned"])
def test_capsules_that_nobody_takes(options: dict[str, Any]) -> None:
    host = np.arange(3.0)
    alive = weakref.ref(host)
    capsule = _native.wrap_numpy(host).__dlpack__(**options)
    del host
    assert alive() is not None
    del capsule
    assert alive() is None


def test_the_deleter_needs_no_gil() -> None:
    host = np.arange(3.0)
    alive = weakref.ref(host)
    capsule = _native.wrap_numpy(host).__dlpack__(max_version=(1, 0))
    tensor = managed(capsule)
    rename = ctypes.pythonapi.PyCapsule_SetName
    rename.argtypes = (ctypes.py_object, ctypes.c_char_p)
    name = ctypes.create_string_buffer(b"used_dltensor_versioned")
    rename(capsule, name)  # type: ignore[arg-type]
    delete = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(tensor.deleter)  # called without the GIL
    del host
    thread = threading.Thread(target=delete, args=(ctypes.addressof(tensor),))
    thread.start()
    thread.join()
    assert alive() is None
    del capsule


def test_exported_memory_outlives_the_array() -> None:
    views = [np.from_dlpack(gp.full(1000, float(value))) for value in range(50)]
    gc.collect()
    for value, view in enumerate(views):
        assert (view == value).all()


def test_dlpack_device() -> None:
    assert gp.ones(3).__dlpack_device__() == (1, 0)

"""Exchange with NumPy on CPU simulation: memory, functions, values, copies, pickling."""

from __future__ import annotations

import copy
import io
import mmap
import pickle
import sys
import tracemalloc
import weakref
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pygpukit as gp
from pygpukit import _native

# --- NumPy memory ---------------------------------------------------------------------------------


def test_wrap_numpy() -> None:
    host = np.zeros((3, 4))
    view = host[::-1, ::2]
    x = _native.wrap_numpy(view)
    assert (x.shape, x.strides) == (view.shape, view.strides)
    host[2, 2] = 50
    assert x.tolist() == view.tolist()
    gp.add(_native.wrap_numpy(host), 1.0, out=_native.wrap_numpy(host))
    assert host[0, 0] == 1.0
    alive = weakref.ref(host)
    del host, view
    assert alive() is not None
    del x
    assert alive() is None
    assert _native.wrap_numpy(np.zeros((0, 3))).shape == (0, 3)
    assert _native.wrap_numpy(np.zeros(())).shape == ()


@pytest.mark.parametrize(
    ("host", "error", "words"),
    [
        (np.frombuffer(b"\0" * 8, np.float64), ValueError, "read-only"),
        (np.zeros(2, ml_dtypes.int4), ValueError, "four-bit"),
        (np.zeros(4, "i4,f8")["f8" if False else "f1"], ValueError, "aligned|multiple"),
        (np.zeros(2, ">f4"), TypeError, "Unsupported dtype"),
        ([1.0], TypeError, "numpy.ndarray"),
    ],
    ids=["read-only", "packed", "field", "big-endian", "list"],
)
def test_wrap_numpy_refuses(host: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        _native.wrap_numpy(host)


def test_from_a_memory_mapped_file(tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    want = np.arange(1 << 20, dtype=np.float32).reshape(1024, 1024)
    want.tofile(path)
    file = np.memmap(path, np.float32, "r", shape=want.shape)
    tracemalloc.start()
    try:
        whole = gp.from_numpy(file)
        part = gp.from_numpy(file[::2, ::-1])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100_000  # NumPy reports its memory there: no copy on the way
    np.testing.assert_array_equal(whole.to_numpy(), want)
    np.testing.assert_array_equal(part.to_numpy(), want[::2, ::-1])
    with path.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as raw:
        third = gp.frombuffer(raw, gp.float32, 3, 8)
    assert third.tolist() == [2.0, 3.0, 4.0]


def test_frombuffer() -> None:
    assert gp.frombuffer(b"\1\2\3", "uint8").tolist() == [1, 2, 3]
    assert gp.frombuffer(bytearray(8), np.int16).shape == (4,)
    assert gp.frombuffer(b"\x80\x3f\x00\x40", "bfloat16").tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="multiple"):
        gp.frombuffer(b"123", "float32")


def test_to_numpy_into_out() -> None:
    host = np.arange(6, dtype=np.float32).reshape(2, 3)
    x = gp.from_numpy(host)
    for out in (np.empty((2, 3), np.float32), gp.pinned_empty((2, 3))):
        for options in ({}, {"stream": gp.Stream()}, {"blocking": False}):
            out[...] = -1
            assert x.to_numpy(out=out, **options) is out
            np.testing.assert_array_equal(out, host)
    strided = gp.from_dlpack(host[:, ::-2])
    out = np.empty((2, 2), np.float32)
    np.testing.assert_array_equal(strided.to_numpy(out), host[:, ::-2])
    nibbles = gp.from_numpy(np.array([1, -2, 3], ml_dtypes.int4))
    out = np.zeros(3, ml_dtypes.int4)
    assert nibbles.to_numpy(out).tolist() == [1, -2, 3]


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"out": np.empty(4, np.float32)}, ValueError, r"shape \(4,\), the array has \(3,\)"),
        ({"out": np.empty(3, np.float64)}, ValueError, "dtype float64, the array has float32"),
        ({"out": np.empty(6, np.float32)[::2]}, ValueError, "contiguous"),
        ({"out": np.frombuffer(bytes(12), np.float32)}, ValueError, "read-only"),
        ({"out": [1.0]}, TypeError, "numpy.ndarray"),
        ({"blocking": False}, ValueError, "needs out"),
        ({"stream": "fast"}, TypeError, "stream"),
    ],
    ids=str,
)
def test_to_numpy_refuses(options: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=r"^to_numpy: .*" + words):
        gp.ones(3).to_numpy(**options)


def test_not_during_a_capture() -> None:
    x = gp.ones(3)
    with gp.CudaGraph():
        y = x + x
        for call in (x.to_numpy, lambda: gp.from_numpy([1.0]), x.tolist, lambda: x.item(0)):
            with pytest.raises(gp.CaptureError):
                call()
    assert y.shape == (3,)


# --- NumPy's functions ----------------------------------------------------------------------------


def test_ufuncs_run_ours() -> None:
    x = gp.from_numpy(np.array([1.0, 2.0, 3.0]))
    cases: list[Any] = [
        (np.add(x, x), [2, 4, 6]),
        (np.add(x, 1), [2, 3, 4]),
        (np.multiply(2.0, x), [2, 4, 6]),
        (np.float64(2) * x, [2, 4, 6]),
        (x * np.float64(2), [2, 4, 6]),
        (np.add(np.array(2.0), x), [3, 4, 5]),
        (np.add(x, x, casting="same_kind", where=True, dtype=None, subok=True), [2, 4, 6]),
    ]
    for result, want in cases:
        assert isinstance(result, gp.GPUArray)
        assert result.tolist() == want
    out = gp.zeros(3, "float64")
    assert np.add(x, x, out=out) is out
    assert np.add(x, x, out=(out,)) is out
    assert out.tolist() == [2, 4, 6]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: np.add(x, np.ones(3)), r"numpy\.add: a numpy\.ndarray of shape \(3,\)"),
        (lambda x: np.ones(3) + x, r"numpy\.add: .*cannot be mixed"),
        (lambda x: x + np.ones(3), r"numpy\.add: .*cannot be mixed"),
        (lambda x: x * np.ones((2, 3)), r"numpy\.multiply: .*\(2, 3\)"),
        (lambda x: np.add(x, x, out=np.ones(3)), "cannot be mixed"),
        (lambda x: np.add(x, x, where=np.array([True, False, True])), "where"),
        (lambda x: np.add(x, x, dtype="int8"), r"numpy\.add: cannot cast float64 to dtype int8"),
        (lambda x: np.isnat(x), r"numpy\.isnat: not available.*to_numpy"),
        (lambda x: np.common_type(x), r"numpy\.common_type: not available.*to_numpy"),
        (lambda x: np.concatenate([x, np.ones(3)]), r"concatenate: arrays\[1\].*from_numpy"),
        (lambda x: np.add("a", x), "add"),
    ],
)
def test_numpy_refuses(call: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        call(gp.ones(3, "float64"))


def test_other_libraries_get_their_chance() -> None:
    class Theirs:
        __array_priority__ = 0

        def __array_ufunc__(self, *args: Any, **kwargs: Any) -> str:
            return "theirs"

        def __array_function__(self, *args: Any) -> str:
            return "theirs too"

    assert np.add(gp.ones(3), Theirs()) == "theirs"
    assert np.concatenate([gp.ones(3), Theirs()]) == "theirs too"  # type: ignore[list-item]


def test_arguments_of_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []

    def total(
        x: Any, /, *, axis: Any = None, dtype: Any = None, keepdims: bool = False, out: Any = None
    ) -> str:
        calls.append((axis, dtype, keepdims))
        return "sum"

    def pick(condition: Any, x1: Any, x2: Any, /) -> str:
        calls.append((x1, x2))
        return "where"

    def bound(x: Any, /, min: Any = None, max: Any = None, *, out: Any = None) -> str:
        calls.append((min, max))
        return "clip"

    def join(arrays: Any, /, *, axis: Any = 0) -> str:
        calls.append(axis)
        return "concat"

    def spread(x: Any, /, *, axis: Any = None, correction: float = 0.0) -> str:
        calls.append((axis, correction))
        return "std"

    def order(x: Any, /, *, axis: int = -1, descending: bool = False) -> str:
        calls.append(axis)
        return "sort"

    functions = {"sum": total, "where": pick, "clip": bound, "concatenate": join, "std": spread}
    for name, function in {**functions, "sort": order}.items():  # whatever the package has there
        monkeypatch.setitem(vars(gp), name, function)
    x = gp.ones((2, 3))
    assert np.sum(x) == np.sum(x, 1) == np.sum(x, axis=(0, 1), keepdims=True) == "sum"  # type: ignore[call-overload]
    assert np.add.reduce(x) == np.add.reduce(x, axis=None) == np.add.reduce(x, 1) == "sum"  # type: ignore[call-overload]
    assert calls == [
        (None, None, False),
        (1, None, False),
        ((0, 1), None, True),
        (0, None, False),
        (None, None, False),
        (1, None, False),
    ]
    calls.clear()
    assert np.where(x, 1, 2) == "where"  # type: ignore[call-overload]
    assert np.clip(x, 0, 5) == "clip"  # type: ignore[call-overload]
    assert np.clip(x, a_min=0, a_max=None) == "clip"  # type: ignore[call-overload]
    assert np.concatenate([x, x], axis=1) == np.concatenate((x, x)) == "concat"  # type: ignore[call-overload]
    assert np.std(x, 1, ddof=1) == "std"  # type: ignore[call-overload]
    assert np.sort(x, 0, kind="stable") == "sort"  # type: ignore[call-overload]
    assert calls == [(1, 2), (0, 5), (0, None), 1, 0, (1, 1), 0]


def test_facts_need_no_function_of_ours() -> None:
    x = gp.ones((2, 3))
    assert (np.shape(x), np.ndim(x), np.size(x), np.size(x, 1)) == ((2, 3), 2, 6, 3)  # type: ignore[arg-type]
    assert np.array_repr(x) == repr(x)  # type: ignore[arg-type]
    assert np.array_str(x) == str(x)  # type: ignore[arg-type]
    assert not np.iscomplexobj(x)


# --- values, copies, pickling ---------------------------------------------------------------------


def test_item_and_tolist() -> None:
    host = np.arange(6, dtype=np.int16).reshape(2, 3)
    x = gp.from_numpy(host)
    assert x.tolist() == host.tolist()
    for args in ((4,), (-1,), (1, 2), (-2, -3), ((1, 0),), ((5,),)):
        value = x.item(*args)
        assert type(value) is int
        assert value == host.item(*args)  # type: ignore[call-overload]
    strided = gp.from_dlpack(host[::-1, ::2])
    assert [strided.item(i) for i in range(4)] == host[::-1, ::2].ravel().tolist()
    for dtype, kind in [("bool", bool), ("float16", float), ("complex64", complex)]:
        assert type(gp.ones((1, 1), dtype).item()) is kind
    for dtype, kind in [("bfloat16", float), ("float8_e5m2", float), ("int4", int)]:
        one = gp.from_numpy(np.ones((2, 3)).astype(getattr(ml_dtypes, dtype)))
        assert one.item(1, 2) == 1
        assert type(one.item(4)) is kind
        assert one.tolist() == [[1] * 3] * 2
        assert type(one.tolist()[0][0]) is kind
    assert gp.zeros((2, 0)).tolist() == [[], []]


@pytest.mark.parametrize(
    ("args", "error"),
    [((), ValueError), ((6,), IndexError), ((-7,), IndexError), ((2, 0), IndexError),
     ((0, 0, 0), ValueError), ((1.0,), TypeError)],
)  # fmt: skip
def test_item_refuses(args: Any, error: type[Exception]) -> None:
    for array in (gp.zeros((2, 3)), np.zeros((2, 3))):
        with pytest.raises(error):
            array.item(*args)  # type: ignore[attr-defined]


def test_copies() -> None:
    x = gp.from_dlpack(np.arange(6.0).reshape(2, 3)[:, ::-1])
    for y in (copy.copy(x), copy.deepcopy(x), copy.deepcopy([x])[0]):
        assert y.tolist() == x.tolist()
        assert y.is_contiguous()
        gp.add(y, 1.0, out=y)
        assert y.tolist() != x.tolist()
    nibbles = gp.from_numpy(np.array([1, 2, 3], ml_dtypes.int4))
    assert copy.copy(nibbles).tolist() == [1, 2, 3]


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("dtype", ["bool", "float32", "complex128", "bfloat16", "int4"])
@pytest.mark.parametrize("shape", [(), (0, 3), (5,), (2, 3)], ids=str)
def test_pickle(protocol: int, dtype: str, shape: tuple[int, ...]) -> None:
    host = (
        (np.arange(int(np.prod(shape))) % 3).reshape(shape).astype(getattr(ml_dtypes, dtype, dtype))
    )
    x = gp.from_numpy(host)
    y = pickle.loads(pickle.dumps(x, protocol))
    assert isinstance(y, gp.GPUArray)
    assert (y.shape, y.dtype, y.device) == (x.shape, x.dtype, x.device)
    assert y.to_numpy().tobytes() == host.tobytes()


def test_pickle_out_of_band() -> None:
    x = gp.from_numpy(np.arange(1000.0))
    buffers: list[Any] = []
    stream = pickle.dumps(x, 5, buffer_callback=buffers.append)
    assert len(stream) < 300
    assert [b.raw().nbytes for b in buffers] == [8000]
    for form in (buffers, [bytes(b.raw()) for b in buffers]):
        assert pickle.loads(stream, buffers=form).tolist() == x.tolist()
    file = io.BytesIO()
    np.save(file, x.to_numpy())


def test_a_pickle_of_a_gpu_that_is_not_here() -> None:
    from pygpukit.core.array_protocols import rebuild

    x = rebuild(b"\1\2", (2,), "uint8", "cuda:63")
    assert (x.device, x.tolist()) == ("cpu", [1, 2])


def test_sizeof() -> None:
    assert sys.getsizeof(gp.zeros(1000)) >= 4000
    assert sys.getsizeof(gp.zeros(0)) < 1000


# --- a GPU that is not there ----------------------------------------------------------------------

FAKE_PROGRAM = """
import sys
import numpy as np, pygpukit as gp, pickle
from pygpukit import _native
x = gp.from_numpy(np.arange(6, dtype=np.float32).reshape(2, 3))
face = x.__cuda_array_interface__
assert face == {"shape": (2, 3), "typestr": "<f4", "data": (x.device_ptr, False), "strides": None,
                "version": 3, "stream": 1}, face
stream = gp.Stream()
with stream:
    assert x.__cuda_array_interface__["stream"] == stream.handle
    y = gp.from_cuda_array_interface(x)
assert (y.device_ptr, y.shape, y.device) == (x.device_ptr, (2, 3), "cuda:0")
assert gp.zeros((0, 2)).__cuda_array_interface__["data"] == (0, False)
for dtype in ("bfloat16", "float8_e5m2", "int4"):
    try:
        gp.zeros(4, dtype).__cuda_array_interface__
        raise SystemExit("no error")
    except AttributeError as error:
        assert dtype in str(error) and "DLPack" in str(error)
class Strided:
    __cuda_array_interface__ = {**face, "shape": (2,), "strides": (12,), "stream": None,
                                "data": (face["data"][0], True)}
z = gp.from_cuda_array_interface(Strided())
assert (z.shape, z.strides) == ((2,), (12,))
assert z.__cuda_array_interface__["data"][1] is True
try:
    z.__dlpack__()
    raise SystemExit("no error")
except BufferError:
    z.__dlpack__(max_version=(1, 0))
for change, error in [({"stream": 0}, ValueError), ({"typestr": ">f4"}, TypeError),
                      ({"typestr": "<f12"}, TypeError), ({"mask": x}, BufferError),
                      ({"strides": (3, 1)}, BufferError), ({"data": (8, False)}, BufferError)]:
    class Bad:
        __cuda_array_interface__ = {**face, **change}
    try:
        gp.from_cuda_array_interface(Bad())
        raise SystemExit(f"no error for {change}")
    except error:
        pass
assert x.__dlpack_device__() == (2, 0)
for options, error in [({"stream": 0}, ValueError), ({"stream": -2}, ValueError),
                       ({"dl_device": (1, 0), "copy": False}, BufferError),
                       ({"dl_device": (2, 5)}, BufferError)]:
    try:
        x.__dlpack__(**options)
        raise SystemExit(f"no error for {options}")
    except error:
        pass
for number in (None, 1, 2, -1, stream.handle):
    x.__dlpack__(stream=number)
host = np.from_dlpack(x, device="cpu")
assert host.tolist() == [[0, 1, 2], [3, 4, 5]]
class Seen:
    __dlpack_device__ = x.__dlpack_device__
    def __dlpack__(self, **options):
        self.options = options
        return x.__dlpack__(**options)
seen = Seen()
assert gp.from_dlpack(seen).device_ptr == x.device_ptr
assert seen.options["stream"] == 1
with stream:
    gp.from_dlpack(seen)
assert seen.options["stream"] == stream.handle
assert gp.from_dlpack(x, device="cpu").device == "cpu"
assert gp.from_dlpack(np.ones(3), device="cuda:0").device == "cuda:0"
assert pickle.loads(pickle.dumps(x)).device == "cuda:0"
out = gp.pinned_empty((2, 3))
assert x.to_numpy(out=out, stream=stream, blocking=False) is out
stream.synchronize()
assert out.tolist() == [[0, 1, 2], [3, 4, 5]]
try:
    x.to_numpy(out=np.empty((2, 3), np.float32), blocking=False)
    raise SystemExit("no error")
except ValueError as error:
    assert "pinned" in str(error)
big = np.arange(12, dtype=np.float32).reshape(3, 4)
assert gp.from_numpy(big.T).to_numpy().tolist() == big.T.tolist()
assert "device='cuda:0'" in repr(x)
assert sys.getsizeof(gp.zeros(1000)) < 1000
with gp.CudaGraph():
    gp.mul(x, 2.0, out=x)
    assert repr(x) == "GPUArray(shape=(2, 3), dtype=float32, device='cuda:0')"
print("ok")
"""


def test_cuda_on_the_fake_driver(run_python: Any, fake_driver: str) -> None:
    if not _native.nvrtc_info()["available"]:
        pytest.skip("NVRTC is not installed")
    done = run_python(FAKE_PROGRAM, PYGPUKIT_CUDA_DRIVER=fake_driver, PYGPUKIT_DEVICE="cuda")
    assert (done.stdout, done.returncode) == ("ok\n", 0), done.stderr

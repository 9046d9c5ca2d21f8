"""SafeTensors on CPU simulation: headers, loading, writing, the names of 0.2."""

from __future__ import annotations

import json
import os
import re
import struct
import tempfile
import threading
from pathlib import Path
from typing import Any

import hypothesis
import ml_dtypes
import numpy as np
import pytest
import safetensors
import safetensors.numpy
from hypothesis import strategies as st

import pygpukit as gp

MODEL = Path(__file__).resolve().parents[1] / "data" / "tiny-qwen3-1m" / "model.safetensors"


# Stored type, NumPy type, the name that 0.2 has for it.
TYPES: dict[str, tuple[Any, str]] = {
    "BOOL": (np.bool_, "bool"),
    "U8": (np.uint8, "uint8"),
    "I8": (np.int8, "int8"),
    "U16": (np.uint16, "uint16"),
    "I16": (np.int16, "int16"),
    "U32": (np.uint32, "uint32"),
    "I32": (np.int32, "int32"),
    "U64": (np.uint64, "uint64"),
    "I64": (np.int64, "int64"),
    "F16": (np.float16, "float16"),
    "BF16": (ml_dtypes.bfloat16, "bfloat16"),
    "F32": (np.float32, "float32"),
    "F64": (np.float64, "float64"),
    "C64": (np.complex64, "complex64"),
    "F8_E4M3": (ml_dtypes.float8_e4m3fn, "float8_e4m3"),
    "F8_E5M2": (ml_dtypes.float8_e5m2, "float8_e5m2"),
}


def write(path: Path, header: Any, data: bytes = b"") -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def entry(dtype: str, shape: list[int], begin: int, end: int) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def values(dtype: Any, shape: tuple[int, ...], seed: int = 0) -> Any:
    """Every finite value that small numbers have in the dtype."""
    rng = np.random.default_rng(seed)
    if dtype is np.bool_:
        return rng.integers(0, 2, shape).astype(dtype)
    return rng.integers(0, 100, shape).astype(np.float64).astype(dtype)


# --- inspection ---------------------------------------------------------------------------------
def test_a_real_model_as_the_safetensors_package_reads_it() -> None:
    ours = gp.llm.load_safetensors(MODEL)
    assert isinstance(ours, gp.llm.SafeTensorsFile)
    assert ours.file_size == MODEL.stat().st_size
    with safetensors.safe_open(MODEL, "np") as theirs:
        assert sorted(ours.tensor_names) == sorted(theirs.keys())
        assert ours.metadata == theirs.metadata()
        arrays = ours.load()
        for name in theirs.keys():  # noqa: SIM118
            want = theirs.get_tensor(name)
            info = ours.tensor_info(name)
            assert info.shape == list(want.shape)
            assert info.dtype == gp.llm.Dtype.BFloat16
            assert ours.tensor_bytes(name) == want.tobytes()
            assert arrays[name].dtype == gp.bfloat16
            np.testing.assert_array_equal(arrays[name].to_numpy(), want)


@pytest.mark.parametrize("stored", TYPES)
def test_every_dtype(stored: str, tmp_path: Path) -> None:
    dtype, name = TYPES[stored]
    want = values(dtype, (3, 4))
    path = write(tmp_path / "x", {"x": entry(stored, [3, 4], 0, want.nbytes)}, want.tobytes())
    weights = gp.llm.SafeTensorsFile(path)
    info = weights.tensor_info("x")
    assert (info.dtype_name, info.stored_type, info.numel) == (name, stored, 12)
    assert gp.llm.Dtype.name(info.dtype) == name
    assert gp.llm.Dtype.element_size(info.dtype) == want.itemsize
    assert info.offset + info.size_bytes == path.stat().st_size
    got = weights.tensor("x").to_numpy()
    assert got.dtype == want.dtype
    assert got.tobytes() == want.tobytes()


def test_empty_and_0d_tensors(tmp_path: Path) -> None:
    header = {
        "e": entry("F32", [0, 3], 0, 0),
        "s": entry("F32", [], 0, 4),
        "t": entry("BF16", [2, 0], 4, 4),
    }
    weights = gp.llm.SafeTensorsFile(write(tmp_path / "x", header, struct.pack("<f", 2.5)))
    arrays = weights.load(dtype="float32")
    assert {name: (x.shape, str(x.dtype)) for name, x in arrays.items()} == {
        "e": ((0, 3), "float32"),
        "s": ((), "float32"),
        "t": ((2, 0), "float32"),
    }
    assert arrays["s"].item() == 2.5


def test_types_that_cannot_be_loaded_are_inspected(tmp_path: Path) -> None:
    header = {"a": entry("F8_E8M0", [4], 0, 4), "b": entry("NEW", [3], 4, 9)}
    weights = gp.llm.SafeTensorsFile(write(tmp_path / "x", header, bytes(9)))
    assert weights.tensor_info("a").dtype == gp.llm.Dtype.Unknown
    assert weights.tensor_info("a").dtype_name == "F8_E8M0"
    assert weights.tensor_info("b").size_bytes == 5
    assert gp.llm.Dtype.name(-1) == "unknown"
    assert gp.llm.Dtype.element_size(-1) == 0
    for name, stored in (("a", "F8_E8M0"), ("b", "NEW")):
        with pytest.raises(ValueError, match=f"tensor '{name}' has dtype '{stored}', which cannot"):
            weights.tensor(name)


def test_names_of_0_2(tmp_path: Path) -> None:
    want = values(np.float32, (2, 3))
    path = tmp_path / "x.safetensors"
    safetensors.numpy.save_file({"x": want, "i": values(np.int32, (2,))}, path)
    weights = gp.llm.load_safetensors(str(path))
    assert len(weights) == weights.num_tensors == 2
    assert "x" in weights
    assert "y" not in weights
    assert 3 not in weights
    assert sorted(weights) == ["i", "x"]
    np.testing.assert_array_equal(weights.tensor_as_f32("x"), want.ravel())
    with pytest.raises(ValueError, match="'i' has dtype int32, expected float32"):
        weights.tensor_as_f32("i")
    address, size = weights.tensor_data_ptr("x")
    assert size == want.nbytes
    import ctypes

    assert ctypes.string_at(address, size) == want.tobytes()
    for read in ("tensor_info", "tensor_bytes", "tensor_data_ptr", "tensor_as_f32", "tensor"):
        with pytest.raises(KeyError, match="has no tensor 'y'"):
            getattr(weights, read)("y")
    assert "2 tensors" in repr(weights)


def test_the_module_of_0_2() -> None:
    import _pygpukit_rust

    assert _pygpukit_rust.SafeTensorsFile is gp.llm.SafeTensorsFile
    assert _pygpukit_rust.llm.LazyModelLoader is gp.llm.LazyModelLoader
    assert _pygpukit_rust.llm.load_safetensors is gp.llm.load_safetensors


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        gp.llm.SafeTensorsFile(tmp_path / "missing")
    assert caught.value.filename == str(tmp_path / "missing")
    with pytest.raises(IsADirectoryError):
        gp.llm.SafeTensorsFile(tmp_path)
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "fifo")
        with pytest.raises(ValueError, match="not a regular file"):
            gp.llm.SafeTensorsFile(tmp_path / "fifo")


# Header, bytes of data, what the message says. More of them are in tests/native.
MUST_RAISE: list[tuple[Any, int, str]] = [
    (b"", 0, "does not begin with"),
    (b"[]", 0, "does not begin with"),
    (b"{", 0, "line 1, column 2"),
    (b'{"a":{},"a":{}}', 0, "occurs twice"),
    ({"a": entry("F32", [2], 0, 4)}, 4, "'a' of shape .2,. and dtype F32 has 4 bytes, expected 8"),
    ({"a": entry("F32", [1], 0, 4)}, 5, "the tensors end at"),
    ({"a": entry("F32", [1], 4, 8)}, 8, "there is a hole"),
    ({"a": entry("U8", [2], 0, 2), "b": entry("U8", [2], 1, 3)}, 3, "it overlaps another"),
    ({"a": entry("F32", [2**62, 4], 0, 4)}, 4, "more than 2..63 - 1 elements"),
    ({"a": entry("F32", [1], 2**64 - 4, 2**64 - 1)}, 4, "expected an increasing pair"),
    ({"__metadata__": {"a": 1}}, 0, "__metadata__ has an integer for 'a'"),
]


@pytest.mark.parametrize(("header", "size", "message"), MUST_RAISE)
def test_bad_headers(header: Any, size: int, message: str, tmp_path: Path) -> None:
    path = write(tmp_path / "bad.safetensors", header, bytes(size))
    with pytest.raises(ValueError, match=message) as caught:
        gp.llm.SafeTensorsFile(path)
    assert str(path) in str(caught.value)


def test_headers_that_lie_about_their_length(tmp_path: Path) -> None:
    path = tmp_path / "x"
    for length, message in ((100_000_001, "at most 100000000"), (3, "at most 2, what the file")):
        path.write_bytes(struct.pack("<Q", length) + b"{}")
        with pytest.raises(ValueError, match=message):
            gp.llm.SafeTensorsFile(path)
    path.write_bytes(b"1234")
    with pytest.raises(ValueError, match="the file has 4 bytes, expected at least 8"):
        gp.llm.SafeTensorsFile(path)


GOOD = (
    b'{"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},'
    b'"v":{"dtype":"BF16","shape":[4],"data_offsets":[24,32]}}'
)


TOKENS = [b"0", b"1", b"2", b"9", b"-1", b"[", b"]", b",", b" ", b'"', b"F", b""]


@hypothesis.given(st.data())
@hypothesis.settings(max_examples=300, deadline=None)
def test_mutated_headers_agree_with_the_safetensors_package(data: st.DataObject) -> None:
    """What we accept it accepts too, with the same shapes and bytes."""
    header = bytearray(GOOD)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(header) - 1))
        header[at : at + data.draw(st.integers(0, 2))] = data.draw(st.sampled_from(TOKENS))
    raw = struct.pack("<Q", len(header)) + bytes(header) + bytes(range(32))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x"
        path.write_bytes(raw)
        try:
            ours = gp.llm.SafeTensorsFile(path)
        except ValueError:
            return
        if any(ours.tensor_info(name).dtype == gp.llm.Dtype.Unknown for name in ours):
            return  # it refuses the file, we the tensor
        theirs = dict(safetensors.deserialize(raw))
        assert sorted(ours.tensor_names) == sorted(theirs)
        for name, view in theirs.items():
            assert ours.tensor_info(name).shape == list(view["shape"])
            assert ours.tensor_bytes(name) == bytes(view["data"])


# --- loading ------------------------------------------------------------------------------------
def test_arrays_are_read_only_views_of_one_block() -> None:
    arrays = gp.llm.SafeTensorsFile(MODEL).load()
    addresses = sorted(x.device_ptr for x in arrays.values())
    assert addresses[-1] - addresses[0] < 4 << 20
    assert all(address % 256 == addresses[0] % 256 for address in addresses)
    name, x = next(iter(arrays.items()))
    assert gp.memory.is_frozen(x)
    with pytest.raises(ValueError, match="read-only"):
        x[...] = 0
    with pytest.raises(ValueError, match="read-only"):
        gp.add(x, x, out=x)
    assert (x + x).shape == x.shape
    kept = x.to_numpy()
    del arrays
    np.testing.assert_array_equal(x.to_numpy(), kept, name)


def test_conversion_leaves_integers_and_quantised_values(tmp_path: Path) -> None:
    dtypes = {name: np.dtype(dtype) for name, (dtype, _) in TYPES.items()}
    tensors = {name: values(dtype.type, (5, 3), 7) for name, dtype in dtypes.items()}
    header: dict[str, Any] = {}
    data = b""
    for name, x in tensors.items():
        header[name] = entry(name, [5, 3], len(data), len(data) + x.nbytes)
        data += x.tobytes()
    weights = gp.llm.SafeTensorsFile(write(tmp_path / "x", header, data))
    for target in ("float32", "bfloat16", "float16", "float64"):
        for name, x in weights.load(dtype=target).items():
            converts = name in ("F16", "BF16", "F32", "F64")
            wanted = gp.DataType.from_string(target).to_numpy_dtype()
            want = tensors[name].astype(wanted) if converts else tensors[name]
            assert x.to_numpy().dtype == want.dtype
            np.testing.assert_array_equal(x.to_numpy(), want)
    with pytest.raises(ValueError, match="dtype is int32, expected float16, bfloat16"):
        weights.load(dtype="int32")


def test_conversion_across_windows(tmp_path: Path) -> None:
    """Tensors larger than a window, odd sizes, a misaligned file."""
    big = np.arange(5_000_001, dtype=np.uint32).astype(np.float32)
    tensors = {"a": values(np.float32, (3,)), "big": big, "z": values(np.float32, (1001,))}
    header = {"byte": entry("U8", [1], 0, 1)}
    data = b"\x07"
    for name, x in tensors.items():
        header[name] = entry("F32", [x.size], len(data), len(data) + x.nbytes)
        data += x.tobytes()
    weights = gp.llm.SafeTensorsFile(write(tmp_path / "x", header, data))
    for dtype in (None, "float64"):
        arrays = weights.load(dtype=dtype)
        assert arrays["byte"].item() == 7
        for name, x in tensors.items():
            np.testing.assert_array_equal(arrays[name].to_numpy(), x, name)


def test_some_names_in_the_order_given() -> None:
    weights = gp.llm.SafeTensorsFile(MODEL)
    names = weights.tensor_names[5:2:-1]
    assert list(weights.load(names)) == names
    assert weights.load([]) == {}


def test_progress(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[tuple[int, int]] = []
    weights = gp.llm.SafeTensorsFile(MODEL)
    weights.load(progress=lambda done, total: seen.append((done, total)))
    assert seen[0][0] == 0
    assert seen[-1][0] == seen[-1][1] > 2_000_000
    weights.load(progress=True)
    assert "100 %" in capsys.readouterr().err

    def stop(done: int, total: int) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        weights.load(progress=stop)
    with pytest.raises(TypeError, match="load: progress is int 5, expected a function"):
        weights.load(progress=5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="load: names is str 'lm_head', expected a list"):
        weights.load("lm_head")
    with pytest.raises(TypeError, match="check_names: expected is int 3, expected a list of names"):
        weights.check_names(3)  # type: ignore[arg-type]


def test_more_than_the_limit_by_eviction(run_python: Any) -> None:
    code = f"""
import pygpukit as gp
weights = gp.llm.SafeTensorsFile({str(MODEL)!r})
whole = {{name: x.to_numpy() for name, x in weights.load(dtype="float32", device="cpu").items()}}
gp.memory.trim()
gp.memory.set_limit("8MiB")
floor = sum(x.nbytes for x in whole.values())
try:
    kept = [weights.load(dtype="float64", device="cpu") for _ in range(2)]
except gp.OutOfMemory:
    pass
else:
    raise SystemExit("the limit did not hold")
arrays = [weights.load(dtype="float64", evictable=True, block_bytes=1 << 20, device="cpu")]
assert gp.memory.stats()["evictions"] > 0, gp.memory.stats()
for name, x in arrays[0].items():
    assert (x.to_numpy() == whole[name]).all(), name
"""
    done = run_python(code, PYGPUKIT_DEVICE="cpu")
    assert done.returncode == 0, done.stderr


def test_threads_share_a_file() -> None:
    weights = gp.llm.SafeTensorsFile(MODEL)
    want = weights.load()
    wrong: list[str] = []

    def work() -> None:
        for name, x in weights.load(dtype="float32").items():
            if not (x.to_numpy() == want[name].to_numpy().astype(np.float32)).all():
                wrong.append(name)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


# --- writing ------------------------------------------------------------------------------------
def test_written_files_are_read_by_the_safetensors_package(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    tensors = {name: values(dtype, (3, 2), 5) for name, (dtype, _) in TYPES.items()}
    tensors["strided"] = np.arange(12, dtype=np.float32).reshape(3, 4)
    arrays: dict[str, Any] = {name: gp.from_numpy(x) for name, x in tensors.items()}
    arrays["strided"] = arrays["strided"].T
    tensors["strided"] = tensors["strided"].T
    arrays["scalar"] = 2.5
    arrays["host"] = np.arange(3)
    gp.llm.save_safetensors(path, arrays, metadata={"key": "caf\u00e9 \u20ac"})
    with safetensors.safe_open(path, "np") as theirs:
        assert theirs.metadata() == {"key": "caf\u00e9 \u20ac"}
        for name, want in tensors.items():
            if not name.startswith(("F8", "C64")):  # not known to every version's NumPy side
                np.testing.assert_array_equal(theirs.get_tensor(name), want, name)
        assert theirs.get_tensor("host").tolist() == [0, 1, 2]
    ours = gp.llm.load_safetensors(path)
    for name, want in tensors.items():
        assert ours.tensor_bytes(name) == np.ascontiguousarray(want).tobytes()
    assert ours.tensor("scalar").item() == 2.5
    raw = path.read_bytes()
    assert struct.unpack("<Q", raw[:8])[0] % 8 == 0
    assert [p.name for p in tmp_path.iterdir()] == ["x.safetensors"]


def test_saving_over_a_file_in_use(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    gp.llm.save_safetensors(path, {"a": gp.ones(1000)})
    weights = gp.llm.SafeTensorsFile(path)
    gp.llm.save_safetensors(path, {"a": gp.zeros(10)})
    assert weights.tensor("a").sum().item() == 1000
    assert gp.llm.SafeTensorsFile(path).tensor("a").shape == (10,)


@pytest.mark.parametrize(
    ("tensors", "metadata", "says"),
    [
        ([("a", 1)], None, "tensors is of type list, expected a dict"),
        ({5: [1]}, None, "a key of tensors is of type int, expected str"),
        ({"\ud800": [1]}, None, "a key of tensors has surrogates"),
        ({"a": [1]}, "x", "metadata is of type str, expected a dict"),
        ({"a": [1]}, {5: "a"}, "a key of metadata is of type int, expected str"),
        ({"a": [1]}, {"step": 5}, "the value of metadata['step'] is of type int, expected str"),
        ({"a": [1]}, {"a": "\ud800"}, "the value of metadata['a'] has surrogates"),
    ],
)
def test_names_and_metadata_are_texts(
    tensors: Any, metadata: Any, says: str, tmp_path: Path
) -> None:
    with pytest.raises((TypeError, ValueError), match=re.escape(f"save_safetensors: {says}")):
        gp.llm.save_safetensors(tmp_path / "x.safetensors", tensors, metadata)
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_saved(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    with pytest.raises(ValueError, match="'a' has dtype complex128"):
        gp.llm.save_safetensors(path, {"a": gp.ones(3, dtype="complex128")})
    with pytest.raises(ValueError, match="'__metadata__', which is reserved"):
        gp.llm.save_safetensors(path, {"__metadata__": gp.ones(3)})
    with pytest.raises(FileNotFoundError):
        gp.llm.save_safetensors(tmp_path / "no" / "x", {"a": gp.ones(3)})
    assert list(tmp_path.iterdir()) == []

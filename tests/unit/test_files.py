"""save, load, savez: NumPy's files both ways, and files that lie."""

from __future__ import annotations

import io
import os
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pygpukit as gp

DTYPES = ["bool", "int8", "uint16", "int32", "int64", "uint64", "float16", "float32", "float64",
          "complex64", "complex128"]  # fmt: skip


def sample(dtype: str, shape: tuple[int, ...] = (3, 5)) -> Any:
    rng = np.random.default_rng(1)
    return (rng.normal(size=shape) * 50).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_files_of_numpy_and_for_numpy(dtype: str, tmp_path: Path) -> None:
    for number, host in enumerate(
        (sample(dtype), sample(dtype, ()), sample(dtype, (0, 4)), sample(dtype, (7,)))
    ):
        path = tmp_path / f"{number}.npy"
        np.save(path, host)
        got = gp.load(path).to_numpy()
        assert (got.shape, got.dtype) == (host.shape, host.dtype)
        np.testing.assert_array_equal(got, host)
        gp.save(path, gp.from_numpy(host))
        back = np.load(path)
        assert (back.shape, back.dtype) == (host.shape, host.dtype)
        np.testing.assert_array_equal(back, host)


def test_views_suffixes_and_file_objects(tmp_path: Path) -> None:
    x = gp.from_numpy(sample("float32", (6, 8)))
    gp.save(str(tmp_path / "a"), x[::2, ::-1].T)
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), x.to_numpy()[::2, ::-1].T)
    buffer = io.BytesIO()
    gp.save(buffer, x)
    gp.save(buffer, [1, 2, 3])
    buffer.seek(0)
    np.testing.assert_array_equal(gp.load(buffer).to_numpy(), x.to_numpy())
    assert gp.load(buffer).tolist() == [1, 2, 3]


def test_fortran_order_and_byte_order(tmp_path: Path) -> None:
    host = sample("float64", (4, 6))
    np.save(tmp_path / "f.npy", np.asfortranarray(host))
    np.testing.assert_array_equal(gp.load(tmp_path / "f.npy").to_numpy(), host)
    np.save(tmp_path / "b.npy", host.astype(">f8"))
    got = gp.load(tmp_path / "b.npy")
    assert got.dtype == gp.float64
    np.testing.assert_array_equal(got.to_numpy(), host)


@pytest.mark.parametrize("write", ["savez", "savez_compressed"])
def test_archives(write: str, tmp_path: Path) -> None:
    x, y = sample("float32"), sample("int64", (20,))
    getattr(gp, write)(tmp_path / "a", gp.from_numpy(x), name=gp.from_numpy(y))
    with np.load(tmp_path / "a.npz") as theirs:
        np.testing.assert_array_equal(theirs["arr_0"], x)
        np.testing.assert_array_equal(theirs["name"], y)
    getattr(np, write)(tmp_path / "b.npz", x, name=y)
    with gp.load(tmp_path / "b.npz") as ours:
        assert sorted(ours.files) == sorted(ours) == ["arr_0", "name"]
        assert len(ours) == 2
        assert "name" in ours
        np.testing.assert_array_equal(ours["arr_0"].to_numpy(), x)
        np.testing.assert_array_equal(ours["name.npy"].to_numpy(), y)
        with pytest.raises(KeyError):
            ours["nothing"]
    with pytest.raises(ValueError, match="savez: cannot use un-named"):
        gp.savez(tmp_path / "c", x, arr_0=y)


def npy(header: str, data: bytes = b"", version: tuple[int, int] = (1, 0)) -> bytes:
    text = header.encode("latin1")
    size = struct.pack("<H" if version == (1, 0) else "<I", len(text))
    return b"\x93NUMPY" + bytes(version) + size + text + data


HEADER = "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }\n"
GOOD = npy(HEADER, bytes(12))

HOSTILE: dict[str, tuple[bytes, type[Exception]]] = {
    "empty": (b"", ValueError),
    "garbage": (b"this is not an array at all", ValueError),
    "magic only": (GOOD[:6], ValueError),
    "no header length": (GOOD[:9], ValueError),
    "header cut": (GOOD[:30], ValueError),
    "data cut": (GOOD[:-1], ValueError),
    "no data": (npy(HEADER), ValueError),
    "too much data": (GOOD + b"x", ValueError),
    "version": (npy(HEADER, bytes(12), (9, 9)), ValueError),
    "huge shape": (npy(HEADER.replace("(3,)", f"({2**61},)"), bytes(12)), ValueError),
    "overflowing shape": (npy(HEADER.replace("(3,)", f"({2**40}, {2**40})")), ValueError),
    "negative shape": (npy(HEADER.replace("(3,)", "(-3,)"), bytes(12)), ValueError),
    "shape of floats": (npy(HEADER.replace("(3,)", "(3.5,)"), bytes(12)), ValueError),
    "shape is text": (npy(HEADER.replace("(3,)", "'abc'"), bytes(12)), ValueError),
    "objects": (npy(HEADER.replace("<f4", "|O"), bytes(24)), ValueError),
    "no such dtype": (npy(HEADER.replace("<f4", "<q9"), bytes(12)), ValueError),
    "text dtype": (npy(HEADER.replace("<f4", "<U3"), bytes(36)), TypeError),
    "dates": (npy(HEADER.replace("<f4", "<M8[s]"), bytes(24)), TypeError),
    "long double": (npy(HEADER.replace("<f4", "<f16"), bytes(48)), TypeError),
    "fields": (npy(HEADER.replace("'<f4'", "[('a', '<f4')]"), bytes(12)), TypeError),
    "code": (npy("__import__('os').system('touch /tmp/pwned')\n"), ValueError),
    "nested": (npy("(" * 3000 + "\n"), ValueError),
    "no keys": (npy("{}\n", bytes(12)), ValueError),
    "long header": (npy(HEADER + " " * 20_000, bytes(12), (2, 0)), ValueError),
    "header length lies": (b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**31) + b"x", ValueError),
}  # fmt: skip


@pytest.mark.parametrize("way", ["path", "stream"])
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files(name: str, way: str, tmp_path: Path) -> None:
    content, error = HOSTILE[name]
    if way == "stream" and name == "too much data":
        assert gp.load(io.BytesIO(content)).shape == (3,)  # what follows is the next array's
        return
    path = tmp_path / "x.npy"
    path.write_bytes(content)
    with pytest.raises(error, match=r"^load: "):
        gp.load(path if way == "path" else io.BytesIO(content))
    assert not os.path.exists("/tmp/pwned")


def test_every_truncation_and_flipped_bytes(tmp_path: Path) -> None:
    """No prefix of a good file loads, and no changed byte of its header crashes."""
    for end in range(len(GOOD)):
        with pytest.raises(ValueError, match="load: "):
            gp.load(io.BytesIO(GOOD[:end]))
    for place in range(len(GOOD) - 12):
        changed = bytearray(GOOD)
        changed[place] ^= 0x41
        path = tmp_path / "x.npy"
        path.write_bytes(changed)
        message = "load: "
        try:
            assert gp.load(path).size <= 12
        except (ValueError, TypeError) as error:
            message = str(error)
        assert message.startswith("load: ")


def archive(members: list[tuple[str, bytes]]) -> io.BytesIO:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name, content in members:
            file.writestr(name, content)
    buffer.seek(0)
    return buffer


def test_hostile_archives(tmp_path: Path) -> None:
    for content, error in HOSTILE.values():
        with pytest.raises(error, match="load: "):
            gp.load(archive([("x.npy", content)]))["x"]
    with pytest.warns(UserWarning, match="Duplicate"), pytest.raises(ValueError, match="one name"):
        gp.load(archive([("x.npy", GOOD), ("x.npy", GOOD)]))
    whole = archive([("x.npy", GOOD)]).getvalue()
    with pytest.raises(ValueError, match=r"not a \.npz"):
        gp.load(io.BytesIO(whole[:-10]))
    wrong = bytearray(whole)
    wrong[whole.index(bytes(12))] = 1  # the checksum does not match
    with pytest.raises(ValueError, match="load: x"):
        gp.load(io.BytesIO(bytes(wrong)))["x"]
    assert list(gp.load(archive([]))) == []


def test_dtypes_without_a_file_format(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"save: .*bfloat16"):
        gp.save(tmp_path / "x", gp.ones(3, "bfloat16"))
    with pytest.raises(TypeError, match="savez: "):
        gp.savez(tmp_path / "x", gp.ones(3).astype("float8_e4m3fn"))
    with pytest.raises(TypeError, match="save: "):
        gp.save(tmp_path / "x", np.array([{}]))
    with pytest.raises(FileNotFoundError):
        gp.load(tmp_path / "missing.npy")


def test_text_and_bytes(tmp_path: Path) -> None:
    host = np.arange(6.0).reshape(2, 3) / 3
    gp.savetxt(tmp_path / "x.txt", gp.from_numpy(host), delimiter=",", header="a b")
    np.testing.assert_array_equal(np.loadtxt(tmp_path / "x.txt", delimiter=","), host)
    got = gp.loadtxt(tmp_path / "x.txt", delimiter=",")
    assert got.dtype == gp.float64
    np.testing.assert_array_equal(got.to_numpy(), host)
    columns = gp.loadtxt(tmp_path / "x.txt", "float32", delimiter=",", usecols=(2, 0), unpack=True)
    np.testing.assert_array_equal(columns.to_numpy(), host.astype(np.float32)[:, [2, 0]].T)
    host.astype(np.int16).tofile(tmp_path / "x.bin")
    assert gp.fromfile(tmp_path / "x.bin", "int16").tolist() == [0, 0, 0, 1, 1, 1]
    assert gp.fromfile(tmp_path / "x.bin", "int16", 2, offset=4).tolist() == [0, 1]
    (tmp_path / "y.txt").write_text("1;2;3", encoding="ascii")
    assert gp.fromfile(tmp_path / "y.txt", "int32", sep=";").tolist() == [1, 2, 3]
    with pytest.raises(TypeError, match=r"^fromfile: dtype is int4, expected one of whole bytes"):
        gp.fromfile(tmp_path / "x.bin", "int4")

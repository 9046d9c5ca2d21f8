"""NumPy's file formats: .npy and .npz, without pickled objects.

Headers are checked before anything is allocated: the magic, the dtype, the shape, and that the file
has exactly the bytes that they announce. A file on disk is mapped and copied from there to the
device.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from math import prod
from typing import IO, TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit._naming import name_all
from pygpukit._native import GPUArray, safe_repr
from pygpukit.core.errors import InvalidTypeError, InvalidValueError

if TYPE_CHECKING:
    from zipfile import ZipFile

    from numpy.typing import NDArray

    from pygpukit._native import _DeviceLike

_NPY, _ZIP, _EMPTY_ZIP = b"\x93NUMPY", b"PK\x03\x04", b"PK\x05\x06"
_MAX_HEADER = 10_000
_CHUNK = 1 << 24


def save(file: Any, arr: Any) -> None:
    """Writes an array as .npy, to a path (which gets that suffix) or a binary file."""
    host = _host("save", arr)
    if hasattr(file, "write"):
        _write_array(file, host)
        return
    path = os.fspath(file)
    with open(path if path.endswith(".npy") else path + ".npy", "wb") as target:
        _write_array(target, host)


def savez(file: Any, *args: Any, **kwds: Any) -> None:
    """Writes several arrays into one .npz, under their keywords or as arr_0, arr_1, ..."""
    _write_archive("savez", file, args, kwds, compressed=False)


def savez_compressed(file: Any, *args: Any, **kwds: Any) -> None:
    """savez with compression."""
    _write_archive("savez_compressed", file, args, kwds, compressed=True)


def load(file: Any, *, device: _DeviceLike = None) -> GPUArray | NpzFile:
    """The array of an .npy, or the arrays of an .npz by name, on a device.

    Arrays of an .npz are read when they are asked for; close it, or use it in a with statement.
    Files with pickled objects are refused.
    """
    if hasattr(file, "read"):
        start = file.tell()
        magic = file.read(len(_NPY))
        file.seek(start)
        if magic[:4] in (_ZIP, _EMPTY_ZIP):
            return NpzFile(file, device)
        return _read_stream("load", file, device, None)
    path = os.fspath(file)
    with open(path, "rb") as source:
        magic = source.read(len(_NPY))
        if magic[:4] in (_ZIP, _EMPTY_ZIP):
            return NpzFile(path, device)
        source.seek(0)
        return _read_mapped(source, path, device)


class NpzFile(Mapping[str, GPUArray]):
    """The arrays of an .npz file by name, each read at every access."""

    def __init__(self, file: Any, device: _DeviceLike = None) -> None:
        import zipfile

        try:
            self._zip: ZipFile = zipfile.ZipFile(file)
        except zipfile.BadZipFile as error:
            raise InvalidValueError(f"load: not a .npz file: {error}") from None
        self._device = device
        members = [info.filename for info in self._zip.infolist()]
        if len(set(members)) < len(members):
            self._zip.close()
            raise InvalidValueError("load: the .npz file has two members of one name")
        self._members = {name.removesuffix(".npy"): name for name in members}
        self.files = list(self._members)

    def __getitem__(self, key: str) -> GPUArray:
        import zipfile
        import zlib

        name = self._members.get(key) or self._members[key.removesuffix(".npy")]
        info = self._zip.getinfo(name)
        try:
            with self._zip.open(info) as member:
                return _read_stream(f"load: {key}", member, self._device, info.file_size)
        except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError) as e:
            if isinstance(e, (InvalidValueError, InvalidTypeError)):
                raise
            raise InvalidValueError(f"load: {key}: {e}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self.files)

    def __len__(self) -> int:
        return len(self.files)

    def __repr__(self) -> str:
        return f"NpzFile with {', '.join(self.files) or 'no arrays'}"

    def __enter__(self) -> NpzFile:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file."""
        self._zip.close()


# --- writing -------------------------------------------------------------------------------------


def _host(op: str, value: Any) -> Any:
    import numpy as np

    host = value.to_numpy() if isinstance(value, GPUArray) else np.asarray(value)
    if host.dtype.isbuiltin != 1 or host.dtype.hasobject:
        raise InvalidTypeError(
            f"{op}: the .npy format has no dtype {host.dtype.name}; view it as integers, or use "
            "SafeTensors"
        )
    return np.ascontiguousarray(host) if host.ndim else host


def _write_array(target: IO[bytes], host: Any) -> None:
    from numpy.lib import format as npy

    npy.write_array(target, host, allow_pickle=False)


def _write_archive(
    op: str, file: Any, args: tuple[Any, ...], kwds: dict[str, Any], compressed: bool
) -> None:
    import zipfile

    arrays = dict(kwds)
    for n, value in enumerate(args):
        if f"arr_{n}" in arrays:
            raise InvalidValueError(f"{op}: cannot use un-named variables and keyword arr_{n}")
        arrays[f"arr_{n}"] = value
    hosts = {name: _host(op, value) for name, value in arrays.items()}
    if not hasattr(file, "write"):
        path = os.fspath(file)
        file = path if path.endswith(".npz") else path + ".npz"
    kind = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
    with zipfile.ZipFile(file, "w", kind, allowZip64=True) as archive:
        for name, host in hosts.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                _write_array(member, host)


# --- reading -------------------------------------------------------------------------------------


def _read_header(op: str, source: Any) -> tuple[tuple[int, ...], bool, Any]:
    """Shape, whether in Fortran order, and dtype; all valid for an array of ours."""
    from numpy.lib import format as npy

    try:
        version = npy.read_magic(source)
        readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
        # 3.0 differs from 2.0 in names of fields only, which are refused below.
        reader = readers.get(version, npy.read_array_header_2_0)
        if version not in ((1, 0), (2, 0), (3, 0)):
            raise InvalidValueError(f"{op}: format version {version} is unknown")
        shape, fortran, dtype = reader(source, max_header_size=_MAX_HEADER)
    except InvalidValueError:
        raise
    except Exception as error:  # whatever the parser makes of the text
        reason = f"{type(error).__name__}: {error}"[:200]
        raise InvalidValueError(f"{op}: not a valid .npy header: {reason}") from None
    if dtype.hasobject:
        raise InvalidValueError(f"{op}: pickled objects are not loaded")
    if dtype.fields is not None or dtype.subdtype is not None or dtype.isbuiltin == 2:
        raise InvalidTypeError(f"{op}: dtype {safe_repr(dtype)} is not supported")
    try:
        _native.result_type(dtype.newbyteorder("="))
    except TypeError:
        raise InvalidTypeError(f"{op}: dtype {dtype} is not supported") from None
    if any(size < 0 for size in shape) or prod(shape) * dtype.itemsize >= 2**62:
        raise InvalidValueError(f"{op}: shape {shape} is not possible")
    return shape, fortran, dtype


def _check_size(op: str, shape: tuple[int, ...], dtype: Any, has: int) -> int:
    needed = prod(shape) * int(dtype.itemsize)
    if needed != has:
        raise InvalidValueError(
            f"{op}: shape {shape} of {dtype} takes {needed} bytes, the file has {has}"
        )
    return needed


def _finish(flat: Any, shape: tuple[int, ...], fortran: bool, device: _DeviceLike) -> GPUArray:
    if not flat.dtype.isnative:
        flat = flat.astype(flat.dtype.newbyteorder("="))
    if not fortran:
        return _native.from_numpy(flat.reshape(shape), device=device)
    return _native.transpose(_native.from_numpy(flat.reshape(shape[::-1]), device=device))


def _read_mapped(source: IO[bytes], path: str, device: _DeviceLike) -> GPUArray:
    """From the page cache to the device, without a copy in between."""
    import numpy as np

    shape, fortran, dtype = _read_header("load", source)
    start = source.tell()
    size = _check_size("load", shape, dtype, os.fstat(source.fileno()).st_size - start)
    if size == 0:
        return _finish(np.empty(prod(shape), dtype), shape, fortran, device)
    flat = np.memmap(path, dtype, "r", start, (prod(shape),))
    return _finish(flat.view(np.ndarray), shape, fortran, device)


def read_host(op: str, path: str | os.PathLike[str]) -> NDArray[Any]:
    """The array of an .npy file in host memory, with the checks of load()."""
    import numpy as np

    with open(path, "rb") as source:
        shape, fortran, dtype = _read_header(op, source)
        size = _check_size(op, shape, dtype, os.fstat(source.fileno()).st_size - source.tell())
        flat = np.frombuffer(source.read(size), dtype, prod(shape)) if size else np.empty(0, dtype)
    values: NDArray[Any] = flat.reshape(shape[::-1]).T if fortran else flat.reshape(shape)
    return values


def _read_stream(op: str, source: Any, device: _DeviceLike, total: int | None) -> GPUArray:
    """From a file object; `total` is its length where that is known in advance."""
    import numpy as np

    counted = _Counted(source)
    shape, fortran, dtype = _read_header(op, counted)
    needed = prod(shape) * int(dtype.itemsize)
    if total is not None:
        _check_size(op, shape, dtype, total - counted.count)
    # Grows with what arrives, so that a header that lies allocates nothing.
    content = bytearray()
    while len(content) < needed:
        piece = source.read(min(_CHUNK, needed - len(content)))
        if not piece:
            _check_size(op, shape, dtype, len(content))
        content += piece
    return _finish(np.frombuffer(content, dtype), shape, fortran, device)


class _Counted:
    """A file that counts what was read."""

    def __init__(self, source: Any) -> None:
        self.source, self.count = source, 0

    def read(self, size: int) -> bytes:
        data: bytes = self.source.read(size)
        self.count += len(data)
        return data


__all__ = ["NpzFile", "load", "save", "savez", "savez_compressed"]

name_all(globals(), __all__)

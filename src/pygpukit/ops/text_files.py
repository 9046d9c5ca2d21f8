"""Files of text and of plain bytes, read and written by NumPy on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit._naming import name_all
from pygpukit.core.errors import InvalidTypeError
from pygpukit.ops.porting import asnumpy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pygpukit._native import GPUArray, _DeviceLike, _DTypeLike


def loadtxt(
    fname: Any,
    dtype: _DTypeLike = float,
    comments: str | Sequence[str] | None = "#",
    delimiter: str | None = None,
    converters: dict[int, Callable[[str], Any]] | Callable[[str], Any] | None = None,
    skiprows: int = 0,
    usecols: int | Sequence[int] | None = None,
    unpack: bool = False,
    ndmin: int = 0,
    encoding: str | None = None,
    max_rows: int | None = None,
    *,
    quotechar: str | None = None,
    device: _DeviceLike = None,
) -> GPUArray:
    """The numbers of a text file, a row in each line; unpack=True: a row for each column."""
    import numpy as np

    options: dict[str, Any] = {
        "dtype": _host_dtype("loadtxt", dtype),
        "comments": comments,
        "delimiter": delimiter,
        "converters": converters,
        "skiprows": skiprows,
        "usecols": usecols,
        "unpack": unpack,
        "ndmin": ndmin,
        "encoding": encoding,
        "max_rows": max_rows,
        "quotechar": quotechar,
    }
    host = np.loadtxt(fname, **options)
    return _native.from_numpy(host, device=device)


def savetxt(
    fname: Any,
    X: Any,
    fmt: str | Sequence[str] = "%.18e",
    delimiter: str = " ",
    newline: str = "\n",
    header: str = "",
    footer: str = "",
    comments: str = "# ",
    encoding: str | None = None,
) -> None:
    """Writes a vector or a matrix as text, a row in each line."""
    import numpy as np

    np.savetxt(fname, asnumpy(X), fmt, delimiter, newline, header, footer, comments, encoding)


def fromfile(
    file: Any,
    dtype: _DTypeLike = float,
    count: int = -1,
    sep: str = "",
    offset: int = 0,
    *,
    device: _DeviceLike = None,
) -> GPUArray:
    """A vector of the bytes of a file as tofile wrote them, or with `sep` of its numbers."""
    import numpy as np

    host = np.fromfile(file, _host_dtype("fromfile", dtype), count, sep, offset)
    return _native.from_numpy(host, device=device)


def _host_dtype(op: str, dtype: _DTypeLike) -> Any:
    kind = _native.result_type(dtype)
    if kind.bits < 8:
        raise InvalidTypeError(f"{op}: dtype is {kind}, expected one of whole bytes")
    return kind.to_numpy_dtype()


__all__ = ["fromfile", "loadtxt", "savetxt"]

name_all(globals(), __all__)

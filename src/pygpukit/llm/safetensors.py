"""SafeTensors files: inspection, loading to a device, writing.

>>> weights = gp.llm.load_safetensors("model.safetensors")      # or "model.safetensors.index.json"
>>> weights.tensor_info("lm_head.weight").shape
>>> arrays = weights.load(dtype="bfloat16", progress=True)      # every tensor, read-only
>>> gp.llm.save_safetensors("copy.safetensors", arrays)
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from pygpukit import _native
from pygpukit._native import safe_repr
from pygpukit.core.arguments import file_path, items, require_callable
from pygpukit.core.errors import InvalidTypeError, InvalidValueError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, DTypeLike, NDArray

    from pygpukit._native import DataType, GPUArray

    Path = str | os.PathLike[str]
    Progress = Callable[[int, int], object] | bool | None


class Dtype:
    """Stored dtypes as numbers; `Unknown` for those that cannot be loaded."""

    Float32 = 0
    Float16 = 1
    BFloat16 = 2
    Float64 = 3
    Float8E4M3 = 4
    Float8E5M2 = 5
    Int32 = 6
    Int64 = 7
    Int16 = 8
    Int8 = 9
    UInt8 = 10
    Bool = 11
    UInt16 = 12
    UInt32 = 13
    UInt64 = 14
    Complex64 = 15
    Unknown = -1

    # Number: (type in the file, name, bytes).
    _ROWS: ClassVar[dict[int, tuple[str, str, int]]] = {
        Float32: ("F32", "float32", 4),
        Float16: ("F16", "float16", 2),
        BFloat16: ("BF16", "bfloat16", 2),
        Float64: ("F64", "float64", 8),
        Float8E4M3: ("F8_E4M3", "float8_e4m3", 1),
        Float8E5M2: ("F8_E5M2", "float8_e5m2", 1),
        Int32: ("I32", "int32", 4),
        Int64: ("I64", "int64", 8),
        Int16: ("I16", "int16", 2),
        Int8: ("I8", "int8", 1),
        UInt8: ("U8", "uint8", 1),
        Bool: ("BOOL", "bool", 1),
        UInt16: ("U16", "uint16", 2),
        UInt32: ("U32", "uint32", 4),
        UInt64: ("U64", "uint64", 8),
        Complex64: ("C64", "complex64", 8),
    }

    @classmethod
    def element_size(cls, dtype: int) -> int:
        """Bytes of an element; 0 for Unknown."""
        return cls._ROWS.get(dtype, ("", "", 0))[2]

    @classmethod
    def name(cls, dtype: int) -> str:
        """Its name; "unknown" for Unknown."""
        return cls._ROWS.get(dtype, ("", "unknown", 0))[1]

    @classmethod
    def _of(cls, stored_type: str) -> int:
        rows = cls._ROWS.items()
        return next((number for number, row in rows if row[0] == stored_type), cls.Unknown)


@dataclass(frozen=True)
class TensorInfo:
    """A tensor of a file, without its data."""

    name: str
    dtype: int  # of Dtype
    shape: list[int]
    offset: int  # in the file
    size_bytes: int
    stored_type: str = ""  # in the file: "BF16"

    @property
    def numel(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def dtype_name(self) -> str:
        """Name of the dtype; of one that cannot be loaded, the file's."""
        known = self.dtype != Dtype.Unknown or not self.stored_type
        return Dtype.name(self.dtype) if known else self.stored_type


class _WeightFiles:
    """What one file and an index with shards have in common."""

    def __init__(self, weights: _native.WeightSet) -> None:
        self._weights = weights

    @property
    def tensor_names(self) -> list[str]:
        """All names: by position in a file, in the order of an index."""
        return self._weights.names

    @property
    def file_size(self) -> int:
        """Bytes of all files."""
        return self._weights.file_size

    @property
    def num_tensors(self) -> int:
        """Number of tensors."""
        return len(self._weights.names)

    @property
    def metadata(self) -> dict[str, str]:
        """The strings under __metadata__."""
        return self._weights.metadata

    def tensor_info(self, name: str) -> TensorInfo:
        """Dtype, shape and place of a tensor."""
        stored, _, shape, offset, size = self._weights.info(name)
        return TensorInfo(name, Dtype._of(stored), list(shape), offset, size, stored)

    def tensor_bytes(self, name: str) -> bytes:
        """The bytes of a tensor."""
        return self._weights.read(name)

    def tensor_as_f32(self, name: str) -> NDArray[Any]:
        """A float32 tensor in one dimension; ValueError for any other dtype."""
        import numpy as np

        info = self.tensor_info(name)
        if info.dtype != Dtype.Float32:
            raise InvalidValueError(
                f"tensor_as_f32: '{name}' has dtype {info.dtype_name}, expected float32"
            )
        return np.frombuffer(bytearray(self.tensor_bytes(name)), np.float32)

    def tensor_data_ptr(self, name: str) -> tuple[int, int]:
        """(address, bytes) in a mapping of the file that lives as long as this object."""
        return self._weights.address(name)

    def tensor(self, name: str, **options: Any) -> GPUArray:
        """One tensor as an array; options as for load()."""
        return self.load([name], **options)[name]

    def load(
        self,
        names: Iterable[str] | None = None,
        *,
        dtype: DataType | DTypeLike | None = None,
        device: str | int | None = None,
        evictable: bool = False,
        block_bytes: int = 0,
        num_threads: int = 0,
        progress: Progress = None,
    ) -> dict[str, GPUArray]:
        """Tensors (None: all) as read-only arrays, views of a few blocks of the memory pool.

        `dtype` converts float16, bfloat16, float32 and float64 tensors on the device; others keep
        theirs. `evictable` blocks may be evicted under pressure, so that weights larger than the
        memory limit load. `progress(done, total)` is called with bytes; True shows a line.
        """
        return self._weights.load(
            self._weights.names if names is None else _names("load", "names", names),
            dtype=dtype,
            device=device,
            evictable=evictable,
            block_bytes=block_bytes,
            num_threads=num_threads,
            progress=progress_function(progress),
        )

    def check_names(self, expected: Iterable[str]) -> None:
        """ValueError that names missing and unexpected tensors."""
        self._weights.check_names(_names("check_names", "expected", expected))

    def __len__(self) -> int:
        return self.num_tensors

    def __contains__(self, name: object) -> bool:
        return name in self._weights

    def __iter__(self) -> Iterator[str]:
        return iter(self._weights.names)

    def __repr__(self) -> str:
        return f"{type(self).__name__}('{self._weights.path}', {self.num_tensors} tensors)"


class SafeTensorsFile(_WeightFiles):
    """A SafeTensors file. OSError where it cannot be read, ValueError for a bad header."""

    def __init__(self, path: Path) -> None:
        super().__init__(_native.WeightSet.open_file(file_path("SafeTensorsFile", path)))


class ShardedSafeTensorsFile(_WeightFiles):
    """An index (model.safetensors.index.json) and its shards, opened when they are needed."""

    def __init__(self, index_json_path: Path) -> None:
        path = file_path("ShardedSafeTensorsFile", index_json_path)
        super().__init__(_native.WeightSet.open_index(path))

    @property
    def shard_files(self) -> list[str]:
        """The paths of all shards."""
        return self._weights.files

    def verify(self) -> None:
        """Opens every shard; ValueError where they and the index disagree."""
        self._weights.verify()


def load_safetensors(path: Path) -> SafeTensorsFile | ShardedSafeTensorsFile:
    """Opens an index where the name ends in ".index.json", else a file."""
    sharded = file_path("load_safetensors", path).endswith(".index.json")
    return ShardedSafeTensorsFile(path) if sharded else SafeTensorsFile(path)


def save_safetensors(
    path: Path,
    tensors: Mapping[str, GPUArray | ArrayLike],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Writes arrays to a SafeTensors file, which appears complete or not at all."""
    path = file_path("save_safetensors", path)
    _check_dict("tensors", tensors)
    _check_dict("metadata", metadata or {})
    for key, text in (metadata or {}).items():
        _check_text(f"the value of metadata[{safe_repr(key)}]", text)
    arrays = [(name, _as_array(value)) for name, value in tensors.items()]
    _native.save_safetensors(path, arrays, dict(metadata or {}))


def _check_dict(name: str, given: object) -> None:
    if not isinstance(given, Mapping):
        raise InvalidTypeError(
            f"save_safetensors: {name} is of type {type(given).__name__}, expected a dict"
        )
    for key in given:
        _check_text(f"a key of {name}", key)


def _check_text(name: str, given: object) -> None:
    """A str that UTF-8 has bytes for."""
    if not isinstance(given, str):
        raise InvalidTypeError(
            f"save_safetensors: {name} is of type {type(given).__name__}, expected str"
        )
    try:
        given.encode()
    except UnicodeEncodeError:
        raise InvalidValueError(f"save_safetensors: {name} has surrogates") from None


def _names(op: str, what: str, given: Iterable[str]) -> list[str]:
    if isinstance(given, str):
        raise InvalidTypeError(f"{op}: {what} is str {safe_repr(given)}, expected a list of names")
    return items(op, what, given, "a list of names")


def _as_array(value: Any) -> GPUArray:
    if isinstance(value, _native.GPUArray):
        return value
    from pygpukit.ops.conversion import asarray

    return asarray(value, device="cpu")


def progress_function(progress: Progress) -> Callable[[int, int], object] | None:
    """What a load reports to, if anything."""
    if progress is None or isinstance(progress, bool):
        return _show_progress if progress else None
    require_callable("load", "progress", progress)
    return progress


def _show_progress(done: int, total: int) -> None:
    if total:
        end = "\n" if done == total else ""
        line = f"\rweights: {done / 1e9:.2f} of {total / 1e9:.2f} GB ({100 * done // total} %)"
        print(line, end=end, file=sys.stderr, flush=True)

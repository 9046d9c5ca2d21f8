"""Files of torch.save (.pth, .pt, .bin), read without torch and without running their pickle.

>>> weights = gp.llm.TorchFile("kokoro-v1_0.pth")
>>> weights.tensor_info("bert.module.embeddings.word_embeddings.weight").shape
>>> arrays = weights.load(dtype="bfloat16")
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pygpukit import _native
from pygpukit.core.arguments import file_path
from pygpukit.llm.safetensors import progress_function

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from pygpukit._native import DataType, GPUArray
    from pygpukit.llm.safetensors import Path, Progress


@dataclass(frozen=True)
class TorchTensorInfo:
    """A tensor of a file, without its data: a view of a storage."""

    name: str
    stored_type: str  # SafeTensors' name of the type: "F32"
    dtype: DataType | None  # None: cannot be loaded
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # in elements
    storage_offset: int  # of the storage in the file, in bytes
    offset: int  # of the first element in the storage

    @property
    def numel(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


class TorchFile:
    """The tensors of a file that torch.save wrote.

    The pickle inside is parsed, never run: instructions and names beyond those of tensors, dicts
    and lists are refused by a ValueError that names them. Names are the keys of nested dicts and
    the positions of lists, joined by dots; a file that is one tensor has the name "". OSError where
    the file cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self._file = _native.TorchFile(file_path("TorchFile", path))

    @property
    def tensor_names(self) -> list[str]:
        """All names, in the order of the file."""
        return self._file.names

    @property
    def file_size(self) -> int:
        """Bytes."""
        return self._file.file_size

    @property
    def num_tensors(self) -> int:
        """Number of tensors."""
        return len(self._file.names)

    def tensor_info(self, name: str) -> TorchTensorInfo:
        """Dtype, shape, strides and place of a tensor."""
        return TorchTensorInfo(name, *self._file.info(name))

    def tensor(
        self,
        name: str,
        *,
        dtype: DataType | DTypeLike | None = None,
        device: str | int | None = None,
    ) -> GPUArray:
        """One tensor as an array."""
        return self.load([name], dtype=dtype, device=device)[name]

    def load(
        self,
        names: Iterable[str] | None = None,
        *,
        dtype: DataType | DTypeLike | None = None,
        device: str | int | None = None,
        progress: Progress = None,
    ) -> dict[str, GPUArray]:
        """Tensors (None: all) as read-only arrays; those of one storage share memory.

        `dtype` converts float16, bfloat16, float32 and float64 tensors on the device; others keep
        theirs. `progress(done, total)` is called with bytes; True shows a line.
        """
        return self._file.load(
            self._file.names if names is None else list(names),
            dtype=dtype,
            device=device,
            progress=progress_function(progress),
        )

    def __len__(self) -> int:
        return self.num_tensors

    def __contains__(self, name: object) -> bool:
        return name in self._file

    def __iter__(self) -> Iterator[str]:
        return iter(self._file.names)

    def __repr__(self) -> str:
        return f"TorchFile('{self._file.path}', {self.num_tensors} tensors)"

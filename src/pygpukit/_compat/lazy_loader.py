"""LazyModelLoader of 0.2: tensors loaded when they are asked for, within a budget of memory.

>>> loader = gp.llm.LazyModelLoader(4 << 30)
>>> loader.load_file("model.safetensors.index.json")
>>> w = loader.get("model.layers.0.mlp.up_proj.weight")    # those used least recently make room
>>> loader.unload_layer("model.layers.0.")

Unloading drops the loader's array. Memory is free once nobody else holds it.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import TYPE_CHECKING

from pygpukit._compat.common import Locked
from pygpukit._compat.memory import PoolStats
from pygpukit.core.arguments import whole
from pygpukit.core.errors import InvalidValueError, OutOfMemory
from pygpukit.llm.safetensors import SafeTensorsFile, ShardedSafeTensorsFile, load_safetensors

if TYPE_CHECKING:
    import os

    from pygpukit._native import GPUArray


class TensorState(IntEnum):
    """Where a tensor is."""

    OnDisk = 0
    OnGpu = 1
    Evicted = 2  # on disk: it was loaded, and made room for another


class LazyModelLoader(Locked):
    """Tensors by name, from any number of files."""

    def __init__(
        self, memory_budget: int, enable_eviction: bool = True, *, device: str | int | None = None
    ) -> None:
        self._budget = whole("LazyModelLoader", "memory_budget", memory_budget, 1)
        self._evicts = bool(enable_eviction)
        self._device = device
        self._num_loads = self._num_hits = self._num_evictions = 0
        self._drop_files()

    def _drop_files(self) -> None:
        self._files: list[SafeTensorsFile | ShardedSafeTensorsFile] = []
        self._homes: dict[str, SafeTensorsFile | ShardedSafeTensorsFile] = {}
        self._sizes: dict[str, int] = {}
        self._arrays: dict[str, GPUArray] = {}  # in the order of use, the last one is the latest
        self._evicted: set[str] = set()

    def load_file(self, path: str | os.PathLike[str]) -> None:
        """Adds the tensors of a file or an index; nothing is loaded yet."""
        weights = load_safetensors(path)
        known = [name for name in weights.tensor_names if name in self._homes]
        if known:
            raise InvalidValueError(
                f"LazyModelLoader.load_file: {path} has '{known[0]}', which another file has"
            )
        sizes = {name: weights.tensor_info(name).size_bytes for name in weights.tensor_names}
        self._files.append(weights)
        self._sizes.update(sizes)
        self._homes.update(dict.fromkeys(sizes, weights))

    def get(self, name: str) -> GPUArray:
        """The tensor on the device."""
        if name not in self._homes:
            raise KeyError(f"LazyModelLoader.get: no tensor '{name}'")
        if name in self._arrays:
            self._num_hits += 1
            self._arrays[name] = self._arrays.pop(name)
        else:
            self._make_room(self._sizes[name])
            self._arrays[name] = self._homes[name].tensor(name, device=self._device)
            self._num_loads += 1
            self._evicted.discard(name)
        return self._arrays[name]

    def _make_room(self, size: int) -> None:
        while self.loaded_size + size > self._budget:
            if size > self._budget or not self._evicts:
                used = self.loaded_size
                raise OutOfMemory(
                    f"LazyModelLoader.get: {size} bytes, {used} of {self._budget} are used",
                    asked=size,
                    used=used,
                    limit=self._budget,
                )
            oldest = next(iter(self._arrays))
            del self._arrays[oldest]
            self._evicted.add(oldest)
            self._num_evictions += 1

    @property
    def tensor_names(self) -> list[str]:
        """All names."""
        return list(self._homes)

    @property
    def loaded_tensors(self) -> list[str]:
        """Names of those on the device, the least recently used one first."""
        return list(self._arrays)

    num_files = property(lambda self: len(self._files))
    num_tensors = property(lambda self: len(self._homes))
    num_loaded = property(lambda self: len(self._arrays))

    @property
    def total_size(self) -> int:
        """Bytes of all tensors."""
        return sum(self._sizes.values())

    @property
    def loaded_size(self) -> int:
        """Bytes on the device."""
        return sum(self._sizes[name] for name in self._arrays)

    @property
    def pool_stats(self) -> PoolStats:
        """The budget and its use."""
        return PoolStats(
            quota=self._budget,
            used=self.loaded_size,
            cached=0,
            available=self._budget - self.loaded_size,
            allocation_count=self._num_loads,
            reuse_count=self._num_hits,
            eviction_count=self._num_evictions,
            cudamalloc_count=self._num_loads,
            active_blocks=len(self._arrays),
            free_blocks=0,
        )

    def tensor_state(self, name: str) -> TensorState:
        """Where a tensor is."""
        if name not in self._homes:
            raise KeyError(f"LazyModelLoader.tensor_state: no tensor '{name}'")
        if name in self._arrays:
            return TensorState.OnGpu
        return TensorState.Evicted if name in self._evicted else TensorState.OnDisk

    def unload_tensors(self, names: Iterable[str]) -> tuple[int, int]:
        """(tensors, bytes) dropped."""
        gone = [name for name in dict.fromkeys(names) if name in self._arrays]
        for name in gone:
            del self._arrays[name]
        return len(gone), sum(self._sizes[name] for name in gone)

    def unload_layer(self, prefix: str) -> tuple[int, int]:
        """(tensors, bytes) dropped of those whose names begin with `prefix`."""
        return self.unload_tensors(self.get_layer_tensors(prefix))

    def unload_model(self) -> int:
        """Drops every tensor; bytes. The files stay."""
        return self.unload_tensors(self.loaded_tensors)[1]

    def clear(self) -> None:
        """Drops tensors and files."""
        self._drop_files()

    def get_layer_tensors(self, prefix: str) -> list[str]:
        """Names that begin with `prefix`."""
        return [name for name in self._homes if name.startswith(prefix)]

    def layer_size(self, prefix: str) -> int:
        """Bytes of the tensors whose names begin with `prefix`."""
        return sum(self._sizes[name] for name in self.get_layer_tensors(prefix))

    def is_layer_loaded(self, prefix: str) -> bool:
        """True when all of them, and at least one, are on the device."""
        num_tensors, num_loaded, _, _ = self.layer_state(prefix)
        return 0 < num_tensors == num_loaded

    def layer_state(self, prefix: str) -> tuple[int, int, int, int]:
        """(tensors, of these on the device, bytes, of these on the device)."""
        names = self.get_layer_tensors(prefix)
        loaded = [self._sizes[name] for name in names if name in self._arrays]
        return len(names), len(loaded), self.layer_size(prefix), sum(loaded)

"""KernelCache of 0.2: compiled kernels by key, least recently used first out.

What gp.jit has compiled is found too, by name or by the key of its source and options: its module
then stays loaded as long as the cache has it.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from pygpukit import _native
from pygpukit._compat.common import Locked, check_fields, figures
from pygpukit.core.errors import GpuUnavailable, InvalidValueError, OperationError


def digest(*fields: str | bytes) -> int:
    """64 bits over length-prefixed fields, the same in every process."""
    state = hashlib.blake2b(digest_size=8)
    for text in fields:
        data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
        state.update(len(data).to_bytes(8, "little") + data)
    return int.from_bytes(state.digest(), "little")


@dataclass(kw_only=True)
class Entry:
    """One kernel."""

    key: int
    name: str
    size: int
    created_at: float = field(default_factory=time.time)
    last_access: float = field(default_factory=time.time)
    access_count: int = 0


@dataclass(frozen=True, kw_only=True)
class LruStats:
    """Figures of a cache."""

    hits: int
    misses: int
    entries: int
    evictions: int
    ttl_evictions: int

    def hit_rate(self) -> float:
        """0 before the first look-up."""
        return self.hits / max(1, self.hits + self.misses)


E = TypeVar("E", bound=Entry)


class LruCache(Locked, Generic[E]):
    """Thread safe."""

    def __init__(self, max_entries: int, max_size: int, ttl_seconds: float) -> None:
        self._max_entries, self._max_size, self._ttl = max_entries, max_size, ttl_seconds
        self._entries: dict[int, E] = {}  # least recently used first
        self.hits = self.misses = self.evictions = self.ttl_evictions = 0

    def remove(self, key: int) -> bool:
        entry = self._entries.get(key)
        if entry is not None:
            self._drop(entry)
        return entry is not None

    def contains(self, key: int) -> bool:
        """True when it is there and not expired."""
        return self._find(key) is not None

    def clear_expired(self) -> int:
        return sum(self._find(key) is None for key in list(self._entries))

    def clear(self) -> None:
        for entry in list(self._entries.values()):
            self._drop(entry)

    def __len__(self) -> int:
        return len(self._entries)

    len = __len__

    def is_empty(self) -> bool:
        return not self._entries

    def _size(self) -> int:
        return sum(entry.size for entry in self._entries.values())

    def _find(self, key: int) -> E | None:
        """The entry; one that has expired leaves."""
        entry = self._entries.get(key)
        if entry is None or self._ttl == 0 or time.time() - entry.created_at < self._ttl:
            return entry
        self._drop(entry)
        self.ttl_evictions += 1
        return None

    def _use(self, entry: E | None) -> E | None:
        """Counts a look-up and what it found."""
        if entry is None:
            self.misses += 1
            return None
        self.hits += 1
        entry.access_count += 1
        entry.last_access = time.time()
        self._entries[entry.key] = self._entries.pop(entry.key)
        return entry

    def _drop(self, entry: E) -> None:
        del self._entries[entry.key]

    def _has_room(self, size: int, count: int = 1) -> bool:
        room = len(self._entries) + count <= self._max_entries
        return room and self._size() + size <= self._max_size

    def _evict_for(self, size: int, count: int = 1) -> None:
        while size <= self._max_size and self._entries and not self._has_room(size, count):
            self._drop(next(iter(self._entries.values())))
            self.evictions += 1


@dataclass
class CompileOptions:
    """What a kernel is compiled with; part of its key."""

    compute_capability: str = "sm_75"
    flags: list[str] = field(default_factory=list, init=False)
    defines: list[str] = field(default_factory=list, init=False)
    includes: list[str] = field(default_factory=list, init=False)

    def flag(self, text: str) -> CompileOptions:
        self.flags.append(text)
        return self

    def define(self, name: str, value: str = "") -> CompileOptions:
        self.defines.append(f"{name}={value}" if value else name)
        return self

    def include(self, path: str) -> CompileOptions:
        self.includes.append(path)
        return self


@dataclass(frozen=True)
class CacheConfig:
    """Limits of a KernelCache."""

    max_entries: int = 1024
    max_ptx_size: int = 256 << 20
    enable_eviction: bool = True
    ttl_seconds: float = 0.0

    def __post_init__(self) -> None:
        check_fields(self, max_entries=1, max_ptx_size=1, ttl_seconds=0.0)


@dataclass(kw_only=True)
class CachedKernel(Entry):
    """A kernel of the cache."""

    ptx: str
    options: CompileOptions
    module_handle: int = 0
    function_handle: int = 0
    _program: _native.Program | None = field(default=None, repr=False)  # keeps the module loaded

    is_loaded = property(lambda self: self.function_handle != 0)


@dataclass(frozen=True, kw_only=True)
class CacheStats(LruStats):
    """Figures of a KernelCache."""

    ptx_size: int
    loaded_count: int


class KernelCache(LruCache[CachedKernel]):
    """Thread safe."""

    def __init__(self, config: CacheConfig | None = None) -> None:
        self.config = config or CacheConfig()
        limits = self.config.max_entries, self.config.max_ptx_size, self.config.ttl_seconds
        super().__init__(*limits)

    hash_source = staticmethod(digest)

    @staticmethod
    def compute_key(source: str, options: CompileOptions | None = None) -> int:
        """The same on every machine."""
        options = options or CompileOptions()
        lists = (options.flags, options.defines, options.includes)
        counted = [text for each in lists for text in (str(len(each)), *each)]
        return digest(source, options.compute_capability, *counted)

    def get(self, key: int) -> CachedKernel | None:
        return self._use(self._find(key) or self._adopt(lambda k, _: k == key))

    def get_by_name(self, name: str) -> CachedKernel | None:
        """The one inserted last."""
        self.clear_expired()
        named = [kernel for kernel in self._entries.values() if kernel.name == name]
        latest = max(named, key=lambda kernel: kernel.created_at, default=None)
        return self._use(latest or self._adopt(lambda _, n: n == name))

    def insert(
        self, source: str, name: str, ptx: str, options: CompileOptions | None = None
    ) -> int:
        """Adds a kernel, or replaces the one of the same key; its key."""
        options = options or CompileOptions()
        key = self.compute_key(source, options)
        self._add(CachedKernel(key=key, name=name, size=len(ptx), ptx=ptx, options=options))
        return key

    def set_handles(self, key: int, module_handle: int, function_handle: int) -> bool:
        kernel = self._entries.get(key)
        if kernel is not None:
            kernel.module_handle, kernel.function_handle = module_handle, function_handle
        return kernel is not None

    def kernel_names(self) -> list[str]:
        return sorted({kernel.name for kernel in self._entries.values()})

    def stats(self) -> CacheStats:
        loaded = sum(kernel.is_loaded for kernel in self._entries.values())
        sizes = {"entries": len(self), "ptx_size": self._size(), "loaded_count": loaded}
        return figures(CacheStats, self, **sizes)

    def _adopt(self, wanted: Callable[[int, str], bool]) -> CachedKernel | None:
        """The kernel that gp.jit compiled last, as an entry."""
        for program in reversed(_native.programs()):
            options = CompileOptions(f"sm_{program.sm}")
            options.flags = list(program.options)
            key = self.compute_key(program.source, options)
            name = next((name for name in program.kernels if wanted(key, name)), None)
            if name is None:
                continue
            ptx = program.ptx
            kernel = CachedKernel(
                key=key, name=name, size=len(ptx), ptx=ptx, options=options, _program=program
            )
            with contextlib.suppress(GpuUnavailable):  # CPU simulation loads nothing
                kernel.function_handle = program.function(name)
            return self._add(kernel)
        return None

    def _add(self, kernel: CachedKernel) -> CachedKernel:
        if kernel.size > self._max_size:
            limit = f"expected up to {self._max_size}"
            raise InvalidValueError(f"KernelCache.insert: ptx has {kernel.size} bytes, {limit}")
        self.remove(kernel.key)
        if self.config.enable_eviction:
            self._evict_for(kernel.size)
        elif not self._has_room(kernel.size):
            what = f"{len(self)} entries, {self._size()} bytes"
            raise OperationError(f"KernelCache: full and eviction is off: {what}")
        self._entries[kernel.key] = kernel
        return kernel

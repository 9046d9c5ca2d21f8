"""KernelCache of 0.2: compiled kernels by key, least recently used first out.

What gp.jit has compiled is found too, by name or by the key of its source and options: its module
then stays loaded as long as the cache has it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field

from pygpukit import _native
from pygpukit._compat.common import check_fields, figures
from pygpukit._compat.lru import Entry, LruCache, LruStats, digest
from pygpukit.core.errors import GpuUnavailable, InvalidValueError, OperationError


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

    @staticmethod
    def hash_source(source: str) -> int:
        return digest(source)

    @staticmethod
    def compute_key(source: str, options: CompileOptions | None = None) -> int:
        """The same on every machine."""
        options = options or CompileOptions()
        lists = (options.flags, options.defines, options.includes)
        counted = [text for each in lists for text in (str(len(each)), *each)]
        return digest(source, options.compute_capability, *counted)

    def get(self, key: int) -> CachedKernel | None:
        return self._looked_up(self._find(key) or self._adopt(lambda k, _: k == key))

    def get_by_name(self, name: str) -> CachedKernel | None:
        """The one inserted last."""
        self.clear_expired()
        named = [kernel for kernel in self._entries.values() if kernel.name == name]
        latest = max(named, key=lambda kernel: kernel.created_at, default=None)
        return self._looked_up(latest or self._adopt(lambda _, n: n == name))

    def insert(
        self, source: str, name: str, ptx: str, options: CompileOptions | None = None
    ) -> int:
        """Adds a kernel, or replaces the one of the same key; its key."""
        options = options or CompileOptions()
        key = self.compute_key(source, options)
        self._add(CachedKernel(key=key, name=name, size=len(ptx), ptx=ptx, options=options))
        return key

    def set_handles(self, key: int, module_handle: int, function_handle: int) -> bool:
        """False when unknown."""
        kernel = self._entries.get(key)
        if kernel is not None:
            kernel.module_handle, kernel.function_handle = module_handle, function_handle
        return kernel is not None

    def kernel_names(self) -> list[str]:
        """Sorted, each once."""
        return sorted({kernel.name for kernel in self._entries.values()})

    def stats(self) -> CacheStats:
        loaded = sum(kernel.is_loaded for kernel in self._entries.values())
        sizes = {"entries": len(self), "ptx_size": self._size()}
        return figures(CacheStats, self, **sizes, loaded_count=loaded)

    def _looked_up(self, kernel: CachedKernel | None) -> CachedKernel | None:
        if kernel is None:
            self.misses += 1
            return None
        return self._use(kernel)

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
            raise InvalidValueError(
                f"KernelCache.insert: ptx has {kernel.size} bytes, the cache takes {self._max_size}"
            )
        self.remove(kernel.key)
        if self.config.enable_eviction:
            self._evict_for(kernel.size)
        elif not self._has_room(kernel.size):
            raise OperationError(
                f"KernelCache: full and eviction is off: {len(self)} of {self._max_entries} "
                f"entries, {self._size()} of {self._max_size} bytes"
            )
        self._entries[kernel.key] = kernel
        return kernel

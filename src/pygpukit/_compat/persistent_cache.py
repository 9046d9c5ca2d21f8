"""PersistentCache of 0.2: compiled kernels in a folder, a file each and a JSON index.

Trouble with files is never an error: what cannot be read is a miss, what cannot be written is not
there. Only files that nobody else can have written count (PrivateFolder, as for gp.jit's cache).
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, astuple, dataclass
from pathlib import Path

from pygpukit import _native
from pygpukit._compat.common import check_fields, figures
from pygpukit._compat.kernel_cache import Entry, LruCache, LruStats, digest
from pygpukit.core.arguments import whole
from pygpukit.core.errors import InvalidValueError

_INDEX = "index.json"
_MAX_INDEX_BYTES = 64 << 20
_SCHEMA = 2


@dataclass(frozen=True)
class ArchFingerprint:
    """What compiled code depends on."""

    sm_major: int
    sm_minor: int
    driver_major: int = 0
    driver_minor: int = 0
    compiler_major: int = 0
    compiler_minor: int = 0

    def __post_init__(self) -> None:
        check_fields(self, **dict.fromkeys(asdict(self), 0))

    def is_compatible(self, other: ArchFingerprint) -> bool:
        """The same SM and driver."""
        return astuple(self)[:4] == astuple(other)[:4]


@dataclass(frozen=True)
class PersistentCacheConfig:
    """Folder and limits of a PersistentCache."""

    cache_dir: str | None = None  # ~/.pygpukit/cache
    max_size: int = 512 << 20
    max_entries: int = 1000
    auto_cleanup: bool = True  # off: a full cache takes nothing more
    ttl_seconds: float = 0.0

    def __post_init__(self) -> None:
        if self.cache_dir is None:
            object.__setattr__(self, "cache_dir", str(Path.home() / ".pygpukit" / "cache"))
        if not self.cache_dir:
            raise InvalidValueError("PersistentCacheConfig: cache_dir is empty")
        check_fields(self, max_size=1, max_entries=1, ttl_seconds=0.0)


@dataclass(kw_only=True)
class PersistentCacheEntry(Entry):
    """A file of the cache."""

    checksum: int

    file = property(lambda self: f"{self.key:016x}.ptx")


@dataclass(frozen=True, kw_only=True)
class PersistentCacheStats(LruStats):
    """Figures of a PersistentCache."""

    total_size: int
    corrupt: int  # files that were not what the index says


class PersistentCache(LruCache[PersistentCacheEntry]):
    """Thread safe. An index that is corrupt, or of another architecture, is an empty cache."""

    def __init__(self, config: PersistentCacheConfig, arch: ArchFingerprint) -> None:
        super().__init__(config.max_entries, config.max_size, config.ttl_seconds)
        self.config, self.arch = config, arch
        self._folder = _native.PrivateFolder(str(config.cache_dir))
        self.corrupt, self._changed = 0, False
        if not self._load():
            self._folder.remove(_INDEX)
        if config.auto_cleanup:
            self.cleanup()
        self._remove_orphans()

    def __del__(self) -> None:
        if getattr(self, "_changed", False):
            self._save()

    def get(self, key: int) -> bytes | None:
        entry = self._find(key)
        if entry is not None:
            data = self._folder.read(entry.file, min(entry.size, self._max_size))
            if data is not None and digest(data) == entry.checksum:
                self._use(entry)
                self._changed = True
                return data
            self.corrupt += 1
            self._drop(entry)
        self._use(None)
        return None

    def insert(self, key: int, name: str, data: bytes) -> bool:
        """False when it was not stored: too large, full without cleanup, or not writable."""
        key, data = whole("PersistentCache.insert", "key", key), bytes(data)
        entry = PersistentCacheEntry(key=key, name=name, size=len(data), checksum=digest(data))
        self.remove(key)
        if self.config.auto_cleanup:
            self._evict_for(entry.size)
        if not self._has_room(entry.size) or not self._write(entry.file, data):
            return False
        self._entries[key] = entry
        self._save()
        return True

    def get_entry(self, key: int) -> PersistentCacheEntry | None:
        return self._entries.get(key)

    def cleanup(self) -> int:
        """Drops what is expired or over the limits; how many."""
        before = len(self)
        self.clear_expired()
        self._evict_for(0, 0)
        if self._changed:
            self._save()
        return before - len(self)

    def clear(self) -> None:
        super().clear()
        self._folder.remove(_INDEX)
        self._changed = False

    def stats(self) -> PersistentCacheStats:
        sizes = {"entries": len(self), "total_size": self._size()}
        return figures(PersistentCacheStats, self, **sizes)

    def _drop(self, entry: PersistentCacheEntry) -> None:
        super()._drop(entry)
        self._folder.remove(entry.file)
        self._changed = True

    def _write(self, name: str, data: bytes) -> bool:
        return self._folder.write(name, data) == ""

    def _load(self) -> bool:
        """False when there is an index that does not count."""
        text = self._folder.read(_INDEX, _MAX_INDEX_BYTES)
        if text is None:
            return True
        try:
            index = json.loads(text)
            written_for = ArchFingerprint(*index["arch"])
            known = self.arch.is_compatible(written_for) and bool(index["schema"] == _SCHEMA)
            loaded = [PersistentCacheEntry(**facts) for facts in index["entries"]]
            for entry in loaded:
                check_fields(entry, key=0, size=0, access_count=0, created_at=0.0, last_access=0.0)
        except (ValueError, TypeError, KeyError, RecursionError):
            return False
        if known:
            loaded.sort(key=lambda entry: entry.last_access)
            self._entries = {entry.key: entry for entry in loaded}
        return known

    def _save(self) -> None:
        entries = [asdict(entry) for entry in self._entries.values()]
        index = {"schema": _SCHEMA, "arch": astuple(self.arch), "entries": entries}
        self._changed = not self._write(_INDEX, json.dumps(index).encode())

    def _remove_orphans(self) -> None:
        """Files of a cache that the index does not name, and nothing else."""
        known = {entry.file for entry in self._entries.values()}
        for name in self._folder.list():
            if re.fullmatch(r"[0-9a-f]{16}\.ptx", name) and name not in known:
                self._folder.remove(name)

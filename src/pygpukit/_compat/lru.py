"""Entries by key, least recently used first out: what the two kernel caches have in common."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from pygpukit._compat.common import Locked


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
        """False when unknown."""
        entry = self._entries.get(key)
        if entry is not None:
            self._drop(entry)
        return entry is not None

    def contains(self, key: int) -> bool:
        """True when it is there and not expired."""
        return self._find(key) is not None

    def clear_expired(self) -> int:
        """How many went."""
        return sum(self._find(key) is None for key in list(self._entries))

    def clear(self) -> None:
        """Drops the entries; counters stay."""
        for entry in list(self._entries.values()):
            self._drop(entry)

    def __len__(self) -> int:
        return len(self._entries)

    def len(self) -> int:
        return len(self._entries)

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

    def _use(self, entry: E) -> E:
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

"""Kernel caches of section 17.7 of 0.2: the contract, and what gp.jit compiled."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import pygpukit as gp
from _pygpukit_rust import CacheConfig, CompileOptions, KernelCache
from _pygpukit_rust.dispatch import ArchFingerprint, PersistentCache, PersistentCacheConfig
from pygpukit import _native

SCALE = 'extern "C" __global__ void scale_it(float* x, int n) { if (n) x[0] *= 2; }'
needs_nvrtc = pytest.mark.skipif(
    not _native.nvrtc_info()["available"], reason="NVRTC is not installed"
)


class Clock:
    now = time.time()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("pygpukit._compat.kernel_cache.time.time", lambda: clock.now)
    return clock


def test_kernel_cache() -> None:
    options = CompileOptions("sm_90").flag("-O3").define("N", "4").include("/usr/include")
    assert (options.flags, options.defines) == (["-O3"], ["N=4"])
    key = KernelCache.compute_key("source", options)
    assert key == KernelCache.compute_key("source", options)
    assert key != KernelCache.compute_key("source")
    assert KernelCache.hash_source("a") != KernelCache.hash_source("b")
    cache = KernelCache(CacheConfig(max_entries=2))
    assert cache.insert("source", "f", "ptx", options) == key
    assert cache.contains(key)
    assert cache.get(key).ptx == "ptx"
    assert cache.get_by_name("f").key == key
    assert cache.get(1) is None
    assert cache.set_handles(key, 10, 20)
    assert cache.get(key).is_loaded
    cache.insert("b", "g", "ptx")
    cache.get(key)
    cache.insert("c", "h", "ptx")  # g is the least recently used
    assert cache.kernel_names() == ["f", "h"]
    stats = cache.stats()
    assert (stats.entries, stats.evictions, stats.loaded_count) == (2, 1, 1)
    assert stats.hit_rate() == pytest.approx(stats.hits / (stats.hits + stats.misses))
    assert cache.remove(key)
    assert (cache.len(), len(cache), cache.is_empty()) == (1, 1, False)
    assert cache.clear_expired() == 0
    cache.clear()
    assert cache.is_empty()


def test_persistent_cache(tmp_path: Path) -> None:
    config = PersistentCacheConfig(str(tmp_path / "kernels"))
    arch = ArchFingerprint(9, 0, 12, 4, 12, 4)
    cache = PersistentCache(config, arch)
    assert cache.insert(5, "f", b"\0binary")
    assert cache.get(5) == b"\0binary"
    assert cache.get(6) is None
    assert cache.get_entry(5).size == 7
    del cache
    again = PersistentCache(config, ArchFingerprint(9, 0, 12, 4, 13, 0))
    assert again.get(5) == b"\0binary"
    del again
    assert not arch.is_compatible(ArchFingerprint(8, 0, 12, 4))
    other = PersistentCache(config, ArchFingerprint(8, 0, 12, 4))
    assert other.get(5) is None
    assert other.is_empty()
    assert PersistentCacheConfig().cache_dir.endswith("cache")


def test_kernel_cache_limits(clock: Clock) -> None:
    cache = KernelCache(CacheConfig(max_ptx_size=10, enable_eviction=False))
    cache.insert("a", "f", "12345678")
    with pytest.raises(ValueError, match="11 bytes"):
        cache.insert("b", "g", "12345678901")
    with pytest.raises(RuntimeError, match="eviction is off"):
        cache.insert("b", "g", "123")
    old = KernelCache(CacheConfig(ttl_seconds=100.0))
    key = old.insert("a", "f", "ptx")
    clock.now += 1000
    assert not old.contains(key)
    assert old.get(key) is None
    old.insert("a", "f", "ptx")
    clock.now += 1000
    assert old.clear_expired() == 1
    assert old.stats().ttl_evictions == 2
    for bad in ({"max_entries": 0}, {"max_ptx_size": 0}, {"ttl_seconds": -1.0}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            CacheConfig(**bad)


@needs_nvrtc
def test_what_jit_compiled_is_in_the_kernel_cache() -> None:
    before = _native.program_counts()
    kernel = gp.jit(SCALE, "scale_it", options=["-DA=1"])
    assert gp.jit(SCALE, "scale_it", options=["-DA=1"]).source == SCALE
    after = _native.program_counts()
    assert after["misses"] - before["misses"] == 1
    assert after["hits"] - before["hits"] == 1
    (program,) = (p for p in _native.programs() if p.options == ["-DA=1"])
    assert (program.source, program.kernels, program.device) == (SCALE, ["scale_it"], "cpu")
    assert program.bytes > 0
    cache = KernelCache()
    found = cache.get_by_name("scale_it")
    assert ".entry scale_it" in found.ptx
    assert not found.is_loaded, "CPU simulation loads nothing"
    options = CompileOptions(f"sm_{program.sm}").flag("-DA=1")
    assert cache.get(KernelCache.compute_key(SCALE, options)).name == "scale_it"
    assert cache.kernel_names() == ["scale_it"]
    stats = cache.stats()
    assert (stats.hits, stats.misses, stats.ptx_size) == (2, 0, len(found.ptx))
    assert kernel.is_compiled
    del found, program, kernel
    cache.clear()
    assert all(p.options != ["-DA=1"] for p in _native.programs())


def test_persistent_cache_limits(tmp_path: Path, clock: Clock) -> None:
    arch = ArchFingerprint(9, 0)
    config = PersistentCacheConfig(str(tmp_path / "a"), max_size=10, max_entries=2)
    cache = PersistentCache(config, arch)
    assert not cache.insert(1, "f", b"12345678901")
    for key in (1, 2):
        assert cache.insert(key, "f", b"1234")
    assert cache.get(1) == b"1234"
    assert cache.insert(3, "g", b"1234"), "2 is the least recently used"
    assert [key for key in (1, 2, 3) if cache.get_entry(key)] == [1, 3]
    stats = cache.stats()
    assert (stats.entries, stats.total_size, stats.evictions) == (2, 8, 1)
    assert (stats.hits, stats.misses, stats.hit_rate()) == (1, 0, 1.0)
    assert cache.contains(3)
    assert cache.remove(3)
    assert not cache.remove(3)
    assert (cache.len(), len(cache), cache.is_empty()) == (1, 1, False)
    cache.clear()
    assert cache.is_empty()
    assert list((tmp_path / "a").iterdir()) == []
    full = PersistentCache(
        PersistentCacheConfig(str(tmp_path / "b"), max_entries=1, auto_cleanup=False), arch
    )
    assert full.insert(1, "f", b"1")
    assert not full.insert(2, "f", b"1")
    old = PersistentCache(PersistentCacheConfig(str(tmp_path / "c"), ttl_seconds=100.0), arch)
    old.insert(1, "f", b"1")
    clock.now += 1000
    assert old.cleanup() == 1
    assert old.stats().ttl_evictions == 1


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"{}",
        b"nonsense",
        b"[" * 100_000,
        b'{"schema": 2, "arch": [9, 0], "entries": 5}',
    ],
)
def test_a_corrupt_index_is_an_empty_cache(tmp_path: Path, text: bytes) -> None:
    config, arch = PersistentCacheConfig(str(tmp_path / "a")), ArchFingerprint(9, 0)
    PersistentCache(config, arch).insert(1, "f", b"1")
    (tmp_path / "a" / "index.json").write_bytes(text)
    cache = PersistentCache(config, arch)
    assert cache.is_empty()
    assert cache.insert(1, "f", b"2")
    assert cache.get(1) == b"2"
    (tmp_path / "a" / f"{1:016x}.ptx").write_bytes(b"torn")
    assert cache.get(1) is None
    assert cache.stats().corrupt == 1

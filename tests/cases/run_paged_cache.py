"""Runs the cases of key/value caches on a device. Shared by tests/unit and tests/gpu."""

from __future__ import annotations

from typing import Any

import numpy as np

import pygpukit as gp
from cases.paged_cache import TOLERANCE, Case, oracle
from pygpukit.ops import paged_cache


def to_device(drawn: dict[str, Any], device: str | None) -> dict[str, Any]:
    return {
        name: gp.from_numpy(value, device=device) if isinstance(value, np.ndarray) else value
        for name, value in drawn.items()
    }


def compare(got: Any, want: Any, dtype: str) -> None:
    tolerance = TOLERANCE[dtype]
    np.testing.assert_allclose(
        got.to_numpy().astype(np.float64), want, rtol=tolerance, atol=tolerance * 2, equal_nan=True
    )


def run_case(case: Case, device: str | None = None) -> None:
    drawn = case.draw()
    want = oracle(drawn)
    given = to_device(drawn, device)
    result = paged_cache.kv_cache_write(**given)
    compare(given["k_cache"], want[0], case.cache_dtype)
    compare(given["v_cache"], want[1], case.cache_dtype)
    if "q" not in drawn:
        assert result is None
        return
    assert (result.dtype.name, result.device) == (case.dtype, given["q"].device)
    compare(result, want[2], case.dtype)
    np.testing.assert_array_equal(given["q"].to_numpy(), drawn["q"])
    again = paged_cache.kv_cache_write(**given, q_out=given["q"])
    assert again is given["q"]
    np.testing.assert_array_equal(*(x.to_numpy().astype("f4") for x in (again, result)))


def run_views(device: str | None = None) -> None:
    """q, k and v of one projection, and a cache that is a view: no copies of either."""
    rng = np.random.default_rng(1)
    q_heads, kv_heads, dim, tokens = 4, 2, 16, 6
    qkv = rng.normal(size=(tokens, (q_heads + 2 * kv_heads) * dim)).astype(np.float32)
    heads = gp.from_numpy(qkv.reshape(tokens, -1, dim), device=device)
    q, k, v = heads[:, :4], heads[:, 4:6], heads[:, 6:]
    both = gp.zeros((2, 3, 16, kv_heads, dim), device=device)
    slots = np.array([5, 40, 2, 17, 0, 30], np.int32)
    out = gp.zeros((tokens, q_heads * 2, dim), device=device)[:, ::2]
    paged_cache.kv_cache_write(
        k, v, both[0], both[1], gp.from_numpy(slots, device=device), q, q_out=out
    )
    host = qkv.reshape(tokens, -1, dim)
    want = np.zeros((2, 48, kv_heads, dim), np.float32)
    want[0, slots], want[1, slots] = host[:, 4:6], host[:, 6:]
    np.testing.assert_array_equal(both.to_numpy().reshape(want.shape), want)
    np.testing.assert_array_equal(out.to_numpy(), host[:, :4])


def run_fp8_saturates(device: str | None = None) -> None:
    k = np.array([[[1e4, -1e4, 448, 1.5]]], np.float32)
    cache = gp.zeros((1, 16, 1, 4), "float8_e4m3fn", device=device)
    one = gp.from_numpy(np.zeros(1, np.int32), device=device)
    x = gp.from_numpy(k, device=device)
    paged_cache.kv_cache_write(x, x, cache, gp.copy(cache), one, k_scale=1.0)
    got = cache.to_numpy().astype(np.float32)[0, 0, 0]
    np.testing.assert_array_equal(got, [448, -448, 448, 1.5])


def run_slots(device: str | None = None) -> None:
    tables = np.array([[7, 2, -1], [0, 5, 9]], np.int32)
    positions = np.array([0, 15, 16, 40, -1, 48, 33, 3], np.int32)
    sequences = np.array([0, 1, 1, 0, 0, 1, 1, 2], np.int32)
    want = [7 * 16, 15, 5 * 16, -1, -1, -1, 9 * 16 + 1, -1]
    t, p, s = (gp.from_numpy(x, device=device) for x in (tables, positions, sequences))
    got = paged_cache.slot_mapping(t, p, s, page=16)
    assert got.dtype.name == "int32"
    np.testing.assert_array_equal(got.to_numpy(), want)
    out = gp.zeros(2, "int32", device=device)
    assert paged_cache.slot_mapping(t, p[:2], page=16, out=out) is out
    np.testing.assert_array_equal(out.to_numpy(), [7 * 16, 15])


def run_pages(dtype: str, dim: int, device: str | None = None) -> None:
    rng = np.random.default_rng(dim)
    shape = (9, 16, 2, dim)
    hosts = [rng.normal(size=shape).astype(dtype) for _ in range(2)]
    k, v = (gp.from_numpy(host, device=device) for host in hosts)
    pairs = np.array([[0, 8], [3, 1], [-1, 2], [4, 9], [0, 5]], np.int32)
    paged_cache.copy_pages(k, v, gp.from_numpy(pairs, device=device))
    for host, cache in zip(hosts, (k, v), strict=True):
        host[8], host[1], host[5] = host[0], host[3], host[0]
        np.testing.assert_array_equal(cache.to_numpy(), host)
    paged_cache.copy_pages(k, None, gp.from_numpy(pairs[:1, ::-1].copy(), device=device))
    np.testing.assert_array_equal(k.to_numpy()[0], hosts[0][8])

    tables = np.array([[8, 2, -1], [1, 7, 0]], np.int32)
    lengths = np.array([20, 35], np.int32)
    t, n = (gp.from_numpy(x, device=device) for x in (tables, lengths))
    want = np.zeros((2, 48, 2, dim), dtype)
    for i in range(2):
        whole = hosts[1][tables[i]].reshape(48, 2, dim)
        want[i, : lengths[i]] = whole[: lengths[i]]
    got = paged_cache.gather_pages(v, t, 48, n)
    np.testing.assert_array_equal(got.to_numpy(), want)
    short = paged_cache.gather_pages(v, t, 20)
    np.testing.assert_array_equal(short.to_numpy()[0], want[0, :20])
    assert paged_cache.gather_pages(v, t, 0).shape == (2, 0, 2, dim)
    out = gp.zeros((2, 60, 2, dim), dtype, device=device)
    assert paged_cache.gather_pages(v, t, 60, n, out=out) is out
    np.testing.assert_array_equal(out.to_numpy()[:, :48], want)
    assert not out.to_numpy()[:, 48:].astype("f4").any()


def run_names_of_0_2(device: str | None = None) -> None:
    rng = np.random.default_rng(5)
    k, v = (rng.normal(size=(6, 2, 8)).astype(np.float16) for _ in range(2))
    x, y = (gp.from_numpy(host, device=device) for host in (k, v))
    caches = [gp.zeros((4, 2, 16, 8), "float16", device=device) for _ in range(2)]
    slots = np.array([0, 1, 17, 33, 63, 20], np.int32)
    places = gp.from_numpy(slots, device=device)
    paged_cache.reshape_and_cache(x[:4], y[:4], *caches, places[:4])
    paged_cache.copy_to_paged_cache(x[4:], y[4:], *caches, places[4:])
    for host, cache in ((k, caches[0]), (v, caches[1])):
        want = np.zeros((4, 2, 16, 8), np.float16)
        for t, slot in enumerate(slots):
            want[slot // 16, :, slot % 16] = host[t]
        np.testing.assert_array_equal(cache.to_numpy(), want)
    assert paged_cache.allocate_kv_cache(4, 2, 16, 8).shape == (4, 2, 16, 8)

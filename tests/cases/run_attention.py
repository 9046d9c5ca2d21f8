"""Runs the cases of attention on a device. Shared by tests/unit and tests/gpu."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import pygpukit as gp
from cases.attention import TOLERANCE, Case, attention
from pygpukit.ops import nn


def run_case(case: Case, device: str | None = None, engine: str = "") -> None:
    """`engine`: the kernel that has to take it on an SM90 GPU, where that is the device."""
    arguments, options = case.draw()
    want = attention(*arguments, **options)

    def give(x: Any) -> Any:
        return gp.from_numpy(x, device=device) if isinstance(x, np.ndarray) else x

    given = [give(x) for x in arguments]
    options = {name: give(x) for name, x in options.items()}
    got = nn.attention(*given, **options)
    if engine and gp.get_sm_version() == 90 and gp.is_nvrtc_available():
        assert engines(lambda: nn.attention(*given, **options), case.dim)[-1] == engine
    assert got.dtype.name == case.dtype
    assert got.shape == want.shape
    rtol, atol = TOLERANCE[case.dtype]
    np.testing.assert_allclose(got.to_numpy().astype(np.float64), want, rtol=rtol, atol=atol)


def engines(run: Callable[[], object], dim: int) -> list[str]:
    """The kernels that a call launches, known by their blocks and shared memory.

    The call has run before, so that nothing is compiled or allocated for the first time.
    """
    graph = gp.CudaGraph()
    with graph:
        run()
    tile = next(d for d in (32, 64, 96, 128, 192, 256) if dim <= d)
    simt = next(d for d in (64, 128, 256) if dim <= d)
    by_bytes = {
        (64 + 2 * (32 if tile > 128 else 64)) * (2 * tile + 16): "tile",
        4 * (16 * simt + 32 * (simt + 1) + 32 * simt): "simt",
    }
    by_threads = {256: "widen", 384: "prefill", 512: "prefill"}
    return [
        by_threads.get(launch["block"][0]) or by_bytes.get(launch["shared_mem"], "decode")
        for launch in graph.launches
        if launch["name"] == "attention"
    ]


def run_views(device: str | None = None) -> None:
    """Strided arguments and results, in place, other dtypes of out."""
    rng = np.random.default_rng(5)
    host = rng.normal(size=(2, 30, 3, 4, 64)).astype(np.float16)
    qkv = gp.from_numpy(host, device=device)
    q, k, v = (qkv[:, :, i] for i in range(3))
    want = attention(*(host[:, :, i] for i in range(3)), causal=True)
    rtol, atol = TOLERANCE["float16"]

    def check(got: gp.GPUArray) -> None:
        np.testing.assert_allclose(got.to_numpy().astype("f8"), want, rtol=rtol, atol=atol)

    check(nn.attention(q, k, v, causal=True))
    gaps = (x.copy()[..., ::1] for x in (q, k, v))
    check(nn.attention(*gaps, causal=True))
    wide = gp.zeros((2, 30, 4, 64), "float32", device=device)
    assert nn.attention(q, k, v, causal=True, out=wide) is wide
    check(wide)
    heads_first = gp.zeros((2, 4, 30, 64), "float16", device=device)
    nn.attention(q, k, v, causal=True, out=gp.permute_dims(heads_first, (0, 2, 1, 3)))
    check(gp.permute_dims(heads_first, (0, 2, 1, 3)))
    backwards = gp.flip(gp.flip(q, axis=3).copy(), axis=3)
    check(nn.attention(backwards, k, v, causal=True))
    assert nn.attention(q, k, v, causal=True, out=q) is q
    check(q)


def run_steps(device: str | None = None) -> None:
    """Backwards and repeated along every axis but the last."""
    rng = np.random.default_rng(8)
    host = rng.normal(size=(3, 2, 40, 4, 64)).astype(np.float16)
    rtol, atol = TOLERANCE["float16"]
    for number in range(3):
        for axis in range(3):
            given = [gp.from_numpy(x, device=device) for x in host]
            given[number] = gp.flip(given[number], axis=axis)
            same = [gp.from_numpy(x, device=device) for x in host]
            first = gp.take(same[number], gp.asarray([0], device=device), axis=axis)
            same[number] = gp.broadcast_to(first, host.shape[1:])
            for arguments in (given, same):
                want = attention(*(x.to_numpy() for x in arguments), causal=True)
                got = nn.attention(*arguments, causal=True).to_numpy()
                np.testing.assert_allclose(got.astype("f8"), want, rtol=rtol, atol=atol)


def run_sdpa(device: str | None = None) -> None:
    """The names of 0.2."""
    rng = np.random.default_rng(6)
    q, k, v = (rng.normal(size=(4, n, 128)).astype(np.float32) for n in (3, 20, 20))

    def give(x: Any) -> Any:
        return gp.from_numpy(np.asarray(x), device=device)

    def oracle(keys: int, **options: Any) -> Any:
        first = (np.moveaxis(x, 0, 1) for x in (q, k[:, :keys], v[:, :keys]))
        return np.moveaxis(attention(*(x[None] for x in first), **options)[0], 0, 1)

    Q, K, V = give(q), give(k), give(v)

    def check(got: Any, want: Any, tolerance: float = 1e-5) -> None:
        np.testing.assert_allclose(got.to_numpy(), want, rtol=tolerance, atol=tolerance)

    check(nn.sdpa_causal(Q, K, V), oracle(20, causal=True))
    out = gp.zeros((4, 3, 128), device=device)
    assert nn.sdpa_causal(Q, K, V, 0.25, out=out) is out
    check(out, oracle(20, causal=True, scale=0.25))
    nn.sdpa_causal_fixed_cache(Q, K, V, out, 11)
    check(out, oracle(11, causal=True))
    nn.sdpa_causal_fixed_cache_ptr(Q, K, V, out, give(np.array([7], np.int32)), 16)
    check(out, oracle(7, causal=True))
    nn.sdpa_causal_fp8(Q, K, V, out)
    check(out, oracle(20, causal=True), 0.1)
    assert isinstance(nn.fa3_fp8_available(), bool)
    positions = np.array([0, 8191, 20000])
    got = nn.sdpa_irope(Q, K, V, give(positions), causal_offset=4)
    q = q * (np.log1p((positions + 1) // 8192) * 0.1 + 1)[:, None].astype(np.float32)
    check(got, oracle(20, mask=np.tril(np.ones((3, 20), bool), 4)))
    pages = rng.normal(size=(2, 6, 4, 16, 128)).astype(np.float32)
    queries = rng.normal(size=(2, 8, 128)).astype(np.float32)
    table, lengths = np.array([[5, 0, 3], [1, 4, 2]], np.int32), np.array([40, 17], np.int32)
    got = nn.paged_attention_v1(give(queries), *map(give, pages), give(table), give(lengths))
    swapped = np.swapaxes(pages, 2, 3)
    want = attention(queries[:, None], *swapped, lengths=lengths, block_table=table)
    check(got, want[:, 0])

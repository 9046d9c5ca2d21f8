"""Attention on the GPU: the case table through every kernel, batch invariance, graphs."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from cases.attention import CASES, MUST_RAISE, TOLERANCE, Case, MustRaise, attention
from cases.run_attention import run_case, run_must_raise, run_sdpa, run_steps, run_views

import pygpukit as gp
from pygpukit.ops import nn

DTYPES = ("bfloat16", "float16")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    run_case(case, "cuda")


@pytest.mark.parametrize("case", MUST_RAISE, ids=str)
def test_must_raise(case: MustRaise) -> None:
    run_must_raise(case, "cuda")


def test_views() -> None:
    run_views("cuda")


def test_steps() -> None:
    run_steps("cuda")


def test_sdpa() -> None:
    run_sdpa("cuda")


def random(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> gp.GPUArray:
    return gp.astype(gp.from_numpy(rng.normal(size=shape).astype("f4"), device="cuda"), dtype)


def sampled(
    q: gp.GPUArray,
    k: gp.GPUArray,
    v: gp.GPUArray,
    out: gp.GPUArray,
    rows: list[int],
    **options: bool,
) -> None:
    """Compares some queries of the first and last head, in float64."""
    host = [x.to_numpy().astype(np.float64) for x in (q, k, v)]
    group = q.shape[2] // k.shape[2]
    shift = k.shape[1] - q.shape[1]
    rtol, atol = TOLERANCE[q.dtype.name]
    got = out.to_numpy().astype(np.float64)
    for batch in {0, q.shape[0] - 1}:
        for head in {0, q.shape[2] - 1}:
            for row in rows:
                seen = row + shift + 1 if options.get("causal") else k.shape[1]
                one = attention(
                    host[0][batch : batch + 1, row : row + 1, head : head + 1],
                    *(x[batch : batch + 1, :seen, head // group][:, :, None] for x in host[1:]),
                )
                np.testing.assert_allclose(
                    got[batch, row, head], one[0, 0, 0], rtol=rtol, atol=atol
                )


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", [64, 128, 256])
@pytest.mark.parametrize(("q_len", "kv_len"), [(1000, 1000), (129, 1111), (257, 256), (2048, 2048)])
def test_prefill(q_len: int, kv_len: int, dim: int, dtype: str, causal: bool) -> None:
    rng = np.random.default_rng(q_len + dim)
    q = random(rng, (2, q_len, 6, dim), dtype)
    k, v = (random(rng, (2, kv_len, 2, dim), dtype) for _ in range(2))
    out = gp.full(q.shape, float("nan"), dtype, device="cuda")
    nn.attention(q, k, v, causal=causal, out=out)
    sampled(q, k, v, out, [0, 1, 63, 64, q_len // 2, q_len - 1], causal=causal)
    again = nn.attention(q, k, v, causal=causal)
    np.testing.assert_array_equal(again.to_numpy(), out.to_numpy())


@pytest.mark.parametrize("dtype", [*DTYPES, "float8_e4m3fn"])
@pytest.mark.parametrize("dim", [64, 96, 128, 256])
@pytest.mark.parametrize("kv_len", [255, 1024, 10000])
def test_decode(kv_len: int, dim: int, dtype: str) -> None:
    rng = np.random.default_rng(kv_len + dim)
    compute = "bfloat16" if dtype.startswith("float8") else dtype
    q = random(rng, (3, 1, 8, dim), compute)
    k, v = (random(rng, (3, kv_len, 2, dim), dtype) for _ in range(2))
    out = nn.attention(q, k, v, causal=True)
    sampled(q, gp.astype(k, compute), gp.astype(v, compute), out, [0], causal=True)


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn"])
@pytest.mark.parametrize("q_len", [1, 3])
def test_a_sequence_has_the_same_bits_alone_and_in_a_batch(q_len: int, dtype: str) -> None:
    rng = np.random.default_rng(7)
    batch, room = 64, 3000
    q = random(rng, (batch, q_len, 8, 128), "bfloat16")
    k, v = (random(rng, (batch, room, 2, 128), dtype) for _ in range(2))
    lengths = gp.from_numpy(rng.integers(3, room + 1, batch).astype(np.int32), device="cuda")
    together = nn.attention(q, k, v, causal=True, lengths=lengths).to_numpy()
    for size in range(1, 65, 7):
        some = slice(batch - size, batch)
        part = nn.attention(q[some], k[some], v[some], causal=True, lengths=lengths[some])
        np.testing.assert_array_equal(part.to_numpy(), together[some])


def shuffled_pages(rng: np.random.Generator, page: int, *caches: gp.GPUArray) -> tuple[Any, ...]:
    """Contiguous caches as pages in a random order, and their block table."""
    batch, room, heads, dim = caches[0].shape
    order = rng.permutation(batch * room // page)
    where = gp.from_numpy(np.argsort(order), device="cuda")
    pages = (gp.take(x.reshape((-1, page, heads, dim)), where, axis=0) for x in caches)
    return *pages, gp.from_numpy(order.astype(np.int32).reshape(batch, -1), device="cuda")


@pytest.mark.parametrize("dim", [64, 128, 256])
@pytest.mark.parametrize("q_len", [1, 200])
def test_pages_give_the_bits_of_a_contiguous_cache(q_len: int, dim: int) -> None:
    rng = np.random.default_rng(8)
    q = random(rng, (4, q_len, 8, dim), "bfloat16")
    k, v = (random(rng, (4, 1024, 2, dim), "bfloat16") for _ in range(2))
    lengths = gp.from_numpy(np.array([1024, 1, 77, 640], np.int32), device="cuda")
    want = nn.attention(q, k, v, causal=True, lengths=lengths).to_numpy()
    for page in (16, 64, 256):
        *pages, table = shuffled_pages(rng, page, k, v)
        got = nn.attention(q, *pages, causal=True, lengths=lengths, block_table=table)
        np.testing.assert_array_equal(got.to_numpy(), want)


@pytest.mark.parametrize("dim", [64, 128])
def test_chunks_of_a_prompt_give_the_bits_of_one_pass(dim: int) -> None:
    rng = np.random.default_rng(11)
    length = 700
    q = random(rng, (length, 8, dim), "bfloat16")
    *pages, table = shuffled_pages(
        rng, 64, *(random(rng, (1, 1024, 2, dim), "bfloat16") for _ in range(2))
    )

    def attend(first: int, last: int) -> np.ndarray[Any, Any]:
        starts = gp.from_numpy(np.array([0, last - first], np.int32), device="cuda")
        seen = gp.from_numpy(np.array([last], np.int32), device="cuda")
        options = {"cu_seqlens_q": starts, "lengths": seen, "block_table": table}
        return nn.attention(q[first:last], *pages, causal=True, **options).to_numpy()

    whole = attend(0, length)
    for cuts in ([0, 1, 17, 128, 700], [0, 300, 699, 700]):
        parts = [attend(first, last) for first, last in itertools.pairwise(cuts)]
        np.testing.assert_array_equal(np.concatenate(parts), whole)


def test_graph_reads_lengths_on_the_device() -> None:
    rng = np.random.default_rng(9)
    q = random(rng, (2, 1, 8, 128), "bfloat16")
    k, v = (random(rng, (2, 2048, 2, 128), "bfloat16") for _ in range(2))
    lengths = gp.from_numpy(np.array([5, 2000], np.int32), device="cuda")
    out = gp.empty_like(q)
    nn.attention(q, k, v, causal=True, lengths=lengths, out=out)
    graph = gp.CudaGraph()
    with graph:
        nn.attention(q, k, v, causal=True, lengths=lengths, out=out)
    for now in ([5, 2000], [2048, 1], [700, 701]):
        lengths[...] = gp.from_numpy(np.array(now, np.int32), device="cuda")
        graph.replay()
        want = nn.attention(q, k, v, causal=True, lengths=lengths).to_numpy()
        np.testing.assert_array_equal(out.to_numpy(), want)

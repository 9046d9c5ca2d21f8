"""Attention on the GPU: the case table through every kernel, batch invariance, graphs."""

from __future__ import annotations

import itertools
import os
from typing import Any

import numpy as np
import pytest
from cases.attention import (
    CASES,
    ENGINE_CASES,
    MUST_RAISE,
    TOLERANCE,
    Case,
    MustRaise,
    attention,
)
from cases.must_raise import run_must_raise
from cases.nn_fuzz import count, run_attention_case
from cases.run_attention import (
    engines,
    run_case,
    run_sdpa,
    run_steps,
    run_views,
)

import pygpukit as gp
from pygpukit.ops import nn

DTYPES = ("bfloat16", "float16")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    run_case(case, "cuda")


@pytest.mark.parametrize(("engine", "case"), ENGINE_CASES, ids=str)
def test_engine(engine: str, case: Case) -> None:
    run_case(case, "cuda", engine)


@pytest.mark.parametrize("case", MUST_RAISE, ids=str)
def test_must_raise(case: MustRaise) -> None:
    run_must_raise(case, "cuda")


@pytest.mark.parametrize("number", range(count(200)))
def test_fuzz(number: int) -> None:
    run_attention_case(number, "cuda", 90)


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


@pytest.mark.parametrize("page", [0, 32])
@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn"])
def test_decode_has_the_same_bits_in_every_batch(dtype: str, page: int) -> None:
    """Of 1 to 64 sequences, with one and two splits of 256 keys."""
    rng = np.random.default_rng(13)
    q = random(rng, (64, 1, 4, 64), "bfloat16")
    k, v = (random(rng, (64, 320, 2, 64), dtype) for _ in range(2))
    lengths = gp.from_numpy(rng.integers(1, 321, 64).astype(np.int32), device="cuda")
    table = None
    if page:
        k, v, table = shuffled_pages(rng, page, k, v)

    def attend(size: int) -> np.ndarray[Any, Any]:
        some = slice(64 - size, 64)
        caches = (k, v) if page else (k[some], v[some])
        tables = {} if table is None else {"block_table": table[some]}
        return nn.attention(
            q[some], *caches, causal=True, lengths=lengths[some], **tables
        ).to_numpy()

    together = attend(64)
    for size in range(1, 64):
        np.testing.assert_array_equal(attend(size), together[64 - size :])


@pytest.mark.alone
@pytest.mark.parametrize("q_len", [1, 8192])
def test_more_than_two_to_the_31_elements(q_len: int) -> None:
    """The last sequence has the bits it has alone."""
    rng = np.random.default_rng(14)
    batch, last = 2**8 + 1, {}
    for name, length in (("q", q_len), ("k", 8192), ("v", 8192)):
        last[name] = random(rng, (1, length, 8, 128), "bfloat16")
    full = [gp.zeros((batch, *x.shape[1:]), "bfloat16", device="cuda") for x in last.values()]
    for array, x in zip(full, last.values(), strict=True):
        array[-1:] = x
    assert full[1].size > 2**31
    got = nn.attention(*full, causal=True)[-1:]
    want = nn.attention(*last.values(), causal=True)
    np.testing.assert_array_equal(got.to_numpy(), want.to_numpy())


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


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn"])
@pytest.mark.parametrize("dim", [64, 128])
def test_chunks_of_a_prompt_give_the_bits_of_one_pass(dim: int, dtype: str) -> None:
    rng = np.random.default_rng(11)
    length = 700
    q = random(rng, (length, 8, dim), "bfloat16")
    *pages, table = shuffled_pages(
        rng, 64, *(random(rng, (1, 1024, 2, dim), dtype) for _ in range(2))
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


@pytest.mark.parametrize("engine", ["tile", "prefill", "decode"])
@pytest.mark.parametrize("spare", [0, 7])
def test_8_bit_pages_give_the_bits_of_wide_ones(spare: int, engine: str) -> None:
    """A prompt's chunks in a graph, whose lengths and tables change."""
    rng = np.random.default_rng(12)
    dim, q_len = {"tile": (48, 40), "prefill": (64, 40), "decode": (256, 3)}[engine]
    keys, values = (random(rng, (2, 256, 2, dim), "float8_e4m3fn") for _ in range(2))
    *pages, table = shuffled_pages(rng, 32, keys, values)
    pages = [gp.concatenate([x, gp.zeros_like(x)[:spare]]) for x in pages]
    options: dict[str, Any] = {"causal": True, "block_table": table}
    q = random(rng, (2, q_len, 4, dim), "bfloat16")
    if engine == "prefill":
        q = q.reshape((2 * q_len, 4, dim))
        starts = np.array([0, q_len + 3, 2 * q_len], np.int32)
        options["cu_seqlens_q"] = gp.from_numpy(starts, device="cuda")
    options["lengths"] = gp.from_numpy(np.array([256, 50], np.int32), device="cuda")
    out = nn.attention(q, *pages, **options)
    graph = gp.CudaGraph()
    with graph:
        nn.attention(q, *pages, out=out, **options)
    if engine != "prefill" or gp.get_sm_version() == 90:
        assert engines(lambda: nn.attention(q, *pages, **options), dim) == ["widen", engine]
    wide = [gp.astype(x, "bfloat16") for x in pages]
    for lengths in ([256, 50], [77, 200], [43, 37]):
        options["lengths"][...] = gp.from_numpy(np.array(lengths, np.int32), device="cuda")
        table[...] = gp.flip(table.reshape((-1,)), axis=0).reshape(table.shape)
        graph.replay()
        want = nn.attention(q, *wide, **options).to_numpy()
        np.testing.assert_array_equal(out.to_numpy(), want)


@pytest.mark.parametrize("engine", ["tile", "prefill", "decode"])
@pytest.mark.parametrize("columns", [11, 12])  # a page for each entry; pages keep their ids
def test_8_bit_pages_behind_a_window_may_be_none(columns: int, engine: str) -> None:
    rng = np.random.default_rng(13)
    page, window = 16, 20
    dim, q_len = {"tile": (48, 40), "prefill": (64, 40), "decode": (256, 3)}[engine]
    pages = [random(rng, (24, page, 1, dim), "float8_e4m3fn") for _ in range(2)]
    order = rng.permutation(24)[: 2 * columns].astype(np.int32).reshape(2, columns)
    q = random(rng, (2, q_len, 1, dim), "bfloat16")
    options: dict[str, Any] = {"causal": True, "window": window}
    options["lengths"] = gp.from_numpy(np.array([176, 150], np.int32), device="cuda")
    if engine == "prefill":
        q = q.reshape((2 * q_len, 1, dim))
        starts = np.array([0, q_len, 2 * q_len], np.int32)
        options["cu_seqlens_q"] = gp.from_numpy(starts, device="cuda")
    table = gp.from_numpy(order, device="cuda")
    wide = [gp.astype(x, "bfloat16") for x in pages]
    want = nn.attention(q, *wide, block_table=table, **options).to_numpy()
    for row, length in zip(order, (176, 150), strict=True):
        slid_out = (length - q_len - window + 1) // page
        row[:slid_out] = np.resize([24, -1, 2**31 - 1, -(2**31)], slid_out)
    table = gp.from_numpy(order, device="cuda")

    def attend() -> np.ndarray[Any, Any]:
        return nn.attention(q, *pages, block_table=table, **options).to_numpy()

    if os.environ.get("PYGPUKIT_DEVICE", "").startswith("sim"):
        report = gp.sim.check(attend)
        assert report.ok, str(report)
    np.testing.assert_array_equal(attend(), want)


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

"""Attention: prefill in TFLOP/s, decode in bytes of keys and values per second.

The peer is the best of PyTorch's back ends. Causal prefill counts half the operations.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from pygpukit import _native
from pygpukit.benchmark.contest import Arrays, Build, Case, Entry, run_case
from pygpukit.benchmark.measure import Step
from pygpukit.benchmark.oracle import relative_error, sample_indices, to_float64
from pygpukit.benchmark.product_cases import FP8
from pygpukit.benchmark.report import OURS, BenchmarkResult
from pygpukit.benchmark.session import Session
from pygpukit.benchmark.sizes import NUM_SHAPES, Sizes
from pygpukit.benchmark.summary import note_ratios, note_speedups, shape_label
from pygpukit.random import default_rng

if TYPE_CHECKING:
    from numpy.typing import NDArray

TOKENS = 16384  # of a prefill: batch times length
LENGTHS = (1024, 4096, 16384)
DECODES = ((1, 4096), (1, 32768), (32, 4096), (64, 8192))  # batch, length
PAGES = (16, 64)
BACKENDS = {"cudnn": "CUDNN_ATTENTION", "flash": "FLASH_ATTENTION"}
TOLERANCE = 1e-2  # probabilities are bfloat16 in the second product
MAX_CACHE_BYTES = 2**32


@dataclass(frozen=True)
class Shape:
    """Queries see `length` keys; decode has one query."""

    batch: int
    length: int
    heads: int
    kv_heads: int
    dim: int
    causal: bool = True

    @property
    def params(self) -> dict[str, Any]:
        """As in the table."""
        return {
            "s": self.length,
            "batch": self.batch,
            "heads": f"{self.heads}/{self.kv_heads}",
            "dim": self.dim,
        }

    @property
    def cache_elems(self) -> int:
        """Of keys and values."""
        return 2 * self.batch * self.length * self.kv_heads * self.dim


def run(session: Session) -> None:
    """Runs the suite."""
    prefills = [
        row
        for shape in prefill_shapes(session)
        for row in run_case(session, "attention", prefill_case(shape))
    ]
    note_speedups(session, "attention, prefill", prefills)
    decodes = []
    for shape in decode_shapes(session):
        rows = run_case(session, "attention", decode_case(shape))
        _compare_caches(rows)
        decodes += rows
    note_speedups(session, "attention, decode", [row for row in decodes if row.name == "decode"])
    for key, title, meaning in (
        ("of_contiguous", "paged decode", "of the contiguous rate"),
        ("of_bfloat16", "fp8 decode", "speedup over bfloat16 caches"),
    ):
        ratios = {shape_label(row): row.extra[key] for row in decodes if key in row.extra}
        note_ratios(session, f"attention, {title}", meaning, ratios)


def _compare_caches(rows: list[BenchmarkResult]) -> None:
    ours = {row.name: row for row in rows if row.impl == OURS}
    base = ours["decode"].median_us
    for name, row in ours.items():
        if name.startswith("decode_paged"):
            row.extra["of_contiguous"] = base / row.median_us
        elif name == "decode_fp8":
            row.extra["of_bfloat16"] = base / row.median_us


# --- shapes -------------------------------------------------------------------------------------


def prefill_shapes(session: Session) -> list[Shape]:
    """The number of tokens is constant."""
    tokens, lengths, heads = (TOKENS, LENGTHS, 32) if session.on_gpu else (32, (8, 16), 4)
    if session.shapes_seed is not None:
        sizes = Sizes(session.shapes_seed, 1)
        return [_drawn_prefill(sizes, tokens) for _ in range(NUM_SHAPES)]
    shapes = [
        Shape(max(1, tokens // length), length, heads, heads // group, dim, causal)
        for dim in (128, 64)
        for length in session.seq_lens or lengths
        for causal in (True, False)
        for group in (1, 4)
    ]
    if session.quick:
        return [shape for shape in shapes if shape.dim == 128 and shape.kv_heads < heads]
    return shapes


def _drawn_prefill(sizes: Sizes, tokens: int) -> Shape:
    length = sizes.log(max(tokens // 32, 5), tokens)
    kv_heads, group = sizes.one(1, 2, 4, 8), sizes.one(1, 2, 4, 8)
    causal = bool(sizes.one(0, 1))
    return Shape(
        max(1, tokens // length), length, kv_heads * group, kv_heads, sizes.one(64, 128), causal
    )


def decode_shapes(session: Session) -> list[Shape]:
    """One new token per sequence."""
    if session.shapes_seed is not None:
        sizes = Sizes(session.shapes_seed, 2)
        return [_drawn_decode(sizes, session.on_gpu) for _ in range(NUM_SHAPES)]
    if not session.on_gpu:
        return [Shape(2, 64, 4, 2, 64)]
    return [
        Shape(batch, length, 32, 8, 128)
        for batch, length in (DECODES if not session.quick else DECODES[::2])
    ]


def _drawn_decode(sizes: Sizes, on_gpu: bool) -> Shape:
    """Lengths are whole pages."""
    longest, most = (32768, 128) if on_gpu else (192, 3)
    while True:
        kv_heads, group = sizes.one(1, 2, 4, 8), sizes.one(1, 2, 4, 8)
        length = sizes.log(longest // 64, longest, max(PAGES))
        shape = Shape(sizes.log(1, most), length, kv_heads * group, kv_heads, sizes.one(64, 128))
        if 2 * shape.cache_elems <= MAX_CACHE_BYTES:
            return shape


# --- cases --------------------------------------------------------------------------------------


def prefill_case(shape: Shape) -> Case:
    """All queries of a sequence at once."""
    query_elems = shape.batch * shape.length * shape.heads * shape.dim
    flops = 4.0 * query_elems * shape.length / (2 if shape.causal else 1)

    def ours(q: Any, k: Any, v: Any, out: Any) -> Step:
        return lambda: _native.attention(q, k, v, causal=shape.causal, out=out)

    def error(arrays: Arrays, out: Any) -> float:
        q, k, v, _ = arrays
        return attention_error(shape, q, out, lambda b, h: (k[b, :, h], v[b, :, h]))

    def entry(build: Build, **more: Any) -> Entry:
        return Entry(build, error, flops=flops, tolerance=TOLERANCE, **more)

    return Case(
        "prefill",
        {**shape.params, "causal": shape.causal, "dtype": "bfloat16"},
        lambda: _random_arrays(shape, shape.length),
        [entry(ours), *(entry(b, impl="torch", backend=n) for n, b in _peers(shape))],
        rotated_bytes=2 * (shape.cache_elems + 2 * query_elems),
    )


class Caches(NamedTuple):
    """The arrays of decode; the same keys and values are contiguous and pages in random order."""

    q: Any
    k: Any
    v: Any
    out: Any
    k8: Any
    v8: Any
    lengths: Any
    tables: tuple[Any, ...]  # by PAGES

    @classmethod
    def of(cls, arrays: Arrays) -> Caches:
        """From one flat set."""
        q, k, v, out, k8, v8, lengths, *tables = arrays
        return cls(q, k, v, out, k8, v8, lengths, tuple(tables))


# The keys and values of a sequence and a key head.
Cache = Callable[[Caches, int, int], tuple[Any, Any]]


def decode_case(shape: Shape) -> Case:
    """One query against a cache: contiguous, paged, FP8."""
    num_bytes = 2 * shape.cache_elems
    host_tables = _page_tables(shape)

    def arrays() -> Arrays:
        q, k, v, out = _random_arrays(shape, 1)
        tables = [_native.from_numpy(table) for table in host_tables]
        lengths = _native.full(shape.batch, shape.length, "int32")
        return (q, k, v, out, k.astype(FP8), v.astype(FP8), lengths, *tables)

    def contiguous(*given: Any) -> Step:
        c = Caches.of(given)
        return lambda: _native.attention(c.q, c.k, c.v, causal=True, out=c.out)

    def eight_bits(*given: Any) -> Step:
        c = Caches.of(given)
        return lambda: _native.attention(c.q, c.k8, c.v8, causal=True, out=c.out)

    def entry(build: Build, cache: Cache, **more: Any) -> Entry:
        def error(given: Arrays, out: Any) -> float:
            c = Caches.of(given)
            return attention_error(shape, c.q, out, lambda b, h: cache(c, b, h))

        return Entry(build, error, tolerance=TOLERANCE, **{"bytes": num_bytes, **more})

    return Case(
        "decode",
        {**shape.params, "dtype": "bfloat16"},
        arrays,
        [
            entry(contiguous, _contiguous_cache),
            *(
                entry(build, _contiguous_cache, impl="torch", backend=name)
                for name, build in _peers(shape)
            ),
            *(
                entry(_paged_build(i), _paged_cache(i), name=f"decode_paged{page}")
                for i, page in enumerate(PAGES)
            ),
            entry(
                eight_bits,
                lambda c, b, h: (c.k8[b, :, h], c.v8[b, :, h]),
                name="decode_fp8",
                bytes=num_bytes // 2,
            ),
        ],
        rotated_bytes=num_bytes // 2,
    )


def _contiguous_cache(c: Caches, b: int, h: int) -> tuple[Any, Any]:
    return c.k[b, :, h], c.v[b, :, h]


def _paged_build(number: int) -> Build:
    def build(*given: Any) -> Step:
        c = Caches.of(given)
        k, v = (x.reshape((-1, PAGES[number], *x.shape[2:])) for x in (c.k, c.v))
        table = c.tables[number]
        return lambda: _native.attention(
            c.q, k, v, causal=True, lengths=c.lengths, block_table=table, out=c.out
        )

    return build


def _paged_cache(number: int) -> Cache:
    def cache(c: Caches, b: int, h: int) -> tuple[Any, Any]:
        dim = c.k.shape[3]
        pages = (x[:, :, h].reshape((-1, PAGES[number], dim)) for x in (c.k, c.v))
        k, v = (_native.take(x, c.tables[number][b], axis=0).reshape((-1, dim)) for x in pages)
        return k, v

    return cache


def _random_arrays(shape: Shape, queries: int) -> Arrays:
    """q, k, v and the result."""
    random = default_rng(1)
    query = (shape.batch, queries, shape.heads, shape.dim)
    cache = (shape.batch, shape.length, shape.kv_heads, shape.dim)
    drawn = (random.standard_normal(size, dtype="bfloat16") for size in (query, cache, cache))
    return (*drawn, _native.empty(query, "bfloat16"))


def _page_tables(shape: Shape) -> list[NDArray[Any]]:
    """Pages in random order, for each size of a page."""
    import numpy as np

    rng = np.random.default_rng(2)
    tables = []
    for page in PAGES:
        blocks = shape.batch * shape.length // page
        tables.append(rng.permutation(blocks).astype(np.int32).reshape(shape.batch, -1))
    return tables


def _peers(shape: Shape) -> Iterator[tuple[str, Build]]:
    """PyTorch's back ends for this shape, with heads first."""
    for name, member in BACKENDS.items():

        def build(torch: Any, q: Any, k: Any, v: Any, *_: Any, member: str = member) -> Step:
            module = importlib.import_module("torch.nn.attention")
            backend = getattr(module.SDPBackend, member)
            heads_first = [x.transpose(1, 2) for x in (q, k, v)]
            causal = shape.causal and q.shape[1] > 1
            grouped = shape.heads != shape.kv_heads

            def step() -> Any:
                with module.sdpa_kernel(backend):
                    return torch.nn.functional.scaled_dot_product_attention(
                        *heads_first, is_causal=causal, enable_gqa=grouped
                    ).transpose(1, 2)

            return step

        yield name, build


# --- correctness --------------------------------------------------------------------------------


def attention_error(
    shape: Shape, q: Any, out: Any, cache: Callable[[int, int], tuple[Any, Any]]
) -> float:
    """Of sampled queries; `cache` gives the keys and values of a sequence and a key head."""
    import numpy as np

    queries = int(q.shape[1])
    picked = [sample_indices(size, 6) for size in (shape.batch, shape.heads, queries)]
    got, ref = [], []
    for i in range(max(len(indices) for indices in picked)):
        b, h, at = (int(indices[i % len(indices)]) for indices in picked)
        end = shape.length - queries + at + 1 if shape.causal else shape.length
        keys, values = (to_float64(x[:end]) for x in cache(b, h * shape.kv_heads // shape.heads))
        scores = keys @ to_float64(q[b, at, h]) / math.sqrt(shape.dim)
        weights = np.exp(scores - scores.max())
        ref.append(weights @ values / weights.sum())
        got.append(to_float64(out[b, at, h]))
    return relative_error(np.stack(got), np.stack(ref))

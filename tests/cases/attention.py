"""Cases of attention: arguments, a float64 oracle that goes query by query, refused calls."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes  # noqa: F401 - makes np.dtype("bfloat16") work
import numpy as np

from cases.must_raise import MustRaise
from pygpukit.ops import nn

# |got - want| <= atol + rtol * |want|; results are of the order of 1.
TOLERANCE = {"float32": (2e-5, 4e-6), "float16": (4e-3, 2e-3), "bfloat16": (2e-2, 1.5e-2)}


@dataclass(frozen=True)
class Case:
    dtype: str
    q: int  # queries
    kv: int
    heads: int = 4
    kv_heads: int = 2
    dim: int = 64
    value_dim: int = 0  # 0: dim
    batch: int = 2
    options: dict[str, Any] = field(default_factory=dict, hash=False)
    arrays: tuple[str, ...] = ()  # mask, bias, sinks, lengths
    packed: bool = False
    page: int = 0
    spare: int = 0  # pages that no table names
    narrow: bool = False  # float8_e4m3fn keys and values

    def __str__(self) -> str:
        parts = [self.dtype, f"{self.batch}x{self.q}x{self.kv}", f"{self.heads}/{self.kv_heads}"]
        parts += [f"d{self.dim}" + (f"-{self.value_dim}" if self.value_dim else "")]
        parts += [f"{name}={value}" for name, value in self.options.items()]
        parts += [*self.arrays, *(["packed"] if self.packed else [])]
        parts += [f"page{self.page}"] if self.page else []
        parts += [f"spare{self.spare}"] if self.spare else []
        return "-".join(parts + (["fp8"] if self.narrow else []))

    def draw(self) -> tuple[list[Any], dict[str, Any]]:
        """q, k, v and the keyword arguments, as NumPy arrays."""
        rng = np.random.default_rng(zlib.crc32(str(self).encode()))
        kv_dtype = "float8_e4m3fn" if self.narrow else self.dtype

        def normal(*shape: int, dtype: str = self.dtype) -> Any:
            return rng.normal(size=shape).astype(np.float32).astype(dtype)

        options = dict(self.options)
        value_dim = self.value_dim or self.dim
        q = normal(self.batch, self.q, self.heads, self.dim)
        k = normal(self.batch, self.kv, self.kv_heads, self.dim, dtype=kv_dtype)
        v = normal(self.batch, self.kv, self.kv_heads, value_dim, dtype=kv_dtype)
        if "mask" in self.arrays:
            options["mask"] = rng.random((self.heads, self.q, self.kv)) < 0.7
        if "bias" in self.arrays:
            options["bias"] = normal(self.batch, 1, self.q, self.kv, dtype="float32")
        if "sinks" in self.arrays:
            options["sinks"] = normal(self.heads, dtype="float32")
        if "lengths" in self.arrays:
            options["lengths"] = rng.integers(0, self.kv + 1, self.batch).astype(np.int32)
            # What is not valid may be anything.
            for b, length in enumerate(options["lengths"]):
                k[b, length:] = v[b, length:] = np.nan
        if self.packed:
            q, options["cu_seqlens_q"] = _pack(rng, q)
            if "lengths" not in self.arrays:
                state = rng.bit_generator.state
                k, options["cu_seqlens_k"] = _pack(rng, k)
                rng.bit_generator.state = state
                v, _ = _pack(rng, v)
        if self.page:
            blocks = self.kv // self.page
            pages = self.batch * blocks + self.spare
            table = rng.permutation(pages)[: self.batch * blocks].astype(np.int32)
            table = table.reshape(self.batch, blocks)
            k, v = (_paginate(x, table, self.page, pages) for x in (k, v))
            options["block_table"] = table
        return [q, k, v], options


def _pack(rng: np.random.Generator, x: Any) -> tuple[Any, Any]:
    sizes = rng.integers(0, x.shape[1] + 1, x.shape[0])
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    return np.concatenate([x[b, :size] for b, size in enumerate(sizes)]), starts


def _paginate(x: Any, table: Any, page: int, num_pages: int) -> Any:
    pages = np.full((num_pages, page, *x.shape[2:]), np.nan, x.dtype)
    pages[table.reshape(-1)] = x.reshape(table.size, page, *x.shape[2:])
    return pages


# --- the oracle ---------------------------------------------------------------------------------


def attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    causal: bool = False,
    mask: Any = None,
    bias: Any = None,
    window: int = 0,
    softcap: float = 0.0,
    sinks: Any = None,
    scale: float | None = None,
    lengths: Any = None,
    cu_seqlens_q: Any = None,
    cu_seqlens_k: Any = None,
    max_seqlen_q: int = 0,
    block_table: Any = None,
    k_scale: float = 1.0,
    v_scale: float = 1.0,
) -> Any:
    if q.ndim == 3 and cu_seqlens_q is None:
        return attention(q[None], k[None], v[None], causal=causal, window=window, scale=scale)[0]
    out = np.zeros((*q.shape[:-1], v.shape[-1]))
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    group = q.shape[-2] // k.shape[-2]
    batch = q.shape[0] if cu_seqlens_q is None else len(cu_seqlens_q) - 1
    for b in range(batch):
        rows = range(q.shape[1]) if cu_seqlens_q is None else range(*cu_seqlens_q[b : b + 2])
        if cu_seqlens_k is not None:
            keys, values = (x[cu_seqlens_k[b] : cu_seqlens_k[b + 1]] for x in (k, v))
        elif block_table is not None:
            keys, values = (np.concatenate(list(x[block_table[b]])) for x in (k, v))
        else:
            keys, values = k[b], v[b]
        length = len(keys) if lengths is None else lengths[b]
        for (i, row), head in itertools.product(enumerate(rows), range(q.shape[-2])):
            query = (q[b, row, head] if cu_seqlens_q is None else q[row, head]).astype(np.float64)
            position = i + length - len(rows)
            total = 0.0 if sinks is None else np.exp(np.float64(sinks[head]))
            result = np.zeros(v.shape[-1])
            for j in range(length):
                if (causal and j > position) or (window and j <= position - window):
                    continue
                score = query @ keys[j, head // group].astype(np.float64) * scale * k_scale
                if softcap:
                    score = softcap * np.tanh(score / softcap)
                if (
                    mask is not None
                    and not np.broadcast_to(mask, (batch, q.shape[2], q.shape[1], k.shape[1]))[
                        b, head, i, j
                    ]
                ):
                    continue
                if bias is not None:
                    score += np.broadcast_to(bias, (batch, q.shape[2], q.shape[1], k.shape[1]))[
                        b, head, i, j
                    ]
                weight = np.exp(score)
                total += weight
                result += weight * values[j, head // group].astype(np.float64) * v_scale
            place = (b, row, head) if cu_seqlens_q is None else (row, head)
            out[place] = result / total if total else 0
    return out


# --- the table ----------------------------------------------------------------------------------


def _combinations(dtype: str, q: int, kv: int, **sizes: Any) -> Iterator[Case]:
    """Every combination of what hides, moves or adds scores."""
    flags = ("causal", "window", "softcap", "mask", "bias", "sinks", "lengths")
    values = {"causal": True, "window": 3, "softcap": 2.0}
    for chosen in itertools.product((False, True), repeat=len(flags)):
        names = [name for name, on in zip(flags, chosen, strict=True) if on]
        yield Case(
            dtype,
            q,
            kv,
            options={name: values[name] for name in names if name in values},
            arrays=tuple(name for name in names if name not in values),
            **sizes,
        )


def _shapes(dtype: str) -> Iterator[Case]:
    causal = {"causal": True}
    for q, kv in (
        (1, 1),
        (1, 300),
        (3, 40),
        (16, 16),
        (33, 70),
        (5, 2),
        (0, 4),
        (4, 0),
        (200, 200),
    ):
        yield Case(dtype, q, kv, options=causal)
    for heads, kv_heads in ((1, 1), (3, 3), (6, 2), (8, 1), (20, 1)):
        yield Case(dtype, 20, 33, heads=heads, kv_heads=kv_heads)
        yield Case(dtype, 2, 33, heads=heads, kv_heads=kv_heads, options=causal)
    for dim in (8, 20, 32, 48, 80, 96, 128, 192, 256):
        yield Case(dtype, 2, 19, dim=dim)
        yield Case(dtype, 20, 30, dim=dim, options=causal)
    yield Case(dtype, 20, 30, dim=192, value_dim=128)
    yield Case(dtype, 2, 30, dim=64, value_dim=32)
    yield Case(dtype, 2, 30, dim=16, value_dim=200)
    yield Case(dtype, 3, 30, batch=0)
    for q, kv in ((7, 9), (40, 60)):
        yield Case(dtype, q, kv, batch=4, packed=True, options=causal)
        yield Case(dtype, q, kv, batch=3, packed=True)
        yield Case(dtype, q, kv, batch=3, packed=True, arrays=("lengths",), options=causal)
    for page in (16, 64):
        for q in (1, 3, 30):
            yield Case(dtype, q, 3 * page, page=page, arrays=("lengths",), options=causal)
        yield Case(dtype, 9, 2 * page, page=page, arrays=("lengths", "sinks"), dim=128)
    scales = {"k_scale": 0.5, "v_scale": 2.0, "causal": True}
    for q in (1, 40):
        yield Case(dtype, q, 70, narrow=True, options=scales)
        yield Case(dtype, q, 64, narrow=True, options=scales, page=32, arrays=("lengths",))
    # Prompts in chunks against 8-bit pages.
    chunk = {"narrow": True, "packed": True, "arrays": ("lengths",)}
    yield Case(dtype, 40, 128, page=16, spare=5, options=scales, **chunk)
    yield Case(dtype, 40, 128, page=64, options=scales, **chunk)
    yield Case(dtype, 9, 96, page=32, spare=1, dim=48, options={"causal": True}, **chunk)
    yield Case(dtype, 40, 1024, page=64, spare=2, options={**scales, "window": 20}, **chunk)
    yield Case(dtype, 2, 65, options={"scale": 0.3})


CASES: list[Case] = [
    *_combinations("float32", 5, 9, dim=16),
    *_combinations("bfloat16", 2, 11),
    *(case for dtype in TOLERANCE for case in _shapes(dtype)),
]


def _engine_cases() -> Iterator[tuple[str, Case]]:
    """The kernel of SM90 that has to take a case, and the case: several tiles of everything."""
    sizes: dict[str, Any] = {"heads": 2, "kv_heads": 1, "batch": 2}
    for dim, chosen in itertools.product(
        (64, 128, 256), itertools.product((False, True), repeat=4)
    ):
        window, softcap, sinks, lengths = chosen
        options: dict[str, Any] = {"causal": True} if window or sinks else {}
        options |= {"window": 70} if window else {}
        options |= {"softcap": 3.0} if softcap else {}
        arrays = [name for name, on in (("sinks", sinks), ("lengths", lengths)) if on]
        engine = "tile" if dim == 256 and softcap else "prefill"
        dtype = "float16" if sinks != lengths else "bfloat16"
        yield engine, Case(dtype, 140, 200, dim=dim, options=options, arrays=tuple(arrays), **sizes)
    for dim in (64, 96, 128, 256):
        engine = "tile" if dim == 96 else "prefill"
        for options in ({"causal": True}, {"causal": True, "window": 40}):
            for page in (16, 128):
                yield engine, Case(
                    "bfloat16", 140, 256, dim=dim, page=page, spare=1, options=options,
                    arrays=("lengths", "sinks"), **sizes,
                )  # fmt: skip
            yield engine, Case("float16", 140, 200, dim=dim, packed=True, options=options, **sizes)
            yield engine, Case(
                "bfloat16", 140, 256, dim=dim, packed=True, page=32, options=options,
                arrays=("lengths",), **sizes,
            )  # fmt: skip
    for arrays in (("mask",), ("bias", "sinks"), ("mask", "bias", "lengths")):
        yield "tile", Case("bfloat16", 140, 200, options={"causal": True}, arrays=arrays, **sizes)


ENGINE_CASES = list(_engine_cases())


def _refused() -> Iterator[MustRaise]:
    def case(
        label: str,
        error: type[Exception],
        words: tuple[str, ...],
        shapes: Any = None,
        **changes: Any,
    ) -> MustRaise:
        shapes = shapes or ((2, 3, 4, 8), (2, 5, 2, 8), (2, 5, 2, 8))
        dtypes = changes.pop("dtypes", ("float32",) * 3)

        def call(give: Callable[[Any], Any]) -> object:
            arrays = [give(np.ones(s, d)) for s, d in zip(shapes, dtypes, strict=True)]
            options = {
                name: give(value) if isinstance(value, np.ndarray) else value
                for name, value in changes.items()
            }
            return nn.attention(*arrays, **options)

        return MustRaise("attention", label, call, error, words)

    i32 = np.int32
    good = (2, 3, 4, 8)
    yield case("dtype", TypeError, ("q has dtype", "float16"), dtypes=("int32",) * 3)
    yield case(
        "dtype-k",
        TypeError,
        ("k has dtype float16", "float32"),
        dtypes=("float32", "float16", "float32"),
    )
    yield case(
        "dtype-v",
        TypeError,
        ("v has dtype", "as k"),
        dtypes=("float32", "float32", "float8_e4m3fn"),
    )
    yield case("rank-q", ValueError, ("q has shape (4, 8)",), ((4, 8), good, good))
    yield case(
        "rank-k",
        ValueError,
        ("k has shape (5, 2, 8)", "(batch, kv_len"),
        (good, (5, 2, 8), (5, 2, 8)),
    )
    yield case(
        "v-keys",
        ValueError,
        ("v has shape (2, 6, 2, 8)", "that of k"),
        (good, (2, 5, 2, 8), (2, 6, 2, 8)),
    )
    yield case(
        "dims",
        ValueError,
        ("k has shape", "head dimension of 8"),
        (good, (2, 5, 2, 4), (2, 5, 2, 8)),
    )
    yield case("heads", ValueError, ("divides q's 4",), (good, (2, 5, 3, 8), (2, 5, 3, 8)))
    yield case("batch", ValueError, ("a batch of 2",), (good, (3, 5, 2, 8), (3, 5, 2, 8)))
    yield case("wide", ValueError, ("q has shape", "1 to 256"), ((1, 1, 1, 257),) * 3)
    yield case("mask-dtype", TypeError, ("mask has dtype", "bool"), mask=np.ones((3, 5), i32))
    yield case(
        "mask-shape",
        ValueError,
        ("mask has shape (4, 5)", "broadcasts to (2, 4, 3, 5)"),
        mask=np.ones((4, 5), bool),
    )
    yield case("bias-dtype", TypeError, ("bias has dtype int32",), bias=np.ones((3, 5), i32))
    yield case("sinks", ValueError, ("sinks has shape (3,)", "(4,)"), sinks=np.ones(3, np.float32))
    yield case("sinks-dtype", TypeError, ("sinks has dtype float16",), sinks=np.ones(4, np.float16))
    yield case("lengths", ValueError, ("lengths has shape (3,)", "(2,)"), lengths=np.ones(3, i32))
    yield case(
        "lengths-dtype", TypeError, ("lengths has dtype int64",), lengths=np.ones(2, np.int64)
    )
    yield case("window", ValueError, ("window is -1",), window=-1)
    yield case("softcap", ValueError, ("softcap is -1",), softcap=-1.0)
    yield case("scale", ValueError, ("scale is nan",), scale=float("nan"))
    yield case("k_scale", ValueError, ("k_scale is 0", "> 0"), k_scale=0.0)
    for name in ("k_scale", "v_scale"):
        scales = {name: np.ones(1, np.float32)}
        words = (f"{name} is an array on", "expected a number")
        yield case(f"{name}-array", TypeError, words, **scales)
    yield case("out", ValueError, ("out",), out=np.ones((2, 3, 4, 7), np.float32))
    flat = ((6, 4, 8), (10, 2, 8), (10, 2, 8))
    starts = np.array([0, 2, 6], i32)
    yield case(
        "packed-k", ValueError, ("cu_seqlens_k is given without",), flat, cu_seqlens_k=starts
    )
    yield case(
        "packed-alone", ValueError, ("cu_seqlens_q is given alone",), flat, cu_seqlens_q=starts
    )
    yield case(
        "packed-sizes",
        ValueError,
        ("cu_seqlens_k has shape (2,)", "(3,)"),
        flat,
        cu_seqlens_q=starts,
        cu_seqlens_k=starts[:2],
    )
    yield case(
        "packed-mask",
        ValueError,
        ("mask is given with packed",),
        flat,
        cu_seqlens_q=starts,
        cu_seqlens_k=starts,
        mask=np.ones((6, 10), bool),
    )
    yield case(
        "packed-rank",
        ValueError,
        ("q has shape", "(total, heads, dim)"),
        cu_seqlens_q=starts,
        cu_seqlens_k=starts,
    )
    pages = ((2, 1, 4, 8), (6, 16, 2, 8), (6, 16, 2, 8))
    table = np.zeros((2, 3), i32)
    ones = np.ones(2, i32)
    yield case(
        "paged-lengths",
        ValueError,
        ("block_table is given without lengths",),
        pages,
        block_table=table,
    )
    yield case(
        "paged-table",
        ValueError,
        ("block_table has shape (3, 2)", "(2, blocks)"),
        pages,
        block_table=table.T.copy(),
        lengths=ones,
    )
    yield case(
        "page",
        ValueError,
        ("pages of 16",),
        ((2, 1, 4, 8), (6, 12, 2, 8), (6, 12, 2, 8)),
        block_table=table,
        lengths=ones,
    )


MUST_RAISE = list(_refused())

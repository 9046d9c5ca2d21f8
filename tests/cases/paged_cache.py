"""Cases of key/value caches: writes with every option, a float64 oracle, calls that are refused."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from cases.must_raise import MustRaise
from pygpukit.ops import paged_cache

DTYPES = ("float32", "bfloat16", "float16")
FP8 = "float8_e4m3fn"
TOLERANCE = {"float32": 2e-6, "float16": 1e-3, "bfloat16": 8e-3, FP8: 0.07}
ROWS = 64  # of the tables


@dataclass(frozen=True)
class Case:
    """One write. Caches have `blocks` pages of `page` tokens; blocks = 0 is a contiguous one."""

    name: str
    dtype: str
    tokens: int = 5
    q_heads: int = 4
    kv_heads: int = 2
    dim: int = 16
    blocks: int = 3
    page: int = 16
    half: int = 0
    norm: bool = False
    cache: str = ""
    index: str = "int32"
    tables: str = ""
    offset: float = 0.0

    def __str__(self) -> str:
        return f"{self.name}-{self.dtype}"

    @property
    def cache_dtype(self) -> str:
        return self.cache or self.dtype

    def draw(self) -> dict[str, Any]:
        rng = np.random.default_rng(zlib.crc32(str(self).encode()))

        def heads(count: int) -> Any:
            return (rng.normal(size=(self.tokens, count, self.dim)) * 2).astype(self.dtype)

        pages = (self.blocks, self.page) if self.blocks else (self.page,)
        num_slots = max(self.blocks, 1) * self.page
        slots = rng.permutation(num_slots)[: self.tokens].astype(self.index)
        if self.tokens > 3:
            slots[1], slots[2] = -1, num_slots
        drawn: dict[str, Any] = {
            "k": heads(self.kv_heads),
            "v": heads(self.kv_heads),
            "k_cache": np.zeros((*pages, self.kv_heads, self.dim), self.cache_dtype),
            "v_cache": np.zeros((*pages, self.kv_heads, self.dim), self.cache_dtype),
            "slots": slots,
        }
        if self.q_heads:
            drawn["q"] = heads(self.q_heads)
        if self.half:
            angles = rng.uniform(0, 6, (ROWS, self.half))
            table = self.tables or self.dtype
            drawn |= {"cos": np.cos(angles).astype(table), "sin": np.sin(angles).astype(table)}
            drawn["positions"] = rng.integers(0, ROWS, self.tokens).astype(self.index)
            if self.tokens > 4:
                drawn["positions"][3] = ROWS
        if self.norm:
            for name in ("q_weight", "k_weight")[0 if self.q_heads else 1 :]:
                drawn[name] = rng.normal(size=self.dim).astype(self.tables or self.dtype)
            drawn |= {"eps": 1e-5, "offset": self.offset}
        if self.cache:
            drawn |= {"k_scale": 0.05, "v_scale": np.full((1,), 0.02, np.float32)}
        return drawn


def every(dtype: str) -> list[Case]:
    return [
        Case("copy", dtype, q_heads=0),
        Case("contiguous", dtype, blocks=0, page=40),
        Case("one token", dtype, tokens=1, half=8, norm=True),
        Case("no tokens", dtype, tokens=0, half=8),
        Case("rope", dtype, half=8),
        Case("partial rope", dtype, dim=96, half=16, tables="float32"),
        Case("odd half", dtype, dim=18, half=7, norm=True, tables="float32"),
        Case("norm", dtype, norm=True, dim=128, offset=1.0),
        Case("norm and rope", dtype, norm=True, dim=128, half=64, tokens=37),
        Case("norm of keys", dtype, norm=True, q_heads=0, dim=64, half=32),
        Case("wide", dtype, norm=True, dim=256, half=128, kv_heads=1, q_heads=8, index="int64"),
        Case("huge", dtype, norm=True, dim=1024, half=512),
        Case("narrow", dtype, dim=2, half=1, norm=True),
        Case("pages of 256", dtype, page=256, dim=64, half=32, tokens=300),
        Case("contiguous rope", dtype, blocks=0, page=64, dim=64, half=32, index="int64"),
        Case("fp8", dtype, cache=FP8, dim=128, half=64, norm=True),
        Case("fp8 copy", dtype, cache=FP8, dim=6, q_heads=0),
        Case("fp8 contiguous", dtype, cache=FP8, blocks=0, page=64, dim=64),
    ]


CASES = [case for dtype in DTYPES for case in every(dtype)]


def prepared(x: Any, drawn: dict[str, Any], weight: str) -> Any:
    y = x.astype(np.float64)
    if weight in drawn:
        y = y / np.sqrt((y**2).mean(-1, keepdims=True) + drawn["eps"])
        y = y * (drawn["offset"] + drawn[weight].astype(np.float64))
    if "cos" not in drawn:
        return y
    half = drawn["cos"].shape[1]
    for t, position in enumerate(drawn["positions"]):
        known = 0 <= position < ROWS
        turn = np.full(half, np.nan, complex)
        if known:
            turn = drawn["cos"][position].astype(float) + 1j * drawn["sin"][position].astype(float)
        turned = (y[t, :, :half] + 1j * y[t, :, half : 2 * half]) * turn
        y[t, :, :half], y[t, :, half : 2 * half] = turned.real, turned.imag
    return y


def oracle(drawn: dict[str, Any]) -> tuple[Any, Any, Any]:
    """(k_cache, v_cache, q) in float64; elements of caches that are not written are 0."""
    caches = []
    for name, x in (
        ("k", prepared(drawn["k"], drawn, "k_weight")),
        ("v", drawn["v"].astype(np.float64)),
    ):
        cache = np.zeros(drawn[f"{name}_cache"].shape)
        flat = cache.reshape(-1, *cache.shape[-2:])
        for t, slot in enumerate(drawn["slots"]):
            if 0 <= slot < len(flat):
                flat[slot] = x[t]
        if f"{name}_scale" in drawn:
            cache = np.clip(cache / np.float64(np.max(drawn[f"{name}_scale"])), -448, 448)
        caches.append(cache)
    return *caches, prepared(drawn["q"], drawn, "q_weight") if "q" in drawn else None


K = np.ones((3, 2, 8), np.float32)
CACHE = np.zeros((4, 16, 2, 8), np.float32)
SLOTS = np.arange(3, dtype=np.int32)
TABLE = np.zeros((2, 4), np.int32)
COS = np.ones((5, 4), np.float32)


def write(a: Any, **changed: Any) -> object:
    given: dict[str, Any] = {"k": K, "v": K, "k_cache": CACHE, "v_cache": CACHE, "slots": SLOTS}
    given |= changed
    return paged_cache.kv_cache_write(
        **{name: a(x) if isinstance(x, np.ndarray) else x for name, x in given.items()}
    )


P = paged_cache
MUST_RAISE = [
    MustRaise("kv_cache_write", "k dtype", lambda a: write(a, k=K.astype("f8")), TypeError,
              ("k has dtype float64", "float32")),
    MustRaise("kv_cache_write", "k shape", lambda a: write(a, k=K[0]), ValueError,
              ("k has shape (2, 8)", "kv_heads")),
    MustRaise("kv_cache_write", "odd dim", lambda a: write(a, k=K[..., :7]), ValueError,
              ("k has shape (3, 2, 7)", "even dim")),
    MustRaise("kv_cache_write", "v dtype", lambda a: write(a, v=K.astype("f2")), TypeError,
              ("v has dtype float16", "float32")),
    MustRaise("kv_cache_write", "v heads", lambda a: write(a, v=K[:, :1]), ValueError,
              ("v has shape (3, 1, 8)", "heads")),
    MustRaise("kv_cache_write", "v tokens", lambda a: write(a, v=K[:2]), ValueError,
              ("v has shape (2, 2, 8)",)),
    MustRaise("kv_cache_write", "cache dtype", lambda a: write(a, k_cache=CACHE.astype("f2")),
              TypeError, ("k_cache has dtype float16", "float8_e4m3fn")),
    MustRaise("kv_cache_write", "cache shape", lambda a: write(a, k_cache=CACHE[..., :4]),
              ValueError, ("k_cache has shape (4, 16, 2, 4)", "(blocks, page, 2, 8)")),
    MustRaise("kv_cache_write", "cache dims", lambda a: write(a, k_cache=CACHE[0, 0]), ValueError,
              ("k_cache has shape (2, 8)",)),
    MustRaise("kv_cache_write", "caches", lambda a: write(a, v_cache=CACHE[:3]), ValueError,
              ("v_cache has shape (3, 16, 2, 8)", "(4, 16, 2, 8)")),
    MustRaise("kv_cache_write", "slots dtype", lambda a: write(a, slots=SLOTS.astype("f4")),
              TypeError, ("slots has dtype float32", "int32")),
    MustRaise("kv_cache_write", "slots shape", lambda a: write(a, slots=SLOTS[:2]), ValueError,
              ("slots has shape (2,)", "(3,)")),
    MustRaise("kv_cache_write", "q", lambda a: write(a, q=K[:2]), ValueError,
              ("q has shape (2, 2, 8)",)),
    MustRaise("kv_cache_write", "no positions", lambda a: write(a, cos=COS, sin=COS), ValueError,
              ("cos, sin and positions",)),
    MustRaise("kv_cache_write", "no sin", lambda a: write(a, cos=COS, positions=SLOTS), ValueError,
              ("cos, sin and positions",)),
    MustRaise("kv_cache_write", "tables", lambda a: write(a, cos=COS, sin=COS[:4], positions=SLOTS),
              ValueError, ("cos has shape (5, 4)", "(4, 4)")),
    MustRaise("kv_cache_write", "table dtype",
              lambda a: write(a, cos=COS.astype("f2"), sin=COS, positions=SLOTS), TypeError,
              ("cos has dtype float16",)),
    MustRaise("kv_cache_write", "angles",
              lambda a: write(a, cos=np.ones((5, 5), "f4"), sin=np.ones((5, 5), "f4"),
                              positions=SLOTS),
              ValueError, ("5 angles", "1 to 4")),
    MustRaise("kv_cache_write", "k_weight", lambda a: write(a, k_weight=COS[0]), ValueError,
              ("k_weight has shape (4,)", "(8,)")),
    MustRaise("kv_cache_write", "q_weight without q", lambda a: write(a, q_weight=K[0, 0]),
              ValueError, ("q_weight", "without q")),
    MustRaise("kv_cache_write", "q_out without q", lambda a: write(a, q_out=K), ValueError,
              ("q_out", "without q")),
    MustRaise("kv_cache_write", "q_out shape", lambda a: write(a, q=K, q_out=K[:2]), ValueError,
              ("out", "(2, 2, 8)")),
    MustRaise("kv_cache_write", "eps", lambda a: write(a, eps=-1.0), ValueError, ("eps is -1",)),
    MustRaise("kv_cache_write", "scale", lambda a: write(a, k_scale=2.0), ValueError,
              ("k_scale", "float8_e4m3fn")),
    MustRaise("kv_cache_write", "no scale",
              lambda a: write(a, k_cache=CACHE.astype(ml_dtypes.float8_e4m3fn), k_scale=0.0),
              ValueError, ("k_scale is 0",)),
    MustRaise("kv_cache_write", "scales",
              lambda a: write(a, k_cache=CACHE.astype(ml_dtypes.float8_e4m3fn), k_scale=COS),
              ValueError, ("k_scale has shape (5, 4)", "one float32")),
    MustRaise("slot_mapping", "tables", lambda a: P.slot_mapping(a(SLOTS), a(SLOTS), page=16),
              ValueError, ("block_tables has shape (3,)",)),
    MustRaise("slot_mapping", "dtype", lambda a: P.slot_mapping(a(COS), a(SLOTS), page=16),
              TypeError, ("block_tables has dtype float32", "int32")),
    MustRaise("slot_mapping", "positions", lambda a: P.slot_mapping(a(TABLE), a(SLOTS), page=16),
              ValueError, ("positions has shape (3,)", "(2,)")),
    MustRaise("slot_mapping", "sequences",
              lambda a: P.slot_mapping(a(TABLE), a(SLOTS), a(SLOTS[:2]), page=16), ValueError,
              ("sequences has shape (2,)", "(3,)")),
    MustRaise("slot_mapping", "page", lambda a: P.slot_mapping(a(TABLE), a(SLOTS[:2]), page=0),
              ValueError, ("page is 0",)),
    MustRaise("copy_pages", "pairs", lambda a: P.copy_pages(a(CACHE), None, a(SLOTS)), ValueError,
              ("pairs has shape (3,)", "2")),
    MustRaise("copy_pages", "pairs dtype", lambda a: P.copy_pages(a(CACHE), None, a(COS)),
              TypeError, ("pairs has dtype float32",)),
    MustRaise("copy_pages", "caches",
              lambda a: P.copy_pages(a(CACHE), a(CACHE[:2]), a(TABLE[:, :2])), ValueError,
              ("v_cache has shape (2, 16, 2, 8)", "(4, 16, 2, 8)")),
    MustRaise("copy_pages", "gaps", lambda a: P.copy_pages(a(CACHE)[:, ::2], None, a(TABLE[:, :2])),
              ValueError, ("k_cache has gaps",)),
    MustRaise("gather_pages", "cache", lambda a: P.gather_pages(a(K), a(TABLE), 3), ValueError,
              ("cache has shape (3, 2, 8)",)),
    MustRaise("gather_pages", "length", lambda a: P.gather_pages(a(CACHE), a(TABLE), -1),
              ValueError, ("length is -1",)),
    MustRaise("gather_pages", "lengths", lambda a: P.gather_pages(a(CACHE), a(TABLE), 3, a(SLOTS)),
              ValueError, ("lengths has shape (3,)", "(2,)")),
    MustRaise("gather_pages", "out", lambda a: P.gather_pages(a(CACHE), a(TABLE), 3, out=a(K)),
              ValueError, ("out", "(2, 3, 2, 8)")),
    MustRaise("copy_to_paged_cache", "cache",
              lambda a: P.copy_to_paged_cache(a(K), a(K), a(K), a(K), a(SLOTS)), ValueError,
              ("K_cache has shape (3, 2, 8)",)),
    MustRaise("allocate_kv_cache", "size", lambda a: P.allocate_kv_cache(0, 1, 16, 8), ValueError,
              ("num_blocks is 0",)),
]  # fmt: skip

"""Cases of the sampling family: filters, a float64 oracle that sorts, calls that are refused."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes  # noqa: F401 - makes np.dtype("bfloat16") work
import numpy as np

from cases.must_raise import MustRaise
from pygpukit.ops import sampling

DTYPES = ("float32", "bfloat16", "float16")
WIDTHS = (1, 2, 33, 1000, 4099, 32000)
LARGE = (50257, 128256, 151936, 400001)
ROWS = 3

Filters = dict[str, Any]


def pack_bits(mask: Any) -> Any:
    """Bit i % 32 of word i // 32."""
    words = -(-mask.shape[-1] // 32)
    padded = np.zeros((*mask.shape[:-1], words * 32), np.uint64)
    padded[..., : mask.shape[-1]] = mask
    weights = np.uint64(1) << np.arange(32, dtype=np.uint64)
    return (padded.reshape(*mask.shape[:-1], words, 32) * weights).sum(-1).astype(np.uint32)


def some(rng: np.random.Generator, shape: Any) -> Any:
    mask = rng.random(shape) < 0.5
    mask[..., 0] = True
    return mask


def seen(rng: np.random.Generator, width: int) -> Any:
    return rng.poisson(0.7, (ROWS, width)).astype(np.int32)


def per_row(width: int) -> Filters:
    return {
        "temperature": np.array([0.5, 0.0, 1.5], np.float32),
        "top_k": np.array([0, 4, 7], np.int32),
        "top_p": np.array([0.8, 1.0, 0.99], np.float32),
        "min_p": np.array([0.0, 0.1, 0.001], np.float32),
        "typical_p": np.array([1.0, 1.0, 0.6], np.float32),
    }


FILTERS: dict[str, Callable[[np.random.Generator, int], Filters]] = {
    "plain": lambda rng, n: {},
    "cold": lambda rng, n: {"temperature": 0.3},
    "hot": lambda rng, n: {"temperature": 4.0},
    "greedy": lambda rng, n: {"temperature": 0.0},
    "top-1": lambda rng, n: {"top_k": 1},
    "top-k": lambda rng, n: {"top_k": 7, "temperature": 1.5},
    "top-k of all": lambda rng, n: {"top_k": 10**9},
    "top-p": lambda rng, n: {"top_p": 0.7, "temperature": 2.0},
    "top-p of one": lambda rng, n: {"top_p": 1e-9},
    "min-p": lambda rng, n: {"min_p": 0.02, "temperature": 2.0},
    "typical": lambda rng, n: {"typical_p": 0.4},
    "top-k and top-p": lambda rng, n: {"top_k": 50, "top_p": 0.9, "temperature": 0.8},
    "all": lambda rng, n: {
        "top_k": 40,
        "top_p": 0.95,
        "min_p": 0.01,
        "typical_p": 0.8,
        "temperature": 1.3,
    },
    "repetition": lambda rng, n: {"counts": seen(rng, n), "repetition_penalty": 1.3},
    "penalties": lambda rng, n: {
        "counts": seen(rng, n),
        "repetition_penalty": 0.8,
        "presence_penalty": 0.5,
        "frequency_penalty": 0.25,
    },
    "penalties per row": lambda rng, n: {
        "counts": seen(rng, n),
        "repetition_penalty": np.array([1.0, 2.0, 1.1], np.float32),
        "presence_penalty": np.array([0.0, -1.0, 0.5], np.float32),
        "frequency_penalty": np.array([0.5, 0.0, 0.1], np.float32),
    },
    "bias": lambda rng, n: {"logit_bias": rng.normal(size=n).astype(np.float32), "top_p": 0.9},
    "bias per row": lambda rng, n: {"logit_bias": rng.normal(size=(ROWS, n)).astype(np.float16)},
    "mask": lambda rng, n: {"mask": some(rng, n), "top_k": 3},
    "mask per row": lambda rng, n: {"mask": some(rng, (ROWS, n)), "top_p": 0.5},
    "bits": lambda rng, n: {"mask": pack_bits(some(rng, n))},
    "bits per row": lambda rng, n: {"mask": pack_bits(some(rng, (ROWS, n))).view(np.int32)},
    "per row": lambda rng, n: per_row(n),
}


@dataclass(frozen=True)
class Case:
    filters: str
    dtype: str
    width: int
    spread: float = 3.0

    def __str__(self) -> str:
        return f"{self.filters}-{self.dtype}-{self.width}"

    def draw(self) -> tuple[Any, Filters]:
        rng = np.random.default_rng(zlib.crc32(str(self).encode()))
        logits = (rng.normal(size=(ROWS, self.width)) * self.spread).astype(self.dtype)
        return logits, FILTERS[self.filters](rng, self.width)


CASES = [Case(name, dtype, n) for name in FILTERS for dtype in DTYPES for n in WIDTHS]
LARGE_CASES = [
    Case(name, dtype, n)
    for name in (
        "plain",
        "top-k",
        "top-p",
        "top-k and top-p",
        "all",
        "penalties",
        "bits",
        "per row",
    )
    for dtype, n in zip((*DTYPES, "float32"), LARGE, strict=True)
]

# --- the oracle ---------------------------------------------------------------------------------


def softmax(x: Any) -> Any:
    e = np.exp(x - np.max(x))
    return e / e.sum()


def processed(x: Any, row: Filters) -> Any:
    x = x.astype(np.float64)
    if "counts" in row:
        counts, repetition = row["counts"], row.get("repetition_penalty", 1.0)
        y = np.where(x > 0, x / repetition, x * repetition)
        y -= row.get("frequency_penalty", 0.0) * counts + row.get("presence_penalty", 0.0)
        x = np.where(counts > 0, y, x)
    x = x + row.get("logit_bias", np.zeros(1)).astype(np.float64)
    mask = row.get("mask")
    if mask is not None:
        if mask.dtype != bool:
            bits = np.unpackbits(mask.view(np.uint8), bitorder="little")
            mask = bits[: x.size].astype(bool)
        x = np.where(mask, x, -np.inf)
    return x


def up_to(rank: Any, p: Any, share: float) -> Any:
    """The first of the sorted ranks that have this share of p, and all that equal the last."""
    order = np.argsort(rank, kind="stable")
    last = np.searchsorted(np.cumsum(p[order]) / p.sum(), share - 1e-12)
    return rank <= rank[order][min(last, p.size - 1)]


def probabilities(x: Any, row: Filters) -> Any:
    x = processed(x, row)
    temperature = row.get("temperature", 1.0)
    if temperature == 0:
        return (np.arange(x.size) == np.argmax(x)).astype(float)
    d = (np.max(x) - x) / temperature
    near = (np.max(x) - x).astype(np.float32) * (np.float32(1) / np.float32(temperature))
    rank = np.floor(np.rint(near.astype(np.float64) * 2.0**18) / 2)  # steps of 2**-17 rank as equal
    p = np.exp(-d)
    k = row.get("top_k", 0)
    if 0 < k < x.size:
        p = np.where(rank <= np.sort(rank)[k - 1], p, 0)
    if row.get("top_p", 1.0) < 1:
        p = np.where(up_to(rank, p, row["top_p"]), p, 0)
    p = np.where(p >= row.get("min_p", 0.0), p, 0)
    if row.get("typical_p", 1.0) < 1:
        left = p > 0
        logs = np.log(np.where(left, p / p.sum(), 1))
        entropy = -(p / p.sum() * logs).sum()
        away = np.where(left, np.abs(logs + entropy), np.inf)
        p = np.where(up_to(away, p, row["typical_p"]), p, 0)
    return p / p.sum()


def oracle(logits: Any, filters: Filters) -> Any:
    rows = []
    for i in range(len(logits)):
        row = {
            name: value[i] if isinstance(value, np.ndarray) and len(value) == ROWS else value
            for name, value in filters.items()
        }
        rows.append(probabilities(logits[i], row))
    return np.array(rows)


def chi_square(tokens: Any, p: Any) -> float:
    """How many standard deviations above its mean; tokens without probability are not allowed."""
    counts = np.bincount(tokens, minlength=p.size)
    assert counts.size == p.size
    assert not counts[p == 0].any()
    want = p * tokens.size
    order = np.argsort(want)
    groups = np.cumsum(want[order]) // 20  # 20 at least in each
    have, expected = (np.bincount(groups.astype(int), weights=of[order]) for of in (counts, want))
    have, expected = have[expected > 0], expected[expected > 0]
    statistic = ((have - expected) ** 2 / expected).sum()
    freedom = max(expected.size - 1, 1)
    return float((statistic - freedom) / np.sqrt(2 * freedom))


# --- calls that are refused ---------------------------------------------------------------------


S = sampling.sample
X = np.ones((2, 40), np.float32)
I32 = np.zeros((2, 40), np.int32)
F2, F3 = np.ones(2, np.float32), np.ones(3, np.float32)
U32 = np.zeros(2, np.uint32)


def rules(a: Any, **changed: Any) -> Any:
    """A call of timestamp_rules with some of its arguments changed."""
    history = np.full((4, 2), -1, np.int32)
    given = {"logits": X, "tokens": I32[:, 0], "history": history, "suppress": U32}
    given |= {"begin_suppress": U32}
    arrays = [a(changed.pop(name, value)) for name, value in given.items()]
    numbers = {"eos": 20, "first_timestamp": 30, "max_initial": 3, **changed}
    return sampling.timestamp_rules(*arrays, **numbers)


MUST_RAISE = [
    MustRaise("sample", "dtype", lambda a: S(a(X.astype("f8"))), TypeError,
              ("logits has dtype float64", "float32")),
    MustRaise("sample", "0-d", lambda a: S(a(X[0, 0])), ValueError, ("logits has shape ()",)),
    MustRaise("sample", "no columns", lambda a: S(a(X[:, :0])), ValueError,
              ("logits has shape (2, 0)", "2**22")),
    MustRaise("sample", "no array", lambda a: S(X), TypeError, ("logits",)),
    MustRaise("sample", "temperature", lambda a: S(a(X), temperature=-1.0), ValueError,
              ("temperature is -1", "0 or more")),
    MustRaise("sample", "temperature nan", lambda a: S(a(X), temperature=float("nan")), ValueError,
              ("temperature is nan",)),
    MustRaise("sample", "temperature shape", lambda a: S(a(X), temperature=a(F3)), ValueError,
              ("temperature has shape (3,)", "(2,)", "(2, 40)")),
    MustRaise("sample", "temperature dtype", lambda a: S(a(X), temperature=a(F2.astype("f8"))),
              TypeError, ("temperature has dtype float64", "float32")),
    MustRaise("sample", "temperature text", lambda a: S(a(X), temperature="hot"), TypeError,
              ("temperature", "number")),
    MustRaise("sample", "top_k", lambda a: S(a(X), top_k=-1), ValueError, ("top_k is -1",)),
    MustRaise("sample", "top_k dtype", lambda a: S(a(X), top_k=a(F2)), TypeError,
              ("top_k has dtype float32", "int32")),
    MustRaise("sample", "top_p", lambda a: S(a(X), top_p=0.0), ValueError, ("top_p is 0",)),
    MustRaise("sample", "top_p above 1", lambda a: S(a(X), top_p=1.5), ValueError,
              ("top_p is 1.5",)),
    MustRaise("sample", "min_p", lambda a: S(a(X), min_p=2.0), ValueError,
              ("min_p is 2", "0 to 1")),
    MustRaise("sample", "typical_p", lambda a: S(a(X), typical_p=0.0), ValueError,
              ("typical_p is 0",)),
    MustRaise("sample", "repetition", lambda a: S(a(X), counts=a(I32), repetition_penalty=0.0),
              ValueError, ("repetition_penalty is 0", "more than 0")),
    MustRaise("sample", "presence",
              lambda a: S(a(X), counts=a(I32), presence_penalty=float("inf")), ValueError,
              ("presence_penalty is inf", "finite")),
    MustRaise("sample", "no counts", lambda a: S(a(X), frequency_penalty=0.5), ValueError,
              ("frequency_penalty", "without counts")),
    MustRaise("sample", "counts dtype", lambda a: S(a(X), counts=a(X)), TypeError,
              ("counts has dtype float32", "int32")),
    MustRaise("sample", "counts shape", lambda a: S(a(X), counts=a(I32[0])), ValueError,
              ("counts has shape (40,)", "(2, 40)")),
    MustRaise("sample", "both counts", lambda a: S(a(X), counts=a(I32), previous=a(I32)),
              ValueError, ("previous and counts",)),
    MustRaise("sample", "bias", lambda a: S(a(X), logit_bias=a(X[:, :3])), ValueError,
              ("logit_bias has shape (2, 3)", "(2, 40)")),
    MustRaise("sample", "bias dtype", lambda a: S(a(X), logit_bias=a(I32)), TypeError,
              ("logit_bias has dtype int32",)),
    MustRaise("sample", "mask dtype", lambda a: S(a(X), mask=a(X)), TypeError,
              ("mask has dtype float32", "bool")),
    MustRaise("sample", "mask shape", lambda a: S(a(X), mask=a(X[0, :7] > 0)), ValueError,
              ("mask has shape (7,)", "(40,)")),
    MustRaise("sample", "bits", lambda a: S(a(X), mask=a(I32[:, :1])), ValueError,
              ("mask has shape (2, 1)", "(2, 2)")),
    MustRaise("sample", "seed dtype", lambda a: S(a(X), seed=a(I32[:, 0])), TypeError,
              ("seed has dtype int32", "int64")),
    MustRaise("sample", "step shape", lambda a: S(a(X), step=a(np.zeros(1, np.int64))), ValueError,
              ("step has shape (1,)", "(2,)")),
    MustRaise("sample", "step stride", lambda a: S(a(X), step=a(np.zeros(4, np.int64))[::2]),
              ValueError, ("step is not contiguous",)),
    MustRaise("sample", "uniforms", lambda a: S(a(X), uniforms=a(F3)), ValueError,
              ("uniforms has shape (3,)",)),
    MustRaise("sample", "out", lambda a: S(a(X), out=a(I32)), ValueError, ("out", "(2,)")),
    MustRaise("sample", "out dtype", lambda a: S(a(X), out=a(F2 > 0)), TypeError, ("out", "int32")),
    MustRaise("sampling_probs", "top_p", lambda a: sampling.sampling_probs(a(X), top_p=-1.0),
              ValueError, ("top_p is -1",)),
    MustRaise("sampling_probs", "out", lambda a: sampling.sampling_probs(a(X), out=a(X[0])),
              ValueError, ("out", "(40,)", "(2, 40)")),
    MustRaise("token_logprobs", "tokens", lambda a: sampling.token_logprobs(a(X), a(I32)),
              ValueError, ("tokens has shape (2, 40)", "(2,)")),
    MustRaise("token_logprobs", "tokens dtype", lambda a: sampling.token_logprobs(a(X), a(F2)),
              TypeError, ("tokens has dtype float32", "int32")),
    MustRaise("token_logprobs", "n", lambda a: sampling.token_logprobs(a(X), a(I32[:, 0]), -1),
              ValueError, ("n is -1", "1024")),
    MustRaise("count_tokens", "dtype", lambda a: sampling.count_tokens(a(X), a(I32)), TypeError,
              ("counts has dtype float32", "int32")),
    MustRaise("count_tokens", "shape", lambda a: sampling.count_tokens(a(I32), a(I32[:1])),
              ValueError, ("ids has shape (1, 40)", "(2, 40)")),
    MustRaise("count_tokens", "stride", lambda a: sampling.count_tokens(a(I32)[:, ::2], a(I32)),
              ValueError, ("counts is not contiguous",)),
    MustRaise("timestamp_rules", "history", lambda a: rules(a, history=I32), ValueError,
              ("history has shape (2, 40)", "(4, 2)")),
    MustRaise("timestamp_rules", "tokens", lambda a: rules(a, tokens=F2), TypeError,
              ("tokens has dtype float32", "int32")),
    MustRaise("timestamp_rules", "suppress", lambda a: rules(a, suppress=U32[:1]), ValueError,
              ("suppress has shape (1,)", "(2,)")),
    MustRaise("timestamp_rules", "eos", lambda a: rules(a, eos=40), ValueError,
              ("eos is 40", "0 to 39")),
    MustRaise("timestamp_rules", "first", lambda a: rules(a, first_timestamp=-2), ValueError,
              ("first_timestamp is -2", "-1 to 39")),
    MustRaise("timestamp_rules", "rows", lambda a: rules(a, logits=X[0]), ValueError,
              ("logits has shape (40,)", "(rows, vocabulary)")),
    MustRaise("token_counts", "vocabulary", lambda a: sampling.token_counts(a(I32), 0), ValueError,
              ("vocabulary is 0",)),
    MustRaise("sample_greedy", "rows", lambda a: sampling.sample_greedy(a(X)), ValueError,
              ("logits has shape (2, 40)", "(1, vocabulary)")),
    MustRaise("sample_multinomial", "temperature",
              lambda a: sampling.sample_multinomial(a(X[:1]), 0.0), ValueError,
              ("temperature is 0",)),
    MustRaise("sample_topk", "top_k", lambda a: sampling.sample_topk(a(X[:1]), 0, 1.0), ValueError,
              ("top_k is 0",)),
    MustRaise("sample_topk_to_buf_ptr", "result",
              lambda a: sampling.sample_topk_to_buf_ptr(a(X[0]), a(F2), a(F2[:1]), 5, 1.0),
              ValueError, ("result_buf has shape (2,)", "one int32")),
]  # fmt: skip

"""Tokens from logits, drawn on the device.

The functions of 0.2 return a number, so they wait for the device; ``sample`` does not.
"""

from __future__ import annotations

import random
import threading
from typing import NamedTuple

from pygpukit import _native
from pygpukit._naming import name_all
from pygpukit.core.arguments import amount, require_arrays, whole
from pygpukit.core.errors import InvalidValueError
from pygpukit.ops._declared import sampling as _declared
from pygpukit.ops._declared.sampling import *  # noqa: F403

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pygpukit._native import GPUArray

    Number = float | GPUArray
    Integer = int | GPUArray


class Sampled(NamedTuple):
    """Tokens with log probabilities under softmax(logits), before penalties and filters."""

    tokens: GPUArray
    logprobs: GPUArray  # of the tokens
    top_ids: GPUArray  # [..., n], most likely first
    top_logprobs: GPUArray


class _Source(threading.local):
    """The seeds of calls without one: a generator per thread."""

    def __init__(self) -> None:
        self.generator = random.Random()

    def draw(self) -> int:
        return self.generator.getrandbits(63)


_source = _Source()


def set_sampling_seed(seed: int) -> None:
    """Restarts the calling thread's random numbers for draws without a seed of their own."""
    _source.generator.seed(whole("set_sampling_seed", "seed", seed))


def token_counts(ids: GPUArray, vocabulary: int) -> GPUArray:
    """How often each token occurs in ids [..., n], as int32 [..., vocabulary]. Pad with -1."""
    require_arrays("token_counts", ids=ids)
    width = whole("token_counts", "vocabulary", vocabulary, 1, 2**22)
    if ids.ndim == 0:
        raise InvalidValueError("token_counts: ids has shape (), expected (..., n)")
    counts = _native.zeros((*ids.shape[:-1], width), "int32", device=ids.device)
    _native.count_tokens(counts, ids)
    return counts


def sample(
    logits: GPUArray,
    *,
    temperature: Number = 1.0,
    top_k: Integer = 0,
    top_p: Number = 1.0,
    min_p: Number = 0.0,
    typical_p: Number = 1.0,
    repetition_penalty: Number = 1.0,
    presence_penalty: Number = 0.0,
    frequency_penalty: Number = 0.0,
    previous: GPUArray | None = None,
    counts: GPUArray | None = None,
    logit_bias: GPUArray | None = None,
    mask: GPUArray | None = None,
    seed: Integer | None = None,
    step: Integer = 0,
    uniforms: GPUArray | None = None,
    logprobs: int | None = None,
    out: GPUArray | None = None,
) -> GPUArray | Sampled:
    """A token of each row of logits [..., vocabulary], as int32 [...] on the device.

    In this order: penalties of seen tokens (``counts``, or ``previous`` ids padded with -1),
    ``logit_bias``, ``mask``, ``temperature`` (0: the most likely token), ``top_k`` (0: all),
    ``top_p``, ``min_p``, ``typical_p``. Each parameter is a number, or an array of one value per
    row: float32, int32 for top_k, int64 for seed and step.

    The same seed and step give the same token, alone or in a batch. With one seed for all rows,
    rows have streams of their own; with an array of seeds the place in the batch does not matter.
    An array of steps is counted up in the same launch, so that every replay of a graph draws anew.
    Without a seed the calling thread's generator is used.

    With ``logprobs=n`` a tuple: tokens, their log probabilities, and ids and log probabilities of
    the n most likely tokens.
    """
    require_arrays("sample", logits=logits)
    if previous is not None:
        if counts is not None:
            raise InvalidValueError("sample: both previous and counts were given")
        require_arrays("sample", previous=previous)
        counts = token_counts(previous, logits.shape[-1] if logits.ndim else 1)
    if seed is None:
        seed = _source.draw() if uniforms is None else 0
    filters = (temperature, top_k, top_p, min_p, typical_p)
    penalties = (repetition_penalty, presence_penalty, frequency_penalty, counts)
    tokens = _native.sample(
        logits, *filters, *penalties, logit_bias, mask, seed, step, uniforms, out
    )
    if logprobs is None:
        return tokens
    return Sampled(tokens, *_native.token_logprobs(logits, tokens, logprobs))


def sample_greedy(logits: GPUArray) -> int:
    """The most likely token of logits [vocabulary] or [1, vocabulary]."""
    return _one("sample_greedy", logits, temperature=0.0)


def sample_multinomial(logits: GPUArray, temperature: float) -> int:
    """A token drawn from softmax(logits / temperature)."""
    return _one("sample_multinomial", logits, temperature=temperature)


def sample_topk(logits: GPUArray, top_k: int, temperature: float) -> int:
    """A token drawn from the top_k most likely ones."""
    top_k = whole("sample_topk", "top_k", top_k, 1)
    return _one("sample_topk", logits, temperature=temperature, top_k=top_k)


def sample_topp(logits: GPUArray, top_p: float, temperature: float) -> int:
    """A token drawn from the most likely ones that have the probability top_p together."""
    return _one("sample_topp", logits, temperature=temperature, top_p=top_p)


def sample_token_gpu(
    logits: GPUArray, temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0
) -> int:
    """A token drawn after top_k (0: off) and top_p (1: off); temperatures below 1e-6 are greedy."""
    if temperature < 1e-6:
        return _one("sample_token_gpu", logits, temperature=0.0)
    return _one("sample_token_gpu", logits, temperature=temperature, top_k=top_k, top_p=top_p)


def sample_topk_to_buf_ptr(
    logits: GPUArray,
    result_buf: GPUArray,
    random_val_buf: GPUArray,
    top_k: int,
    temperature: float,
) -> None:
    """sample_topk to an int32 array of one element, by a random number in [0, 1) on the device."""
    op = "sample_topk_to_buf_ptr"
    require_arrays(op, result_buf=result_buf, random_val_buf=random_val_buf)
    row = _row(op, logits)
    for name, array, dtype in (
        ("result_buf", result_buf, "int32"),
        ("random_val_buf", random_val_buf, "float32"),
    ):
        if array.size != 1 or array.dtype.name != dtype:
            raise InvalidValueError(
                f"{op}: {name} has shape {array.shape} and dtype {array.dtype}, "
                f"expected one {dtype}"
            )
    sample(
        row,
        temperature=_positive(op, temperature),
        top_k=whole(op, "top_k", top_k, 1),
        uniforms=random_val_buf.reshape((1,)),
        out=_native.reshape(result_buf, (1,), copy=False),
    )


def _row(op: str, logits: GPUArray) -> GPUArray:
    require_arrays(op, logits=logits)
    if logits.ndim not in (1, 2) or (logits.ndim == 2 and logits.shape[0] != 1):
        raise InvalidValueError(
            f"{op}: logits has shape {logits.shape}, expected (vocabulary,) or (1, vocabulary)"
        )
    return logits.reshape((1, logits.shape[-1]))


def _positive(op: str, temperature: float) -> float:
    number = amount(op, "temperature", temperature)
    if number == 0.0:
        raise InvalidValueError(f"{op}: temperature is 0.0, expected more than 0")
    return number


def _one(
    op: str, logits: GPUArray, *, temperature: float, top_k: int = 0, top_p: float = 1.0
) -> int:
    row = _row(op, logits)
    if op not in ("sample_greedy", "sample_token_gpu"):
        temperature = _positive(op, temperature)
    tokens = _native.sample(row, temperature, top_k, top_p, seed=_source.draw())
    return int(tokens.to_numpy()[0])


__all__ = [
    "Sampled",
    "sample",
    "sample_greedy",
    "sample_multinomial",
    "sample_token_gpu",
    "sample_topk",
    "sample_topk_to_buf_ptr",
    "sample_topp",
    "set_sampling_seed",
    "token_counts",
]
__all__ += [name for name in _declared.__all__ if name not in __all__]

name_all(globals(), __all__)

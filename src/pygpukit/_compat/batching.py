"""Batches of sequences as one array of tokens: 0.2's helpers, on the device."""

from __future__ import annotations

from pygpukit import _native
from pygpukit._naming import name_all
from pygpukit.core.arguments import require_arrays, whole
from pygpukit.core.errors import InvalidTypeError, InvalidValueError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pygpukit._native import GPUArray


def gather_embeddings(token_ids: GPUArray, embeddings: GPUArray, total_tokens: int) -> GPUArray:
    """Rows [total_tokens, hidden] of embeddings [vocabulary, hidden] for the first ids."""
    op = "gather_embeddings"
    _integers(op, token_ids=token_ids)
    require_arrays(op, embeddings=embeddings)
    count = whole(op, "total_tokens", total_tokens)
    if token_ids.ndim != 1 or token_ids.size < count or embeddings.ndim != 2:
        raise InvalidValueError(
            f"{op}: token_ids has shape {token_ids.shape}, embeddings {embeddings.shape}; expected "
            f"({count},) and (vocabulary, hidden)"
        )
    return _native.take(embeddings, token_ids[:count], axis=0)


def scatter_last_token_logits(
    logits: GPUArray,
    seq_start_positions: GPUArray,
    seq_lens: GPUArray,
    batch_size: int,
    vocab_size: int,
) -> GPUArray:
    """The rows of logits [tokens, vocabulary] of the last token of each sequence."""
    op = "scatter_last_token_logits"
    require_arrays(op, logits=logits)
    if logits.ndim != 2 or logits.shape[1] != vocab_size:
        raise InvalidValueError(
            f"{op}: logits has shape {logits.shape}, expected (tokens, {vocab_size})"
        )
    arrays = {"seq_start_positions": seq_start_positions, "seq_lens": seq_lens}
    _per_sequence(op, batch_size, **arrays)
    last = _native.subtract(_native.add(seq_start_positions, seq_lens), 1)
    return _native.take(logits, last, axis=0)


def prepare_position_ids(
    seq_start_positions: GPUArray,
    seq_context_lens: GPUArray,
    is_prefill: GPUArray,
    input_lens: GPUArray,
    batch_size: int,
    total_tokens: int,
) -> GPUArray:
    """Positions of tokens, int32 [total_tokens].

    Tokens of a sequence follow one another from its start: 0, 1, ... where it is in prefill, else
    its context length. Sequences are in the order of their starts.
    """
    op = "prepare_position_ids"
    _per_sequence(
        op,
        batch_size,
        seq_start_positions=seq_start_positions,
        seq_context_lens=seq_context_lens,
        is_prefill=is_prefill,
        input_lens=input_lens,
    )
    count = whole(op, "total_tokens", total_tokens, 0, 2**31 - 1)
    token = _native.arange(count, 0, 1, "int32", seq_start_positions.device)
    after = _native.searchsorted(seq_start_positions, token, side="right")
    sequence = _native.subtract(after, 1)
    within = _native.subtract(token, _native.take(seq_start_positions, sequence, axis=0))
    prefill = _native.not_equal(_native.take(is_prefill, sequence, axis=0), 0)
    context = _native.take(seq_context_lens, sequence, axis=0)
    return _native.astype(_native.where(prefill, within, context), "int32")


def argmax_sample(logits: GPUArray, batch_size: int, vocab_size: int) -> GPUArray:
    """The most likely token of each row of logits [batch_size, vocab_size], int32."""
    require_arrays("argmax_sample", logits=logits)
    if logits.shape != (batch_size, vocab_size):
        raise InvalidValueError(
            f"argmax_sample: logits has shape {logits.shape}, expected ({batch_size}, {vocab_size})"
        )
    return _native.sample(logits, 0.0)


def check_eos(tokens: GPUArray, eos_token_id: int) -> GPUArray:
    """1 where a token is eos_token_id, else 0; int32."""
    _integers("check_eos", tokens=tokens)
    return _native.astype(_native.equal(tokens, eos_token_id), "int32")


def compute_cumsum(input: GPUArray) -> GPUArray:
    """The sum of the elements before each one: where sequences of these lengths start."""
    _integers("compute_cumsum", input=input)
    if input.ndim != 1:
        raise InvalidValueError(f"compute_cumsum: input has shape {input.shape}, expected (n,)")
    return _native.subtract(_native.cumsum(input, dtype=input.dtype), input)


def _integers(op: str, **arrays: GPUArray) -> None:
    require_arrays(op, **arrays)
    for name, array in arrays.items():
        if array.dtype.name not in ("int32", "int64"):
            raise InvalidTypeError(f"{op}: {name} has dtype {array.dtype}, expected int32 or int64")


def _per_sequence(op: str, batch_size: int, **arrays: GPUArray) -> None:
    _integers(op, **arrays)
    for name, array in arrays.items():
        if array.shape != (batch_size,):
            raise InvalidValueError(
                f"{op}: {name} has shape {array.shape}, expected ({batch_size},)"
            )


__all__ = [
    "argmax_sample",
    "check_eos",
    "compute_cumsum",
    "gather_embeddings",
    "prepare_position_ids",
    "scatter_last_token_logits",
]

name_all(globals(), __all__)

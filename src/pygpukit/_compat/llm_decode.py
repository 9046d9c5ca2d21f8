"""Decode strategies of 0.2, over the fixed caches of a CausalTransformerModel.

>>> for block in model.blocks:
...     block.attn.init_fixed_cache(512, dtype="bfloat16")
>>> strategy = DecodeM1()
>>> strategy.bind(model)
>>> hidden = strategy.step(token, position, context_len=position + 1, buffers=None)
>>> logits = model.get_logits(hidden)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit._compat.llm_buffers import DecodeBuffers
from pygpukit._compat.llm_model import CausalTransformerModel, require_model
from pygpukit.core.arguments import whole
from pygpukit.core.errors import InvalidValueError, OperationError, UnsupportedError

if TYPE_CHECKING:
    from pygpukit._compat.llm_buffers import ScratchRows
    from pygpukit._compat.llm_model import Round
    from pygpukit._native import GPUArray


class DecodeStrategy(ABC):
    """How the next tokens of a text are computed."""

    def __init__(self) -> None:
        self._model: CausalTransformerModel | None = None

    def bind(self, model: CausalTransformerModel) -> None:
        """The model that steps run."""
        self._model = require_model(f"{type(self).__name__}.bind", model)

    @property
    def model(self) -> CausalTransformerModel:
        """The bound model."""
        if self._model is None:
            raise OperationError(f"{type(self).__name__}: no model, call bind() first")
        return self._model

    @abstractmethod
    def step(
        self,
        token_id: int,
        position: int,
        context_len: int,
        buffers: ScratchRows | None = None,
    ) -> GPUArray:
        """The hidden state [1, hidden] after a token at a position."""

    def init_graph(self, max_seq_len: int = 512) -> None:
        """Captures a step as a CUDA graph, for texts of up to max_seq_len tokens."""
        raise UnsupportedError(f"{type(self).__name__}: its steps are not captured as a graph")

    def has_graph(self) -> bool:
        """Whether a step was captured."""
        return False

    def _forward(
        self,
        tokens: Sequence[int],
        position: int,
        context_len: int,
        buffers: ScratchRows | None = None,
        num_layers: int | None = None,
    ) -> GPUArray:
        ids = self.model.token_ids(type(self).__name__, tokens)
        return self.model.forward_fixed_cache(ids, position, context_len, buffers, num_layers)

    def _argmax(self, hidden: GPUArray) -> list[int]:
        best = _native.argmax(self.model.get_logits(hidden), axis=-1)
        return [int(token) for token in best.to_numpy()]


class DecodeM1(DecodeStrategy):
    """One token a step."""

    def step(
        self,
        token_id: int,
        position: int,
        context_len: int,
        buffers: ScratchRows | None = None,
    ) -> GPUArray:
        """The hidden state [1, hidden] after a token at a position."""
        return self._forward([token_id], position, context_len, buffers)


class _StepGraph:
    """A captured step of `rows` tokens: their ids, positions and the length are on the device."""

    def __init__(self, model: CausalTransformerModel, rows: int, max_seq_len: int) -> None:
        if model.config.is_moe:
            raise UnsupportedError(
                "init_graph: the model has experts, whose steps are not captured"
            )
        self.max_seq_len = whole("init_graph", "max_seq_len", max_seq_len, rows)
        self._rows = rows
        dtype, device = model.embed_tokens.dtype.name, model.device
        for block in model.blocks:
            if block.attn.max_cache_len < self.max_seq_len:
                block.attn.init_fixed_cache(self.max_seq_len, dtype)
        vocab_size = model.lm_head.shape[0]
        self._buffers = DecodeBuffers.allocate(
            model.config, dtype, vocab_size=vocab_size, max_batch_size=rows, device=device
        )
        self._numbers = _native.zeros(2 * rows + 1, "int32", device=device)
        self._model = model
        self._capture()

    def _run(self) -> None:
        rows = self._rows
        ids, positions, length = (
            self._numbers[:rows],
            self._numbers[rows : 2 * rows],
            self._numbers[2 * rows :],
        )
        hidden = self._model.forward_fixed_cache(ids, positions, length, self._buffers)
        self._model.get_logits(hidden, out=self._buffers.logits)

    def _capture(self) -> None:
        """After a run that loads kernels, on the last rows of the caches, which are put back."""
        last = self.max_seq_len - self._rows
        caches = [cache for block in self._model.blocks for cache in block.attn.caches()]
        saved = [_native.copy(cache[:, last : self.max_seq_len]) for cache in caches]
        self._set([0] * self._rows, last, self.max_seq_len)
        self._run()
        self._graph = _native.CudaGraph(device=self._model.device)
        with self._graph:
            self._run()
        for cache, rows in zip(caches, saved, strict=True):
            _native.copy_into(cache[:, last : self.max_seq_len], rows)

    def _set(self, tokens: Sequence[int], position: int, context_len: int) -> None:
        import numpy as np

        numbers = [*tokens, *range(position, position + self._rows), context_len]
        host = np.asarray(numbers, np.int32)
        _native.copy_into(self._numbers, _native.from_numpy(host, device=self._model.device))

    def replay(self, tokens: Sequence[int], position: int, context_len: int) -> GPUArray:
        op = "step_graph"
        most = self._model.embed_tokens.shape[0] - 1
        ids = [whole(op, "a token id", token, 0, most) for token in tokens]
        position = whole(op, "position", position, 0, self.max_seq_len - self._rows)
        length = whole(op, "context_len", context_len, self._rows, self.max_seq_len)
        self._set(ids, position, length)
        self._graph.replay()
        assert self._buffers.logits is not None
        return self._buffers.logits


class _Captured(DecodeStrategy):
    """A strategy with a graph of its own number of tokens."""

    _num_rows = 1

    def __init__(self) -> None:
        super().__init__()
        self._graph: _StepGraph | None = None

    def bind(self, model: CausalTransformerModel) -> None:
        """The model that steps run; a graph of another one is dropped."""
        super().bind(model)
        self._graph = None

    def init_graph(self, max_seq_len: int = 512) -> None:
        """Captures a step. Blocks with smaller fixed caches get new ones."""
        self._graph = _StepGraph(self.model, self._num_rows, max_seq_len)

    def has_graph(self) -> bool:
        """Whether a step was captured."""
        return self._graph is not None

    def _captured(self) -> _StepGraph:
        if self._graph is None:
            raise OperationError(f"{type(self).__name__}: no graph, call init_graph() first")
        return self._graph


class DecodeM1Graph(_Captured):
    """One token a step, as a CUDA graph."""

    def step(
        self,
        token_id: int,
        position: int,
        context_len: int,
        buffers: ScratchRows | None = None,
    ) -> GPUArray:
        """Raises NotImplementedError: step_graph() gives logits, DecodeM1 hidden states."""
        raise UnsupportedError("DecodeM1Graph.step: use step_graph(), or DecodeM1")

    def step_graph(self, token_id: int, position: int, context_len: int) -> GPUArray:
        """Logits [1, vocabulary] after a token; overwritten by the next step."""
        return self._captured().replay([token_id], position, context_len)


class DecodeBatch(_Captured):
    """Several tokens of one text a step."""

    def __init__(self, batch_size: int = 8) -> None:
        super().__init__()
        self.batch_size = self._num_rows = whole("DecodeBatch", "batch_size", batch_size, 1)

    def step(
        self,
        token_id: int,
        position: int,
        context_len: int,
        buffers: ScratchRows | None = None,
    ) -> GPUArray:
        """step_batch() of one token."""
        return self.step_batch([token_id], position, context_len, buffers)

    def step_batch(
        self,
        tokens: Sequence[int],
        start_position: int,
        context_len: int,
        buffers: ScratchRows | None = None,
    ) -> GPUArray:
        """Hidden states [tokens, hidden]; context_len counts the last token."""
        return self._forward(tokens, start_position, context_len, buffers)

    def step_graph(self, tokens: Sequence[int], start_position: int, context_len: int) -> GPUArray:
        """Logits [batch_size, vocabulary] of batch_size tokens; overwritten by the next step."""
        graph = self._captured()
        if len(tokens) != self.batch_size:
            raise InvalidValueError(
                f"DecodeBatch.step_graph: {len(tokens)} tokens, expected batch_size, "
                f"{self.batch_size}"
            )
        return graph.replay(tokens, start_position, context_len)


class _Rounds(DecodeStrategy):
    """Rounds that settle one or more tokens, the ones greedy decoding would give.

    The pass that checks guesses writes the keys and values of those it accepts, up to rounding the
    same ones as a pass of one token: nothing is run again. Later entries of the caches are
    overwritten.
    """

    def step(
        self,
        token_id: int,
        position: int,
        context_len: int,
        buffers: ScratchRows | None = None,
    ) -> GPUArray:
        """The hidden state [1, hidden] after one token, without guesses."""
        return self._forward([token_id], position, context_len, buffers)

    def _room(self, position: int, wanted: int) -> int:
        """Tokens that a round may guess."""
        room = min(block.attn.max_cache_len for block in self.model.blocks) - position
        return max(min(wanted, room), 1)

    def _checked(
        self,
        token_id: int,
        guesses: list[int],
        position: int,
        context_len: int,
        buffers: ScratchRows | None,
    ) -> tuple[list[int], int]:
        """(what the model says after each token, how many guesses it agrees with)."""
        tokens = [token_id, *guesses]
        end = context_len + len(guesses)
        said = self._argmax(self._forward(tokens, position, end, buffers))
        agreed = 0
        while agreed < len(guesses) and guesses[agreed] == said[agreed]:
            agreed += 1
        return said, agreed

    def _lookahead(self, result: Round, position: int) -> Round:
        """The round's tokens are settled: those before the last one are in the caches."""
        tokens, new_position, stats = result
        self.model.set_lookahead_confirmed_pos(position)
        self.model.commit_lookahead_all(len(tokens))
        return tokens, new_position, stats


class DecodeSpeculative(_Rounds):
    """Drafts by the first blocks of the same model, checked by all of them at once."""

    def __init__(self, max_draft_tokens: int = 4, draft_layers: int = 8) -> None:
        super().__init__()
        op = "DecodeSpeculative"
        self.max_draft_tokens = whole(op, "max_draft_tokens", max_draft_tokens, 1)
        self.draft_layers = whole(op, "draft_layers", draft_layers, 1)

    def step_speculative(
        self,
        token_id: int,
        position: int,
        context_len: int,
        buffers: ScratchRows | None = None,
    ) -> Round:
        """(new tokens, position of the last of them, counts): 1 to max_draft_tokens tokens.

        Drafts are kept while the model agrees; the first one that it does not agree with is
        replaced and ends the round.
        """
        drafts: list[int] = []
        count = self._room(position, self.max_draft_tokens)
        for i in range(count):
            last = drafts[-1] if drafts else token_id
            hidden = self._forward([last], position + i, context_len + i, None, self.draft_layers)
            drafts += self._argmax(hidden)
        said, agreed = self._checked(token_id, drafts[:-1], position, context_len, buffers)
        accepted = agreed + (agreed == count - 1 and drafts[-1] == said[-1])
        tokens = said[: agreed + 1]
        stats = {"draft_count": count, "accepted_count": accepted}
        return tokens, position + len(tokens), stats

    def step_lookahead(
        self,
        token_id: int,
        position: int,
        context_len: int,
        buffers: ScratchRows | None = None,
    ) -> Round:
        """step_speculative(), with the settled position of the caches kept."""
        result = self.step_speculative(token_id, position, context_len, buffers)
        return self._lookahead(result, position)


_INIT = ("repeat", "ngram", "greedy")


class DecodeJacobi(_Rounds):
    """Guesses of the next tokens, replaced by what the model says after them until they agree.

    First guesses: the last token again ("repeat"), what came after its last occurrence in this
    strategy's tokens ("ngram"), or what the model says after it ("greedy").
    """

    def __init__(self, n_tokens: int = 8, max_iter: int = 3, init_strategy: str = "repeat") -> None:
        super().__init__()
        self.n_tokens = whole("DecodeJacobi", "n_tokens", n_tokens, 1)
        self.max_iter = whole("DecodeJacobi", "max_iter", max_iter, 1)
        if init_strategy not in _INIT:
            raise InvalidValueError(
                f"DecodeJacobi: init_strategy is {_native.safe_repr(init_strategy)}, expected one "
                f"of {', '.join(_INIT)}"
            )
        self.init_strategy = init_strategy
        self._seen: list[int] = []

    def bind(self, model: CausalTransformerModel) -> None:
        """The model that steps run; tokens of another text are forgotten."""
        super().bind(model)
        self._seen = []

    def _first_guesses(
        self, token_id: int, position: int, context_len: int, count: int
    ) -> list[int]:
        if self.init_strategy == "greedy" and count:
            token_id = self._argmax(self._forward([token_id], position, context_len))[0]
        guesses: list[int] = []
        if self.init_strategy == "ngram" and token_id in self._seen:
            last = len(self._seen) - 1 - self._seen[::-1].index(token_id)
            guesses = self._seen[last + 1 : last + 1 + count]
        return guesses + [token_id] * (count - len(guesses))

    def step_jacobi(
        self,
        token_id: int,
        position: int,
        context_len: int,
        buffers: ScratchRows | None = None,
    ) -> Round:
        """(new tokens, position of the last of them, what happened): 1 to n_tokens tokens."""
        count = self._room(position, self.n_tokens)
        guesses = self._first_guesses(token_id, position, context_len, count - 1)
        iterations = 0
        while True:
            iterations += 1
            said, agreed = self._checked(token_id, guesses, position, context_len, buffers)
            if agreed == len(guesses) or iterations == self.max_iter:
                break
            guesses = said[:-1]
        tokens = said[: agreed + 1]
        self._seen += [token_id, *tokens[:-1]]
        stats: dict[str, Any] = {
            "iterations": iterations,
            "converged": agreed == len(guesses),
            "accepted_count": len(tokens),
        }
        return tokens, position + len(tokens), stats

    def step_lookahead(
        self,
        token_id: int,
        position: int,
        context_len: int,
        buffers: ScratchRows | None = None,
    ) -> Round:
        """step_jacobi(), with the settled position of the caches kept."""
        return self._lookahead(self.step_jacobi(token_id, position, context_len, buffers), position)


__all__ = [
    "DecodeBatch",
    "DecodeJacobi",
    "DecodeM1",
    "DecodeM1Graph",
    "DecodeSpeculative",
    "DecodeStrategy",
]

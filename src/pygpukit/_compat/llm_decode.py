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
from typing import TYPE_CHECKING

from pygpukit import _native
from pygpukit._compat.llm_buffers import DecodeBuffers
from pygpukit._compat.llm_model import CausalTransformerModel, require_model
from pygpukit.core.arguments import whole
from pygpukit.core.errors import InvalidValueError, OperationError, UnsupportedError

if TYPE_CHECKING:
    from pygpukit._compat.llm_buffers import ScratchRows
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
        """The hidden state [1, hidden] after a token at a position, in the buffers if given."""
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


__all__ = ["DecodeBatch", "DecodeM1", "DecodeM1Graph", "DecodeStrategy"]

"""CausalTransformerModel of 0.2: layers that can be called one by one.

A model that was loaded generates with the runner of gp.llm, whose weights its layers are views of.
A model that was put together from layers runs them, and so does one whose layers were replaced.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit.core.arguments import require_arrays, whole
from pygpukit.core.errors import InvalidTypeError, InvalidValueError
from pygpukit.ops import sampling

if TYPE_CHECKING:
    from pygpukit._compat.llm_attention import KeyValues
    from pygpukit._compat.llm_block import TransformerBlock
    from pygpukit._compat.llm_buffers import ScratchRows
    from pygpukit._compat.llm_configs import TransformerConfig
    from pygpukit._compat.llm_layers import Norm
    from pygpukit._compat.llm_specs import ModelSpec
    from pygpukit._native import GPUArray

    Round = tuple[list[int], int, dict[str, Any]]


class CausalTransformerModel:
    """Token ids to hidden states, logits and texts."""

    def __init__(
        self,
        config: TransformerConfig,
        embed_tokens: GPUArray,
        blocks: Sequence[TransformerBlock],
        final_norm: Norm,
        lm_head: GPUArray | None = None,
        position_embed: GPUArray | None = None,
        spec: ModelSpec | None = None,
        *,
        embedding_scale: float = 1.0,
        final_softcap: float = 0.0,
        native: _native.LlmModel | None = None,
    ) -> None:
        require_arrays("CausalTransformerModel", embed_tokens=embed_tokens)
        if embed_tokens.ndim != 2 or not blocks:
            raise InvalidValueError(
                f"CausalTransformerModel: embed_tokens has shape {embed_tokens.shape}, and there "
                f"are {len(blocks)} blocks; expected (vocabulary, hidden) and one or more"
            )
        self.config, self.spec = config, spec
        self.embed_tokens, self.position_embed = embed_tokens, position_embed
        self.blocks, self.final_norm = list(blocks), final_norm
        self.embedding_scale, self.final_softcap = embedding_scale, final_softcap
        self._lm_head = lm_head
        self._native = native
        self._runner: _native.LlmRunner | None = None
        self._loaded = [] if native is None else self._parts()

    def _parts(self) -> list[object]:
        """All layers and their matrices, to see whether one was replaced."""
        found: list[object] = [self.embed_tokens, self._lm_head, self.final_norm]
        for block in self.blocks:
            layers = [x for x in (*vars(block).values(), *vars(block.attn).values()) if callable(x)]
            layers += vars(block.mlp).values()
            found += [block, *layers, *(getattr(x, "weight", None) for x in layers)]
        return found

    def _is_as_loaded(self) -> bool:
        if self._native is None:
            return False
        now = self._parts()
        return len(now) == len(self._loaded) and all(map(operator.is_, now, self._loaded))

    @property
    def lm_head(self) -> GPUArray:
        """The matrix of logits; embed_tokens where they are tied."""
        return self.embed_tokens if self._lm_head is None else self._lm_head

    @property
    def device(self) -> str:
        """Where the weights are."""
        return str(self.embed_tokens.device)

    def __call__(
        self,
        input_ids: Sequence[int],
        position_ids: Sequence[int] | None = None,
        past_key_values: Sequence[KeyValues] | None = None,
        use_cache: bool = False,
    ) -> tuple[GPUArray, list[KeyValues] | None]:
        """(hidden [seq, hidden], keys and values [seq, kv_heads, dim] of each block)."""
        op = "CausalTransformerModel"
        past: Sequence[KeyValues | None] = past_key_values or [None] * len(self.blocks)
        if len(past) != len(self.blocks):
            raise InvalidValueError(
                f"{op}: {len(past)} past_key_values, expected one for each of {len(self.blocks)} "
                "blocks"
            )
        ids = self.token_ids(op, input_ids)
        start = 0 if past[0] is None else past[0][0].shape[0]
        positions = None
        if self.position_embed is not None:
            given = range(start, start + ids.size) if position_ids is None else position_ids
            positions = self._integers([whole(op, "a position", i) for i in given])
        hidden = self.embed(ids, positions)
        presents = []
        for block, kv in zip(self.blocks, past, strict=True):
            hidden, present = block(hidden, position_ids, kv, use_cache)
            presents.append(present)
        hidden = self.final_norm(hidden)
        return hidden, [kv for kv in presents if kv is not None] if use_cache else None

    def token_ids(self, op: str, input_ids: Sequence[int]) -> GPUArray:
        """Checked ids on the device."""
        most = self.embed_tokens.shape[0] - 1
        ids = [whole(op, "a token id", token, 0, most) for token in input_ids]
        if not ids:
            raise InvalidValueError(f"{op}: no input_ids, expected one or more")
        return self._integers(ids)

    def _integers(self, numbers: Sequence[int]) -> GPUArray:
        import numpy as np

        return _native.from_numpy(np.asarray(numbers, np.int32), device=self.device)

    def embed(
        self, ids: GPUArray, positions: GPUArray | None, out: GPUArray | None = None
    ) -> GPUArray:
        """Embeddings of ids, with those of positions where they are learned."""
        hidden = _native.take(self.embed_tokens, ids, axis=0)
        if self.embedding_scale != 1.0:
            scale = _native.full((1,), self.embedding_scale, hidden.dtype, device=self.device)
            _native.multiply(hidden, scale, out=hidden)
        if self.position_embed is not None and positions is not None:
            _native.add(hidden, _native.take(self.position_embed, positions, axis=0), out=hidden)
        if out is None:
            return hidden
        _native.copy_into(out, hidden)
        return out

    def get_logits(self, hidden: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
        """[seq, vocabulary] of hidden states [seq, hidden]."""
        logits = _native.linear(hidden, self.lm_head, out=out, batch_invariant=True)
        if self.final_softcap > 0.0:
            _native.multiply(logits, 1.0 / self.final_softcap, out=logits)
            _native.tanh(logits, out=logits)
            _native.multiply(logits, self.final_softcap, out=logits)
        return logits

    # --- generation -----------------------------------------------------------------------------

    def generate(
        self,
        input_ids: Sequence[int],
        max_new_tokens: int = 20,
        temperature: float = 1.0,
        top_k: int = 50,
        top_p: float = 0.9,
        eos_token_id: int | None = None,
        use_cache: bool = True,
        gpu_sampling: bool = False,
    ) -> list[int]:
        """The prompt and its continuation, up to and with eos_token_id.

        Tokens are always drawn on the device; set_sampling_seed() makes draws repeatable.
        """
        prompt = list(input_ids)
        new = self.generate_stream(
            *(prompt, max_new_tokens, temperature, top_k, top_p, eos_token_id, use_cache),
            gpu_sampling,
        )
        return [*prompt, *new]

    def generate_stream(
        self,
        input_ids: Sequence[int],
        max_new_tokens: int = 20,
        temperature: float = 1.0,
        top_k: int = 50,
        top_p: float = 0.9,
        eos_token_id: int | None = None,
        use_cache: bool = True,
        gpu_sampling: bool = False,
    ) -> Iterator[int]:
        """The new tokens of generate(), one by one."""
        ids = [int(i) for i in self.token_ids("generate", input_ids).to_numpy()]
        count = whole("generate", "max_new_tokens", max_new_tokens, 1)
        options = (temperature, top_k, top_p)
        if self._is_as_loaded():
            return self._by_runner(ids, count, options, eos_token_id)
        return self._by_layers(ids, count, options, eos_token_id, use_cache)

    def _by_runner(
        self, ids: list[int], count: int, options: tuple[float, int, float], eos: int | None
    ) -> Iterator[int]:
        temperature, top_k, top_p = options
        how = _native.LlmGenerationOptions(
            max_new_tokens=count,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            min_p=0.0,
            typical_p=1.0,
            repetition_penalty=1.0,
            presence_penalty=0.0,
            frequency_penalty=0.0,
            seed=sampling._source.draw() >> 1,
            stop_tokens=[] if eos is None else [eos],
            use_graph=True,
        )
        generation = _native.LlmGeneration(self._runner_for(len(ids) + count), [ids], how)

        def tokens() -> Iterator[int]:
            while step := generation.next():
                yield step[0]

        return tokens()

    def _runner_for(self, length: int) -> _native.LlmRunner:
        """The runner, with room for so many tokens."""
        if self._runner is None or self._runner.max_length < length:
            most = self.config.max_position_embeddings
            room = max(min(1 << (length - 1).bit_length(), most), length)
            self._runner = None
            self._runner = _native.LlmRunner(self._native, 512, 1, room, 0, 64)  # type: ignore[arg-type]
        return self._runner

    def _by_layers(
        self,
        ids: list[int],
        count: int,
        options: tuple[float, int, float],
        eos: int | None,
        use_cache: bool,
    ) -> Iterator[int]:
        temperature, top_k, top_p = options
        past: list[KeyValues] | None = None
        for _ in range(count):
            new = ids if past is None else ids[-1:]
            hidden, past = self(new, past_key_values=past, use_cache=use_cache)
            logits = self.get_logits(hidden[-1:])
            token = sampling.sample_token_gpu(logits, temperature, top_k, top_p)
            ids = [*ids, token]
            yield token
            if token == eos:
                return

    # --- fixed caches ---------------------------------------------------------------------------

    def forward_fixed_cache(
        self,
        ids: GPUArray,
        position: int | GPUArray,
        context_len: int | GPUArray,
        buffers: ScratchRows | None = None,
        num_layers: int | None = None,
    ) -> GPUArray:
        """Hidden states [seq, hidden] of tokens from a position on, by the blocks' fixed caches.

        Numbers on the device: positions of all tokens, and the length with them. ``num_layers``
        leaves out the blocks after those, as drafts do.
        """
        scratch = None if buffers is None else buffers.rows(ids.size)
        positions: GPUArray | None = None
        if self.position_embed is not None:
            positions = (
                self._integers(range(position, position + ids.size))
                if isinstance(position, int)
                else position
            )
        hidden = self.embed(ids, positions, out=None if scratch is None else scratch.hidden)
        for block in self.blocks[:num_layers]:
            hidden = block.forward_rows(hidden, position, context_len, scratch)
        return self.final_norm(hidden, out=hidden)

    def snapshot_kv_cache(self) -> list[KeyValues]:
        """Copies of all fixed caches."""
        return [
            (_native.copy(k), _native.copy(v))
            for k, v in (block.attn.caches() for block in self.blocks)
        ]

    def restore_kv_cache(self, snapshot: Sequence[KeyValues]) -> None:
        """The fixed caches as they were."""
        op = "restore_kv_cache"
        if len(snapshot) != len(self.blocks):
            raise InvalidValueError(
                f"{op}: a snapshot of {len(snapshot)} blocks, expected {len(self.blocks)}"
            )
        pairs = []
        for block, saved in zip(self.blocks, snapshot, strict=True):
            for cache, copy in zip(block.attn.caches(), saved, strict=True):
                if cache.shape != copy.shape or cache.dtype != copy.dtype:
                    raise InvalidValueError(
                        f"{op}: a cache of {cache.shape} and {cache.dtype}, the snapshot's is "
                        f"{copy.shape} and {copy.dtype}"
                    )
                pairs.append((cache, copy))
        for cache, copy in pairs:
            _native.copy_into(cache, copy)

    def set_lookahead_confirmed_pos(self, pos: int) -> None:
        """The first `pos` tokens of all fixed caches are settled."""
        for block in self.blocks:
            block.attn.set_confirmed_pos(pos)

    def reset_lookahead_all(self) -> None:
        """Forgets the keys and values after the settled tokens."""
        for block in self.blocks:
            block.attn.reset_lookahead()

    def commit_lookahead_all(self, n_accepted: int) -> None:
        """`n_accepted` more tokens are settled."""
        for block in self.blocks:
            block.attn.commit_lookahead(n_accepted)

    def decode_step_self_speculative_lookahead(
        self,
        token_id: int,
        position: int,
        context_len: int,
        max_draft_tokens: int = 4,
        draft_layers: int = 8,
    ) -> Round:
        """DecodeSpeculative.step_lookahead()."""
        from pygpukit._compat.llm_speculation import DecodeSpeculative

        strategy = DecodeSpeculative(max_draft_tokens, draft_layers)
        strategy.bind(self)
        return strategy.step_lookahead(token_id, position, context_len)

    def decode_step_jacobi_lookahead(
        self,
        token_id: int,
        position: int,
        context_len: int,
        n_tokens: int = 8,
        max_iter: int = 3,
        init_strategy: str = "repeat",
    ) -> Round:
        """DecodeJacobi.step_lookahead()."""
        from pygpukit._compat.llm_speculation import DecodeJacobi

        strategy = DecodeJacobi(n_tokens, max_iter, init_strategy)
        strategy.bind(self)
        return strategy.step_lookahead(token_id, position, context_len)


def require_model(op: str, model: object) -> CausalTransformerModel:
    """The model, or InvalidTypeError."""
    if not isinstance(model, CausalTransformerModel):
        raise InvalidTypeError(
            f"{op}: model is of type {type(model).__name__}, expected a CausalTransformerModel"
        )
    return model


GPT2Model = LlamaModel = CausalTransformerModel

__all__ = ["CausalTransformerModel", "GPT2Model", "LlamaModel"]

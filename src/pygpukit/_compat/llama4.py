"""The text part of Llama 4, by layers: rotary positions in chunks, and layers without positions."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit._compat.llm_attention import Attention
from pygpukit._compat.llm_block import TransformerBlock
from pygpukit._compat.llm_configs import TransformerConfig
from pygpukit._compat.llm_layers import MLP, LinearBF16, Norm
from pygpukit._compat.llm_model import CausalTransformerModel
from pygpukit._compat.llm_rotary import RopeTables
from pygpukit.core.errors import InvalidValueError, UnsupportedError
from pygpukit.llm.json_file import read_object
from pygpukit.llm.safetensors import load_safetensors
from pygpukit.ops.positions import irope_scale_q, rope_table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pygpukit._compat.llm_attention import KeyValues
    from pygpukit._compat.llm_buffers import ScratchRows
    from pygpukit._native import GPUArray


@dataclass
class Llama4Config:
    """Sizes of Llama 4, by default those of Scout. Names are those of its config.json."""

    vocab_size: int = 202048
    hidden_size: int = 5120
    intermediate_size: int = 8192  # of an expert
    intermediate_size_mlp: int = 16384
    num_hidden_layers: int = 48
    num_attention_heads: int = 40
    num_key_value_heads: int = 8
    head_dim: int = 128
    num_local_experts: int = 16
    num_experts_per_tok: int = 1
    interleave_moe_layer_step: int = 1
    no_rope_layer_interval: int = 4
    attention_chunk_size: int = 8192
    attn_temperature_tuning: bool = True
    attn_scale: float = 0.1
    floor_scale: float = 8192.0
    use_qk_norm: bool = True
    rms_norm_eps: float = 1e-5
    rope_theta: float = 500000.0
    rope_scaling: Mapping[str, Any] | None = None
    max_position_embeddings: int = 131072
    tie_word_embeddings: bool = False

    @classmethod
    def from_dict(cls, config: Mapping[str, Any]) -> Llama4Config:
        """Of a config.json, whose text part is taken."""
        part = config.get("text_config", config)
        known = {f.name for f in fields(cls)}
        return cls(**{k: v for k, v in part.items() if k in known and v is not None})

    def has_rope(self, layer: int) -> bool:
        """Whether a layer has rotary positions."""
        return (layer + 1) % self.no_rope_layer_interval != 0

    def has_experts(self, layer: int) -> bool:
        """Whether a layer has experts."""
        return (layer + 1) % self.interleave_moe_layer_step == 0

    def to_transformer_config(self) -> TransformerConfig:
        """The same as a TransformerConfig."""
        return TransformerConfig(
            vocab_size=self.vocab_size,
            hidden_size=self.hidden_size,
            num_layers=self.num_hidden_layers,
            num_heads=self.num_attention_heads,
            num_kv_heads=self.num_key_value_heads,
            intermediate_size=self.intermediate_size_mlp,
            _head_dim=self.head_dim,
            num_experts=self.num_local_experts,
            num_experts_per_tok=self.num_experts_per_tok,
            moe_intermediate_size=self.intermediate_size,
            max_position_embeddings=self.max_position_embeddings,
            norm_eps=self.rms_norm_eps,
            rope_theta=self.rope_theta,
            tie_word_embeddings=self.tie_word_embeddings,
        )


class _Attention(Attention):
    """Rotary positions of neighbours and chunks, or scaled queries without positions."""

    def __init__(
        self,
        weights: Sequence[GPUArray],
        config: TransformerConfig,
        settings: Llama4Config,
        rope: RopeTables | None,
    ) -> None:
        q, k, v, o = weights
        super().__init__(q, k, v, o, config)
        self.rope = rope
        self.settings = settings

    def __call__(
        self,
        x: GPUArray,
        position_ids: Sequence[int] | None = None,
        past_kv: KeyValues | None = None,
        use_cache: bool = False,
    ) -> tuple[GPUArray, KeyValues | None]:
        """As Attention; a query of a layer with positions sees the keys of its chunk."""
        past = 0 if past_kv is None else past_kv[0].shape[0]
        length, chunk = past + x.shape[0], self.settings.attention_chunk_size
        if self.rope is None or length <= chunk or position_ids is not None:
            return super().__call__(x, position_ids, past_kv, use_cache)
        q, k, v = self._heads(x, past, length)
        if past_kv is not None:
            k, v = _native.concat([past_kv[0], k], 0), _native.concat([past_kv[1], v], 0)
        mixed = _native.attention(q, k, v, mask=self._chunks(past, length))
        return self._output(mixed), (k, v) if use_cache else None

    def _chunks(self, past: int, length: int) -> GPUArray:
        import numpy as np

        rows, columns = np.arange(past, length)[:, None], np.arange(length)[None]
        chunk = self.settings.attention_chunk_size
        seen = (columns <= rows) & (columns // chunk == rows // chunk)
        return _native.from_numpy(seen, device=self._device())

    def init_fixed_cache(self, max_seq_len: int, dtype: str = "float16") -> None:
        """As Attention, for texts of one chunk."""
        if max_seq_len > self.settings.attention_chunk_size:
            raise UnsupportedError(
                f"init_fixed_cache: max_seq_len is {max_seq_len}, fixed caches of Llama 4 end with "
                f"the first chunk of {self.settings.attention_chunk_size}"
            )
        super().init_fixed_cache(max_seq_len, dtype)

    def _heads(
        self,
        x: GPUArray,
        position: int | GPUArray,
        most: int,
        scratch: ScratchRows | None = None,
    ) -> tuple[GPUArray, GPUArray, GPUArray]:
        rows, rope, s = x.shape[0], self.rope, self.settings
        q, k, v = (
            layer(x).reshape((rows, layer.out_features // self.head_dim, -1))
            for layer in (self.q_proj, self.k_proj, self.v_proj)
        )
        if isinstance(position, int):
            position = _native.arange(rows, position, 1, "int32", self._device())
        if rope is None:
            if s.attn_temperature_tuning:
                q = irope_scale_q(q, position, s.attn_scale, s.floor_scale)
            return q, k, v
        cos, sin = rope.rows(most)
        for heads in (q, k):
            _native.rope(heads, cos, sin, position, interleaved=True, out=heads)
        if s.use_qk_norm:
            q, k = (_native.l2norm(heads, s.rms_norm_eps) for heads in (q, k))
        return q, k, v


class _Experts:
    """Experts of tokens that were scaled by the sigmoid of their scores, and one for all."""

    def __init__(
        self,
        router: GPUArray,
        gate_up: GPUArray,
        down: GPUArray,
        shared: MLP,
        top_k: int,
    ) -> None:
        self.router, self.shared, self.top_k = LinearBF16(router), shared, top_k
        # [experts, in, out] in the files.
        self.gate_up, self.down = (
            _native.copy(_native.permute_dims(w, (0, 2, 1))) for w in (gate_up, down)
        )

    def __call__(self, x: GPUArray) -> GPUArray:
        """[tokens, hidden]."""
        scores, chosen = _native.moe_route(self.router(x), self.top_k, scoring="sigmoid")
        rows, sizes, row_map = _native.moe_permute(x, chosen, self.down.shape[0])
        by_row = _native.empty(rows.shape[0], "float32", device=x.device)
        by_row[row_map.reshape((-1,))] = scores.reshape((-1,))
        scaled = _native.astype(
            _native.multiply(rows, _native.expand_dims(by_row, 1)), x.dtype, copy=False
        )
        pair = _native.grouped_gemm(scaled, self.gate_up, sizes)
        half = pair.shape[1] // 2
        inner = _native.silu_multiply(pair[:, :half], pair[:, half:])
        out = _native.moe_unpermute(_native.grouped_gemm(inner, self.down, sizes), row_map)
        return _native.add(self.shared(x), out)


class Llama4Model(CausalTransformerModel):
    """A causal transformer with Llama 4's layers."""

    @classmethod
    def from_tensors(cls, config: Llama4Config, load: Callable[[str], GPUArray]) -> Llama4Model:
        """``load`` gives a tensor by its name after "model."."""
        sizes = config.to_transformer_config()
        embed_tokens = load("embed_tokens.weight")
        theta, scaling, device = config.rope_theta, config.rope_scaling, str(embed_tokens.device)
        rope = RopeTables(lambda n: rope_table(n, config.head_dim, theta, scaling, device=device))

        def norm(name: str) -> Norm:
            return Norm(load(f"{name}.weight"), eps=config.rms_norm_eps)

        def mlp(prefix: str) -> MLP:
            parts = ("gate_proj", "up_proj", "down_proj")
            return MLP(sizes, **{part: load(f"{prefix}{part}.weight") for part in parts})

        def block(i: int) -> TransformerBlock:
            at = f"layers.{i}."
            names = ("q_proj", "k_proj", "v_proj", "o_proj")
            weights = [load(f"{at}self_attn.{name}.weight") for name in names]
            attention = _Attention(weights, sizes, config, rope if config.has_rope(i) else None)
            inner: Any
            if config.has_experts(i):
                inner = _Experts(
                    load(f"{at}feed_forward.router.weight"),
                    load(f"{at}feed_forward.experts.gate_up_proj"),
                    load(f"{at}feed_forward.experts.down_proj"),
                    mlp(f"{at}feed_forward.shared_expert."),
                    config.num_experts_per_tok,
                )
            else:
                inner = mlp(f"{at}feed_forward.")
            names_of_norms = (f"{at}input_layernorm", f"{at}post_attention_layernorm")
            return TransformerBlock(
                norm(names_of_norms[0]), attention, norm(names_of_norms[1]), inner
            )

        return cls(
            sizes,
            embed_tokens,
            [block(i) for i in range(config.num_hidden_layers)],
            norm("norm"),
            None if config.tie_word_embeddings else load("lm_head.weight"),
        )

    @classmethod
    def from_safetensors(
        cls,
        model_path: str | os.PathLike[str],
        dtype: str = "bfloat16",
        config: Llama4Config | None = None,
        *,
        device: str | None = None,
    ) -> Llama4Model:
        """Of a file or an index, with the config.json beside it."""
        path = os.fspath(model_path)
        weights = load_safetensors(path)
        if config is None:
            config = Llama4Config.from_dict(read_object(Path(path).parent / "config.json"))
        part = "language_model."
        prefix = part if any(n.startswith(part) for n in weights.tensor_names) else ""

        def load(name: str) -> GPUArray:
            full = prefix + (name if name.startswith("lm_head") else f"model.{name}")
            if full not in weights:
                raise InvalidValueError(f"Llama4Model: {path} has no tensor '{full}'")
            return weights.tensor(full, dtype=dtype, device=device)

        return cls.from_tensors(config, load)


__all__ = ["Llama4Config", "Llama4Model"]

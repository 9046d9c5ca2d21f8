"""Sizes of a model, as 0.2's dataclasses."""

from __future__ import annotations

from dataclasses import dataclass

from pygpukit.core.errors import InvalidValueError


@dataclass
class TransformerConfig:
    """Sizes and kind of a causal transformer."""

    vocab_size: int = 32000
    hidden_size: int = 2048
    num_layers: int = 22
    num_heads: int = 32
    num_kv_heads: int | None = None
    intermediate_size: int | None = None
    _head_dim: int | None = None
    num_experts: int | None = None
    num_experts_per_tok: int = 2
    moe_intermediate_size: int | None = None
    norm_type: str = "rmsnorm"
    activation: str = "silu"
    use_rope: bool = True
    causal: bool = True
    max_position_embeddings: int = 2048
    norm_eps: float = 1e-5
    rope_theta: float = 10000.0
    tie_word_embeddings: bool = True

    def __post_init__(self) -> None:
        if self.num_kv_heads is None:
            self.num_kv_heads = self.num_heads
        if self.intermediate_size is None:
            self.intermediate_size = 4 * self.hidden_size
        sizes = ("vocab_size", "hidden_size", "num_layers", "num_heads", "num_kv_heads")
        for name in sizes:
            if getattr(self, name) < 1:
                raise InvalidValueError(
                    f"TransformerConfig: {name} is {getattr(self, name)}, expected 1 or more"
                )
        if self.num_heads % self.num_kv_heads:
            raise InvalidValueError(
                f"TransformerConfig: num_kv_heads is {self.num_kv_heads}, expected a divisor of "
                f"num_heads, {self.num_heads}"
            )
        choices = (("norm_type", ("rmsnorm", "layernorm")), ("activation", ("silu", "gelu")))
        for name, expected in choices:
            if getattr(self, name) not in expected:
                raise InvalidValueError(
                    f"TransformerConfig: {name} is {getattr(self, name)!r}, expected "
                    f"{' or '.join(expected)}"
                )

    @property
    def is_moe(self) -> bool:
        """Whether layers have experts."""
        return bool(self.num_experts)

    @property
    def head_dim(self) -> int:
        """Elements of a head."""
        return self.hidden_size // self.num_heads if self._head_dim is None else self._head_dim

    @property
    def kv_heads(self) -> int:
        """num_kv_heads, which is never None here."""
        return self.num_kv_heads or self.num_heads

    @property
    def inner_size(self) -> int:
        """intermediate_size, that of one expert where there are experts."""
        return (self.is_moe and self.moe_intermediate_size) or self.intermediate_size or 0

    @property
    def num_kv_groups(self) -> int:
        """Query heads of each key head."""
        return self.num_heads // self.kv_heads


@dataclass
class GPT2Config:
    """Sizes of GPT-2, by default of the small one."""

    vocab_size: int = 50257
    n_embd: int = 768
    n_layer: int = 12
    n_head: int = 12
    n_positions: int = 1024
    layer_norm_eps: float = 1e-5

    def to_transformer_config(self) -> TransformerConfig:
        """The same as a TransformerConfig."""
        return TransformerConfig(
            vocab_size=self.vocab_size,
            hidden_size=self.n_embd,
            num_layers=self.n_layer,
            num_heads=self.n_head,
            norm_type="layernorm",
            activation="gelu",
            use_rope=False,
            max_position_embeddings=self.n_positions,
            norm_eps=self.layer_norm_eps,
        )


def _gated(config: LlamaConfig | Qwen3Config, head_dim: int | None = None) -> TransformerConfig:
    return TransformerConfig(
        vocab_size=config.vocab_size,
        hidden_size=config.hidden_size,
        num_layers=config.num_hidden_layers,
        num_heads=config.num_attention_heads,
        num_kv_heads=config.num_key_value_heads,
        intermediate_size=config.intermediate_size,
        _head_dim=head_dim,
        max_position_embeddings=config.max_position_embeddings,
        norm_eps=config.rms_norm_eps,
        rope_theta=config.rope_theta,
    )


@dataclass
class LlamaConfig:
    """Sizes of a LLaMA model, by default of TinyLlama."""

    vocab_size: int = 32000
    hidden_size: int = 2048
    intermediate_size: int = 5632
    num_hidden_layers: int = 22
    num_attention_heads: int = 32
    num_key_value_heads: int = 4
    max_position_embeddings: int = 2048
    rms_norm_eps: float = 1e-5
    rope_theta: float = 10000.0

    def to_transformer_config(self) -> TransformerConfig:
        """The same as a TransformerConfig."""
        return _gated(self)


@dataclass
class Qwen3Config:
    """Sizes of a Qwen3 model, by default of Qwen3-8B."""

    vocab_size: int = 151936
    hidden_size: int = 4096
    intermediate_size: int = 12288
    num_hidden_layers: int = 36
    num_attention_heads: int = 32
    num_key_value_heads: int = 8
    head_dim: int = 128
    max_position_embeddings: int = 40960
    rms_norm_eps: float = 1e-6
    rope_theta: float = 1000000.0

    def to_transformer_config(self) -> TransformerConfig:
        """The same as a TransformerConfig."""
        return _gated(self, self.head_dim)


__all__ = ["GPT2Config", "LlamaConfig", "Qwen3Config", "TransformerConfig"]

"""Preallocated arrays for decoding and prefill, as in 0.2."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit.core.arguments import whole
from pygpukit.core.errors import InvalidTypeError, InvalidValueError

if TYPE_CHECKING:
    from pygpukit._compat.llm_configs import TransformerConfig
    from pygpukit._native import GPUArray


@dataclass
class ScratchRows:
    """What a forward pass writes, a row for each token."""

    hidden: GPUArray
    normed: GPUArray
    delta: GPUArray  # what a block adds
    q: GPUArray
    k: GPUArray
    v: GPUArray
    gate: GPUArray
    up: GPUArray
    router_logits: GPUArray | None = None
    logits: GPUArray | None = None

    @property
    def num_rows(self) -> int:
        """Most tokens of a pass."""
        return self.hidden.shape[0]

    def rows(self, count: int) -> ScratchRows:
        """Views of the first rows."""
        if count > self.num_rows:
            raise InvalidValueError(
                f"buffers: {count} tokens, expected at most {self.num_rows}, for which they were "
                "allocated"
            )
        views: dict[str, Any] = {}
        for field in fields(ScratchRows):
            array = getattr(self, field.name)
            views[field.name] = None if array is None else array[:count]
        return ScratchRows(**views)

    @classmethod
    def _allocate(
        cls,
        config: TransformerConfig,
        rows: int,
        dtype: str,
        device: str | None,
        vocab_size: int | None = None,
        num_experts: int | None = None,
    ) -> Any:
        def array(width: int) -> GPUArray:
            return _native.empty((rows, width), dtype, device=device)

        return cls(
            hidden=array(config.hidden_size),
            normed=array(config.hidden_size),
            delta=array(config.hidden_size),
            q=array(config.num_heads * config.head_dim),
            k=array(config.kv_heads * config.head_dim),
            v=array(config.kv_heads * config.head_dim),
            gate=array(config.inner_size),
            up=array(config.inner_size),
            router_logits=array(num_experts) if num_experts else None,
            logits=array(vocab_size) if vocab_size else None,
        )


class DecodeBuffers(ScratchRows):
    """For one token, or for up to max_batch_size of them."""

    @classmethod
    def allocate(
        cls,
        config: TransformerConfig,
        dtype: str = "float16",
        use_qk_norm: bool = False,
        vocab_size: int | None = None,
        max_batch_size: int = 0,
        moe_config: TransformerConfig | None = None,
        *,
        device: str | None = None,
    ) -> DecodeBuffers:
        """Arrays of a model's dtype; with ``vocab_size`` for logits, too.

        Queries and keys are normalised in place, so ``use_qk_norm`` adds nothing.
        """
        op = "DecodeBuffers.allocate"
        _check_config(op, config)
        rows = max(whole(op, "max_batch_size", max_batch_size), 1)
        experts = (moe_config or config).num_experts
        buffers: DecodeBuffers = cls._allocate(config, rows, dtype, device, vocab_size, experts)
        return buffers


class PrefillBuffers(ScratchRows):
    """For prompts of up to max_seq_len tokens."""

    @classmethod
    def allocate(
        cls,
        config: TransformerConfig,
        max_seq_len: int,
        dtype: str = "float16",
        use_qk_norm: bool = False,
        *,
        device: str | None = None,
    ) -> PrefillBuffers:
        """Arrays of a model's dtype."""
        op = "PrefillBuffers.allocate"
        _check_config(op, config)
        rows = whole(op, "max_seq_len", max_seq_len, 1)
        buffers: PrefillBuffers = cls._allocate(
            config, rows, dtype, device, None, config.num_experts
        )
        return buffers


def _check_config(op: str, config: object) -> None:
    from pygpukit._compat.llm_configs import TransformerConfig

    if not isinstance(config, TransformerConfig):
        raise InvalidTypeError(
            f"{op}: config is of type {type(config).__name__}, expected a TransformerConfig"
        )


__all__ = ["DecodeBuffers", "PrefillBuffers"]

"""A layer of 0.2's transformers: attention, then an MLP or experts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pygpukit import _native
from pygpukit._compat.llm_layers import MLP, MoELayer

if TYPE_CHECKING:
    from pygpukit._compat.llm_attention import Attention, KeyValues
    from pygpukit._compat.llm_buffers import ScratchRows
    from pygpukit._compat.llm_layers import Norm
    from pygpukit._native import GPUArray


class TransformerBlock:
    """x + attention(norm(x)), then x + mlp(norm(x))."""

    def __init__(
        self,
        attn_norm: Norm,
        attn: Attention,
        mlp_norm: Norm,
        mlp: MLP | MoELayer,
        *,
        attn_post_norm: Norm | None = None,
        mlp_post_norm: Norm | None = None,
    ) -> None:
        self.attn_norm, self.attn, self.attn_post_norm = attn_norm, attn, attn_post_norm
        self.mlp_norm, self.mlp, self.mlp_post_norm = mlp_norm, mlp, mlp_post_norm

    def __call__(
        self,
        x: GPUArray,
        position_ids: Sequence[int] | None = None,
        past_kv: KeyValues | None = None,
        use_cache: bool = False,
    ) -> tuple[GPUArray, KeyValues | None]:
        """(hidden, (k, v)) of x [seq, hidden]."""
        mixed, present = self.attn(self.attn_norm(x), position_ids, past_kv, use_cache)
        return self._rest(_native.copy(x), mixed, None), present

    def forward_rows(
        self,
        hidden: GPUArray,
        position: int | GPUArray,
        context_len: int | GPUArray,
        scratch: ScratchRows | None,
    ) -> GPUArray:
        """With the fixed cache, into `hidden`."""
        outs = (None, None) if scratch is None else (scratch.normed, scratch.delta)
        normed = self.attn_norm(hidden, out=outs[0])
        mixed = self.attn.forward_rows(normed, position, context_len, out=outs[1], scratch=scratch)
        return self._rest(hidden, mixed, scratch)

    def _rest(self, hidden: GPUArray, mixed: GPUArray, scratch: ScratchRows | None) -> GPUArray:
        if self.attn_post_norm is not None:
            mixed = self.attn_post_norm(mixed, out=mixed)
        _native.add(hidden, mixed, out=hidden)
        if scratch is None:
            inner = self.mlp(self.mlp_norm(hidden))
        else:
            normed = self.mlp_norm(hidden, out=scratch.normed)
            if isinstance(self.mlp, MoELayer):
                inner = self.mlp(normed, out=scratch.delta, logits_out=scratch.router_logits)
            else:
                outs = {"gate_out": scratch.gate, "up_out": scratch.up}
                inner = self.mlp(normed, out=scratch.delta, **outs)
        if self.mlp_post_norm is not None:
            inner = self.mlp_post_norm(inner, out=inner)
        return _native.add(hidden, inner, out=hidden)


LlamaBlock = TransformerBlock

__all__ = ["LlamaBlock", "TransformerBlock"]

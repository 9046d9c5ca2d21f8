"""Attention of 0.2: with keys and values that the caller keeps, or with a cache of fixed size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit._compat.llm_layers import as_linear
from pygpukit._compat.llm_rotary import RopeTables
from pygpukit.core.arguments import require_arrays, whole
from pygpukit.core.errors import InvalidValueError, OperationError
from pygpukit.ops.positions import rope_table

if TYPE_CHECKING:
    from pygpukit._compat.llm_buffers import ScratchRows
    from pygpukit._compat.llm_configs import TransformerConfig
    from pygpukit._compat.llm_layers import Matrix, Norm
    from pygpukit._native import GPUArray

    KeyValues = tuple[GPUArray, GPUArray]

_CACHE_DTYPES = ("float16", "bfloat16", "float32")


class Attention:
    """Causal attention with grouped queries. Matrices are arrays [out, in] or layers."""

    def __init__(
        self,
        q_proj: Matrix,
        k_proj: Matrix,
        v_proj: Matrix,
        o_proj: Matrix,
        config: TransformerConfig,
        q_bias: GPUArray | None = None,
        k_bias: GPUArray | None = None,
        v_bias: GPUArray | None = None,
        o_bias: GPUArray | None = None,
        q_norm: Norm | None = None,
        k_norm: Norm | None = None,
        *,
        rope: RopeTables | None = None,
        window: int = 0,
        softcap: float = 0.0,
        scale: float | None = None,
    ) -> None:
        self.config = config
        self.num_heads, self.num_kv_heads = config.num_heads, config.kv_heads
        self.head_dim = config.head_dim
        self.q_proj, self.k_proj = as_linear(q_proj, q_bias), as_linear(k_proj, k_bias)
        self.v_proj, self.o_proj = as_linear(v_proj, v_bias), as_linear(o_proj, o_bias)
        self.q_norm, self.k_norm = q_norm, k_norm
        rows = (
            ("q_proj", self.q_proj, self.num_heads),
            ("k_proj", self.k_proj, self.num_kv_heads),
            ("v_proj", self.v_proj, self.num_kv_heads),
        )
        for name, layer, heads in rows:
            if layer.out_features != heads * self.head_dim:
                raise InvalidValueError(
                    f"Attention: {name} has {layer.out_features} rows, expected {heads} heads of "
                    f"{self.head_dim}"
                )
        self.window, self.softcap, self.scale = window, softcap, scale
        if rope is None and config.use_rope:
            device = self._device()
            rope = RopeTables(
                lambda n: rope_table(n, self.head_dim, config.rope_theta, device=device)
            )
        self.rope = rope if config.use_rope else None
        self.k_cache: GPUArray | None = None
        self.v_cache: GPUArray | None = None
        self._confirmed = 0

    def __call__(
        self,
        x: GPUArray,
        position_ids: Sequence[int] | None = None,
        past_kv: KeyValues | None = None,
        use_cache: bool = False,
    ) -> tuple[GPUArray, KeyValues | None]:
        """(out, (k, v) of all tokens): x [seq, hidden], after the tokens of ``past_kv``."""
        require_arrays("Attention", x=x)
        past = 0 if past_kv is None else past_kv[0].shape[0]
        position: int | GPUArray = past
        if position_ids is not None:
            position = self._positions(x, position_ids)
        q, k, v = self._heads(x, position, most=_last(position_ids, past + x.shape[0]))
        if past_kv is not None:
            k, v = _native.concat([past_kv[0], k], 0), _native.concat([past_kv[1], v], 0)
        mixed = _native.attention(q, k, v, causal=self.config.causal, **self._options())
        return self._output(mixed), (k, v) if use_cache else None

    def _positions(self, x: GPUArray, position_ids: Sequence[int]) -> GPUArray:
        import numpy as np

        ids = [whole("Attention", "a position", i) for i in position_ids]
        if len(ids) != x.shape[0]:
            raise InvalidValueError(
                f"Attention: {len(ids)} position_ids for {x.shape[0]} rows, expected as many"
            )
        return _native.from_numpy(np.asarray(ids, np.int32), device=x.device)

    def _options(self) -> dict[str, Any]:
        return {"window": self.window, "softcap": self.softcap, "scale": self.scale}

    def _heads(
        self,
        x: GPUArray,
        position: int | GPUArray,
        most: int,
        scratch: ScratchRows | None = None,
    ) -> tuple[GPUArray, GPUArray, GPUArray]:
        """q, k and v [seq, heads, dim], normalised and rotated."""
        outs = (None, None, None) if scratch is None else (scratch.q, scratch.k, scratch.v)
        projections = (self.q_proj, self.k_proj, self.v_proj)
        q, k, v = (
            layer(x, out=out).reshape((x.shape[0], layer.out_features // self.head_dim, -1))
            for layer, out in zip(projections, outs, strict=True)
        )
        if self.q_norm is not None:
            q = self.q_norm(q, out=q)
        if self.k_norm is not None:
            k = self.k_norm(k, out=k)
        if self.rope is not None:
            cos, sin = self.rope.rows(most)
            start = position if isinstance(position, int) else 0
            positions = None if isinstance(position, int) else position
            for rows in (q, k):
                _native.rope(rows, cos, sin, positions, start=start, out=rows)
        return q, k, v

    def _output(self, mixed: GPUArray, out: GPUArray | None = None) -> GPUArray:
        return self.o_proj(mixed.reshape((mixed.shape[0], self.o_proj.in_features)), out=out)

    # --- cache of fixed size --------------------------------------------------------------------

    def init_fixed_cache(self, max_seq_len: int, dtype: str = "float16") -> None:
        """Keys and values of max_seq_len tokens, [heads, max_seq_len, dim], zeros."""
        op = "init_fixed_cache"
        rows = whole(op, "max_seq_len", max_seq_len, 1)
        if dtype not in _CACHE_DTYPES:
            raise InvalidValueError(
                f"{op}: dtype is {_native.safe_repr(dtype)}, expected one of "
                f"{', '.join(_CACHE_DTYPES)}"
            )
        device = self._device()
        shape = (self.num_heads, rows, self.head_dim)
        self.k_cache = _native.zeros(shape, dtype, device=device)
        self.v_cache = _native.zeros(shape, dtype, device=device)
        if self.rope is not None:
            self.rope.rows(rows)  # not in the middle of a capture
        self._confirmed = 0

    def _device(self) -> str:
        layer: Any = self.q_proj
        return str((layer.weight if hasattr(layer, "weight") else layer.weight_fp8).device)

    @property
    def max_cache_len(self) -> int:
        """Tokens that the fixed cache has room for; 0: there is none."""
        return 0 if self.k_cache is None else self.k_cache.shape[1]

    def caches(self) -> KeyValues:
        """The fixed cache."""
        if self.k_cache is None or self.v_cache is None:
            raise OperationError("Attention: no fixed cache, call init_fixed_cache() first")
        return self.k_cache, self.v_cache

    def forward_fixed_cache(
        self,
        x: GPUArray,
        position: int | GPUArray,
        context_len: int | GPUArray,
        *,
        out: GPUArray | None = None,
    ) -> GPUArray:
        """One token x [1, hidden] at a position; the first context_len keys are seen.

        ``position`` and ``context_len`` are numbers, or int32 arrays of one element on the device.
        """
        if x.ndim != 2 or x.shape[0] != 1:
            raise InvalidValueError(
                f"forward_fixed_cache: x has shape {x.shape}, expected (1, hidden)"
            )
        return self.forward_rows(x, position, context_len, out=out)

    def forward_fixed_cache_batch(
        self, x: GPUArray, start_position: int | GPUArray, context_len: int | GPUArray
    ) -> GPUArray:
        """Tokens x [seq, hidden] from a position on; context_len counts the last of them."""
        return self.forward_rows(x, start_position, context_len)

    def forward_rows(
        self,
        x: GPUArray,
        position: int | GPUArray,
        context_len: int | GPUArray,
        *,
        out: GPUArray | None = None,
        scratch: ScratchRows | None = None,
    ) -> GPUArray:
        """Both of the above; ``position`` on the device has one element for each token."""
        keys, values = self.caches()
        if isinstance(position, int):
            self._check_room(x.shape[0], position, context_len)
        q, k, v = self._heads(x, position, self.max_cache_len, scratch)
        for new, cache in ((k, keys), (v, values)):
            self._write(new, cache, position)
        dtype = keys.dtype
        mixed = self._attend(_native.astype(q, dtype, copy=False), keys, values, context_len)
        return self._output(_native.astype(mixed, x.dtype, copy=False), out)

    def _check_room(self, rows: int, position: int, context_len: int | GPUArray) -> None:
        op = "forward_fixed_cache"
        whole(op, "position", position, 0, self.max_cache_len - rows)
        if isinstance(context_len, int):
            whole(op, "context_len", context_len, rows, self.max_cache_len)

    def _write(self, new: GPUArray, cache: GPUArray, position: int | GPUArray) -> None:
        """[seq, kv_heads, dim] to the query heads of each key head."""
        groups = (self.num_kv_heads, self.num_heads // self.num_kv_heads, *cache.shape[1:])
        by_head = _native.reshape(cache, groups, copy=False)
        heads_first = _native.expand_dims(_native.permute_dims(new, (1, 0, 2)), 1)
        at: Any = position
        if isinstance(position, int):
            at = slice(position, position + new.shape[0])
        by_head[:, :, at] = _native.astype(heads_first, cache.dtype, copy=False)

    def _attend(
        self, q: GPUArray, keys: GPUArray, values: GPUArray, context_len: int | GPUArray
    ) -> GPUArray:
        k, v = (_native.permute_dims(x, (1, 0, 2)) for x in (keys, values))
        if isinstance(context_len, int):
            k, v = k[:context_len], v[:context_len]
            return _native.attention(q, k, v, causal=True, **self._options())
        batched = (x[None] for x in (q, k, v))
        options = self._options()
        return _native.attention(*batched, causal=True, lengths=context_len, **options)[0]

    # --- lookahead ------------------------------------------------------------------------------

    @property
    def confirmed_pos(self) -> int:
        """Tokens of the fixed cache that are settled; what comes after them is a guess."""
        return self._confirmed

    def set_confirmed_pos(self, pos: int) -> None:
        """The first `pos` tokens are settled."""
        self._confirmed = whole("set_confirmed_pos", "pos", pos, 0, self.max_cache_len)

    def reset_lookahead(self) -> None:
        """Forgets the keys and values of guesses."""
        for cache in self.caches():
            cache[:, self._confirmed :] = 0

    def commit_lookahead(self, n_accepted: int) -> None:
        """`n_accepted` more tokens are settled."""
        room = self.max_cache_len - self._confirmed
        self._confirmed += whole("commit_lookahead", "n_accepted", n_accepted, 0, room)


def _last(position_ids: Sequence[int] | None, otherwise: int) -> int:
    return max(position_ids, default=0) + 1 if position_ids is not None else otherwise


LlamaAttention = CausalSelfAttention = Attention

__all__ = ["Attention", "CausalSelfAttention", "LlamaAttention"]

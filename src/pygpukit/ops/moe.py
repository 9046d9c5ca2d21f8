"""Mixture of experts: routing, rows sorted by expert and back, and the whole layer."""

from __future__ import annotations

from pygpukit import _native
from pygpukit._naming import name_all
from pygpukit.core.arguments import require_arrays
from pygpukit.core.errors import InvalidValueError
from pygpukit.ops._declared import moe as _declared
from pygpukit.ops._declared.moe import *  # noqa: F403

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pygpukit._native import GPUArray


def moe_mlp(
    x: GPUArray,
    logits: GPUArray,
    gate_up: GPUArray,
    down: GPUArray,
    top_k: int,
    *,
    scoring: str = "softmax",
    renormalize: bool = False,
    num_groups: int = 1,
    top_groups: int = 1,
    bias: GPUArray | None = None,
    scale: float = 1.0,
    out: GPUArray | None = None,
) -> GPUArray:
    """SwiGLU layers of the experts that each token is routed to, added up by their weights.

    x is [tokens, n], logits [tokens, experts], gate_up [experts, 2 * hidden, n] with the gates
    first, down [experts, n, hidden]. The other arguments are moe_route's.
    """
    op = "moe_mlp"
    require_arrays(op, x=x, logits=logits, gate_up=gate_up, down=down)
    experts, hidden = _sizes(op, x, logits, gate_up, down)
    weights, chosen = _native.moe_route(
        logits,
        top_k,
        scoring=scoring,
        renormalize=renormalize,
        num_groups=num_groups,
        top_groups=top_groups,
        bias=bias,
        scale=scale,
    )
    rows, sizes, row_map = _native.moe_permute(x, chosen, experts)
    both = _native.grouped_gemm(rows, gate_up, sizes)
    inner = _native.silu_multiply(both[:, :hidden], both[:, hidden:])
    # rows is no longer needed: its memory takes the result of the second layer.
    _native.grouped_gemm(inner, down, sizes, out=rows)
    return _native.moe_unpermute(rows, row_map, weights, out=out)


def _sizes(
    op: str, x: GPUArray, logits: GPUArray, gate_up: GPUArray, down: GPUArray
) -> tuple[int, int]:
    """The number of experts, and the width of their hidden layer."""
    fits = x.ndim == logits.ndim == 2 and gate_up.ndim == down.ndim == 3
    if fits:
        (tokens, n), (experts, hidden) = x.shape, (down.shape[0], down.shape[2])
        fits = (
            logits.shape == (tokens, experts)
            and gate_up.shape == (experts, 2 * hidden, n)
            and down.shape == (experts, n, hidden)
        )
    if not fits:
        raise InvalidValueError(
            f"{op}: x has shape {x.shape}, logits {logits.shape}, gate_up {gate_up.shape}, down "
            f"{down.shape}; expected (tokens, n), (tokens, experts), (experts, 2 * hidden, n) and "
            "(experts, n, hidden)"
        )
    return experts, hidden


__all__ = ["moe_mlp"]
__all__ += _declared.__all__

name_all(globals(), __all__)

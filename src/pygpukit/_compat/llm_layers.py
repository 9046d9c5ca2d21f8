"""Layers of 0.2's transformers, over gp.ops: matrices, norms, MLPs, experts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit.core.arguments import require_arrays, whole
from pygpukit.core.errors import InvalidTypeError, InvalidValueError
from pygpukit.ops.moe import moe_mlp

if TYPE_CHECKING:
    from typing import TypeAlias

    from pygpukit._compat.llm_configs import TransformerConfig
    from pygpukit._native import GPUArray

    Matrix: TypeAlias = "GPUArray | LinearBF16 | LinearFP8"


class LinearBF16:
    """x @ weight.T + bias, with a weight [out, in] of any floating-point type."""

    def __init__(self, weight: GPUArray, bias: GPUArray | None = None) -> None:
        require_arrays("Linear", weight=weight)
        if weight.ndim != 2:
            raise InvalidValueError(f"Linear: weight has shape {weight.shape}, expected (out, in)")
        if bias is not None:
            require_arrays("Linear", bias=bias)
            if bias.shape != weight.shape[:1]:
                raise InvalidValueError(
                    f"Linear: bias has shape {bias.shape}, expected ({weight.shape[0]},)"
                )
        self.weight, self.bias = weight, bias
        self.out_features, self.in_features = weight.shape

    def __call__(self, x: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
        """[rows, out] of x [rows, in]; a row's result does not depend on the others."""
        return _native.linear(x, self.weight, self.bias, out=out, batch_invariant=True)


Linear = LinearBF16


class LinearFP8:
    """A matrix in float8_e4m3fn (as uint8) with a scale for each block.

    The weight is decoded on every call: it takes one byte an element of memory, and the time of an
    elementwise op on top of that of the GEMM.
    """

    def __init__(
        self,
        weight_fp8: GPUArray,
        scale_inv: GPUArray,
        bias: GPUArray | None = None,
        block_size: tuple[int, int] = (128, 128),
    ) -> None:
        op = "LinearFP8"
        require_arrays(op, weight_fp8=weight_fp8, scale_inv=scale_inv)
        if weight_fp8.ndim != 2 or weight_fp8.dtype.name not in ("uint8", "float8_e4m3fn"):
            raise InvalidValueError(
                f"{op}: weight_fp8 has shape {weight_fp8.shape} and dtype {weight_fp8.dtype}, "
                "expected (out, in) and uint8"
            )
        self.block_size = tuple(whole(op, "block_size", size, 1) for size in block_size)
        blocks = tuple(
            -(-n // size) for n, size in zip(weight_fp8.shape, self.block_size, strict=True)
        )
        if scale_inv.shape != blocks:
            raise InvalidValueError(
                f"{op}: scale_inv has shape {scale_inv.shape}, expected {blocks}, one for each "
                f"block of {self.block_size}"
            )
        self.weight_fp8, self.scale_inv, self.bias = weight_fp8, scale_inv, bias
        self.out_features, self.in_features = weight_fp8.shape

    def dequantized(self, dtype: Any) -> GPUArray:
        """The matrix that is multiplied with."""
        values = _native.astype(self.weight_fp8.view("float8_e4m3fn"), "float32")
        scales = _native.astype(self.scale_inv, "float32")
        for axis, size in enumerate(self.block_size):
            scales = scales.repeat(size, axis=axis)
        rows, columns = values.shape
        _native.multiply(values, scales[:rows, :columns], out=values)
        return _native.astype(values, dtype, copy=False)

    def __call__(self, x: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
        """[rows, out] of x [rows, in]."""
        require_arrays("LinearFP8", x=x)
        weight = self.dequantized(x.dtype)
        return _native.linear(x, weight, self.bias, out=out, batch_invariant=True)


def as_linear(matrix: Matrix, bias: GPUArray | None = None) -> LinearBF16 | LinearFP8:
    """A layer as it is, an array as a layer."""
    if isinstance(matrix, LinearBF16 | LinearFP8):
        return matrix
    return LinearBF16(matrix, bias)


class Norm:
    """RMSNorm or LayerNorm over the last axis."""

    def __init__(
        self,
        weight: GPUArray,
        bias: GPUArray | None = None,
        norm_type: str = "rmsnorm",
        eps: float = 1e-5,
        *,
        offset: float = 0.0,
    ) -> None:
        require_arrays("Norm", weight=weight)
        if norm_type not in ("rmsnorm", "layernorm"):
            raise InvalidValueError(
                f"Norm: norm_type is {_native.safe_repr(norm_type)}, expected 'rmsnorm' or "
                "'layernorm'"
            )
        if norm_type == "layernorm" and bias is None:
            raise InvalidValueError("Norm: a layernorm without a bias, expected one")
        self.weight, self.bias, self.norm_type, self.eps = weight, bias, norm_type, eps
        self.offset = offset  # added to the weight

    def __call__(self, x: GPUArray, *, out: GPUArray | None = None) -> GPUArray:
        """The normalised rows."""
        if self.norm_type == "layernorm":
            return _native.layernorm(x, self.weight, self.bias, self.eps, out=out)
        return _native.rmsnorm(x, self.weight, self.eps, offset=self.offset, out=out)


class MLP:
    """down(silu(gate) * up), or fc2(gelu(fc1)); gated with gelu where gates are given for it.

    Matrices are arrays [out, in] or layers.
    """

    def __init__(
        self,
        config: TransformerConfig,
        fc1_weight: Matrix | None = None,
        fc1_bias: GPUArray | None = None,
        fc2_weight: Matrix | None = None,
        fc2_bias: GPUArray | None = None,
        gate_proj: Matrix | None = None,
        up_proj: Matrix | None = None,
        down_proj: Matrix | None = None,
    ) -> None:
        self.config = config
        self.is_gated = gate_proj is not None
        wanted = {"gate_proj": gate_proj, "up_proj": up_proj, "down_proj": down_proj}
        if config.activation == "gelu" and not self.is_gated:
            wanted = {"fc1_weight": fc1_weight, "fc2_weight": fc2_weight}
        for name, given in wanted.items():
            if given is None:
                raise InvalidValueError(
                    f"MLP: no {name}, which an MLP with {config.activation} needs"
                )
        for name, given, bias in (
            ("fc1", fc1_weight, fc1_bias),
            ("fc2", fc2_weight, fc2_bias),
            ("gate_proj", gate_proj, None),
            ("up_proj", up_proj, None),
            ("down_proj", down_proj, None),
        ):
            setattr(self, name, None if given is None else as_linear(given, bias))

    fc1: Any
    fc2: Any
    gate_proj: Any
    up_proj: Any
    down_proj: Any

    def __call__(
        self,
        x: GPUArray,
        *,
        out: GPUArray | None = None,
        gate_out: GPUArray | None = None,
        up_out: GPUArray | None = None,
    ) -> GPUArray:
        """[rows, hidden]; ``gate_out`` and ``up_out`` [rows, intermediate] take what is between."""
        if not self.is_gated:
            inner = self.fc1(x, out=gate_out)
            return self.fc2(_native.gelu(inner, out=inner), out=out)  # type: ignore[no-any-return]
        gate, up = self.gate_proj(x, out=gate_out), self.up_proj(x, out=up_out)
        multiply = (
            _native.silu_multiply if self.config.activation == "silu" else _native.gelu_multiply
        )
        return self.down_proj(multiply(gate, up, out=gate), out=out)  # type: ignore[no-any-return]


class MoELayer:
    """Experts with SwiGLU: each token goes to num_experts_per_tok of them.

    ``expert_weights`` are (gate, up, down) of each expert, or two stacked arrays, gate_up [experts,
    2 * intermediate, hidden] and down [experts, hidden, intermediate].
    """

    def __init__(
        self,
        config: TransformerConfig,
        gate_weight: Matrix,
        expert_weights: Sequence[Any],
        *,
        renormalize: bool = True,
    ) -> None:
        self.config = config
        self.gate = as_linear(gate_weight)
        self.renormalize = renormalize
        if len(expert_weights) == 2 and all(getattr(w, "ndim", 0) == 3 for w in expert_weights):
            self.gate_up, self.down = expert_weights
        else:
            self.gate_up, self.down = self._stacked(expert_weights)
        self.num_experts = self.down.shape[0]
        if self.num_experts != self.gate.out_features or self.num_experts != config.num_experts:
            raise InvalidValueError(
                f"MoELayer: {self.num_experts} experts, a router for {self.gate.out_features}, "
                f"and num_experts {config.num_experts}; expected the same number"
            )

    @staticmethod
    def _stacked(experts: Sequence[Any]) -> tuple[GPUArray, GPUArray]:
        if not experts:
            raise InvalidValueError("MoELayer: no expert_weights, expected one or more")
        rows = []
        for i, expert in enumerate(experts):
            try:
                gate, up, down = expert
            except (TypeError, ValueError):
                raise InvalidTypeError(
                    f"MoELayer: expert_weights[{i}] is {_native.safe_repr(expert)}, expected "
                    "(gate, up, down)"
                ) from None
            rows.append((_native.concat([gate, up], 0), down))
        return _native.stack([r[0] for r in rows], 0), _native.stack([r[1] for r in rows], 0)

    def __call__(
        self,
        x: GPUArray,
        *,
        out: GPUArray | None = None,
        logits_out: GPUArray | None = None,
    ) -> GPUArray:
        """[tokens, hidden] of x [tokens, hidden]; ``logits_out`` takes those of the router."""
        logits = self.gate(x, out=logits_out)
        return moe_mlp(
            x,
            logits,
            self.gate_up,
            self.down,
            self.config.num_experts_per_tok,
            renormalize=self.renormalize,
            out=out,
        )


RMSNorm = LayerNorm = Norm
LlamaMLP = MLP

__all__ = [
    "MLP",
    "LayerNorm",
    "Linear",
    "LinearBF16",
    "LinearFP8",
    "LlamaMLP",
    "MoELayer",
    "Norm",
    "RMSNorm",
]

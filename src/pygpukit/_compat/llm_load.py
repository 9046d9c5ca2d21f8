"""Models of 0.2 from SafeTensors files, and repacking of their weights."""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit._compat.llm_attention import Attention
from pygpukit._compat.llm_block import TransformerBlock
from pygpukit._compat.llm_configs import TransformerConfig
from pygpukit._compat.llm_layers import MLP, LinearBF16, MoELayer, Norm
from pygpukit._compat.llm_model import CausalTransformerModel, require_model
from pygpukit._compat.llm_rotary import RopeTables
from pygpukit._compat.llm_sizes import config_from_tensors
from pygpukit._compat.llm_specs import MODEL_SPECS, ModelSpec, detect_model_spec, native_spec
from pygpukit.core.arguments import require_arrays
from pygpukit.core.errors import InvalidTypeError, InvalidValueError
from pygpukit.llm.json_file import read_object
from pygpukit.llm.safetensors import load_safetensors

if TYPE_CHECKING:
    from pygpukit._native import GPUArray

    AnyPath = str | os.PathLike[str]

_DTYPES = ("float32", "float16", "bfloat16")


def load_model_from_safetensors(
    model_path: AnyPath,
    dtype: str = "float32",
    spec: ModelSpec | None = None,
    repack_weights: bool = True,
    *,
    device: str | None = None,
) -> CausalTransformerModel:
    """The model of a file or an index.

    Sizes come from the config.json beside it; without one from the shapes of the tensors and the
    defaults of the family. Weights are always loaded into contiguous memory, in the layout of the
    kernels, whatever ``repack_weights`` says.
    """
    if dtype not in _DTYPES:
        raise InvalidValueError(
            f"load_model_from_safetensors: dtype is {_native.safe_repr(dtype)}, expected one of "
            f"{', '.join(_DTYPES)}"
        )
    path = os.fspath(model_path)
    weights = load_safetensors(path)
    beside = Path(path).parent / "config.json"
    config = read_object(beside) if beside.exists() else None
    if spec is None:
        known = None if config is None else MODEL_SPECS.get(str(config.get("model_type")))
        spec = known or detect_model_spec(weights.tensor_names)
    given = native_spec(spec)
    if config is None:
        shapes = {n: tuple(weights.tensor_info(n).shape) for n in weights.tensor_names}
        config, notes = config_from_tensors(spec, shapes)
        for note in notes:
            warnings.warn(f"{path}: {note}", UserWarning, stacklevel=2)
    model = _native.llm_load_files(path, json.dumps(config), given, dtype, device)
    return _layers_of(model, spec)


def load_gpt2_from_safetensors(
    model_path: AnyPath, dtype: str = "float32"
) -> CausalTransformerModel:
    """load_model_from_safetensors() of a GPT-2."""
    return load_model_from_safetensors(model_path, dtype, MODEL_SPECS["gpt2"])


def load_llama_from_safetensors(
    model_path: AnyPath, dtype: str = "float32"
) -> CausalTransformerModel:
    """load_model_from_safetensors() of a LLaMA."""
    return load_model_from_safetensors(model_path, dtype, MODEL_SPECS["llama"])


def load_qwen3_from_safetensors(
    model_path: AnyPath, dtype: str = "float32"
) -> CausalTransformerModel:
    """load_model_from_safetensors() of a Qwen3."""
    return load_model_from_safetensors(model_path, dtype, MODEL_SPECS["qwen3"])


def load_mixtral_from_safetensors(
    model_path: AnyPath, dtype: str = "bfloat16"
) -> CausalTransformerModel:
    """load_model_from_safetensors() of a Mixtral."""
    return load_model_from_safetensors(model_path, dtype, MODEL_SPECS["mixtral"])


class _Weights:
    """Layers that are views of the weights of a loaded model."""

    def __init__(self, model: _native.LlmModel, spec: ModelSpec) -> None:
        self.model, self.spec = model, spec
        self.numbers: dict[str, Any] = _native.llm_config(model)
        n = self.numbers
        self.config = TransformerConfig(
            vocab_size=n["vocab_size"],
            hidden_size=n["hidden_size"],
            num_layers=n["num_layers"],
            num_heads=n["num_heads"],
            num_kv_heads=n["num_kv_heads"],
            intermediate_size=n["intermediate_size"],
            _head_dim=n["head_dim"],
            num_experts=n["num_experts"] or None,
            num_experts_per_tok=n["experts_per_token"] or 2,
            moe_intermediate_size=n["intermediate_size"] if n["num_experts"] else None,
            norm_type=spec.norm_type,
            activation=spec.activation,
            use_rope=spec.use_rope,
            max_position_embeddings=n["max_positions"],
            norm_eps=n["norm_eps"],
            rope_theta=n["rope_theta"],
            tie_word_embeddings=n["tie_word_embeddings"],
        )
        most = n["max_positions"]

        def rope(local: bool) -> RopeTables:
            return RopeTables(lambda rows: _native.llm_rope_table(model, min(rows, most), local))

        self.ropes = [rope(False), rope(True)]

    def get(self, role: str, layer: int = -1) -> Any:
        return _native.llm_weight(self.model, role, layer)

    def norm(self, role: str, layer: int = -1, *, of_heads: bool = False) -> Any:
        weight = self.get(role, layer)
        if weight is None:
            return None
        bias = None if of_heads else self.get(f"{role}_bias", layer)
        eps, offset = self.config.norm_eps, self.spec.norm_offset
        return Norm(weight, bias, self.config.norm_type, eps, offset=offset)

    def attention(self, layer: int) -> Attention:
        n, c = self.numbers, self.config
        qkv, bias = self.get("qkv", layer), self.get("qkv_bias", layer)
        begin = 0

        def part(rows: int) -> LinearBF16:
            nonlocal begin
            at = slice(begin, begin + rows)
            begin += rows
            return LinearBF16(qkv[at], None if bias is None else bias[at])

        local = bool(n["has_window"][layer])
        output = LinearBF16(self.get("output", layer), self.get("output_bias", layer))
        return Attention(
            part(c.num_heads * c.head_dim),
            part(c.kv_heads * c.head_dim),
            part(c.kv_heads * c.head_dim),
            output,
            c,
            q_norm=self.norm("q_norm", layer, of_heads=True),
            k_norm=self.norm("k_norm", layer, of_heads=True),
            rope=self.ropes[local],
            window=n["window"] if local else 0,
            softcap=n["attention_softcap"],
            scale=n["attention_scale"] or None,
        )

    def mlp(self, layer: int) -> MLP | MoELayer:
        if self.config.is_moe:
            experts = (self.get("experts_up", layer), self.get("experts_down", layer))
            renormalize = self.numbers["renormalize_experts"]
            return MoELayer(
                self.config, self.get("router", layer), experts, renormalize=renormalize
            )
        up, down = self.get("up", layer), self.get("down", layer)
        if self.spec.fc1 is not None:
            biases = (self.get("up_bias", layer), self.get("down_bias", layer))
            return MLP(self.config, up, biases[0], down, biases[1])
        inner = up.shape[0] // 2
        gates = {"gate_proj": up[:inner], "up_proj": up[inner:], "down_proj": down}
        return MLP(self.config, **gates)

    def block(self, layer: int) -> TransformerBlock:
        return TransformerBlock(
            self.norm("attention_norm", layer),
            self.attention(layer),
            self.norm("mlp_norm", layer),
            self.mlp(layer),
            attn_post_norm=self.norm("attention_post_norm", layer, of_heads=True),
            mlp_post_norm=self.norm("mlp_post_norm", layer, of_heads=True),
        )


def _layers_of(model: _native.LlmModel, spec: ModelSpec) -> CausalTransformerModel:
    weights = _Weights(model, spec)
    return CausalTransformerModel(
        weights.config,
        weights.get("embedding"),
        [weights.block(i) for i in range(weights.config.num_layers)],
        weights.norm("final_norm"),
        weights.get("head"),
        weights.get("positions"),
        spec,
        embedding_scale=weights.numbers["embedding_scale"],
        final_softcap=weights.numbers["final_softcap"],
        native=model,
    )


# --- repacking --------------------------------------------------------------------------------


def repack_weight(weight: GPUArray) -> GPUArray:
    """A contiguous copy in memory of its own."""
    require_arrays("repack_weight", weight=weight)
    return _native.copy(weight)


def repack_linear(linear: LinearBF16) -> None:
    """Moves a layer's matrix and bias to memory of their own."""
    _repack("repack_linear", linear, LinearBF16)


def repack_norm(norm: Norm) -> None:
    """Moves a norm's weight and bias to memory of their own."""
    _repack("repack_norm", norm, Norm)


def _repack(op: str, given: object, kind: type) -> None:
    if not isinstance(given, kind):
        raise InvalidTypeError(
            f"{op}: the layer is of type {type(given).__name__}, expected {kind.__name__}"
        )
    layer: Any = given
    layer.weight = repack_weight(layer.weight)
    if layer.bias is not None:
        layer.bias = repack_weight(layer.bias)


def repack_model_weights(model: CausalTransformerModel) -> None:
    """Moves the weights of a model that was put together from layers to memory of their own.

    Those of a model that was loaded are contiguous already, and stay where they are.
    """
    if require_model("repack_model_weights", model)._native is not None:
        return
    for block in model.blocks:
        for part in (block, block.attn, block.mlp):
            for layer in vars(part).values():
                if isinstance(layer, LinearBF16 | Norm):
                    _repack("repack_model_weights", layer, type(layer))
    repack_norm(model.final_norm)


__all__ = [
    "load_gpt2_from_safetensors",
    "load_llama_from_safetensors",
    "load_mixtral_from_safetensors",
    "load_model_from_safetensors",
    "load_qwen3_from_safetensors",
    "repack_linear",
    "repack_model_weights",
    "repack_norm",
    "repack_weight",
]

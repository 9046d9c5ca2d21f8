"""Language models: weight files, tokenizers, generation. Names are loaded on first use."""

from pygpukit._lazy import lazy_names

_HOMES = {
    "pygpukit.llm.chat_template": ("ChatTemplate", "ChatTemplateError"),
    "pygpukit.llm.detokenizer": ("Detokenizer",),
    "pygpukit.llm.engine": ("Engine", "EngineMetrics"),
    "pygpukit.llm.generation_config": ("GenerationConfig",),
    "pygpukit.llm.grammar": ("Grammar",),
    "pygpukit.llm.language_model": ("LanguageModel", "load"),
    "pygpukit.llm.optimization_info": (
        *("FP8QuantConfig", "ModelOptimizationInfo", "PruningConfig", "QATQuantConfig"),
        "SparsityConfig",
    ),
    "pygpukit.llm.request": ("Request", "TokenLogprob"),
    "pygpukit.llm.safetensors": (
        *("Dtype", "SafeTensorsFile", "ShardedSafeTensorsFile", "TensorInfo"),
        *("load_safetensors", "save_safetensors"),
    ),
    "pygpukit.llm.stop_strings": ("StopStrings",),
    "pygpukit.llm.strategies": (
        *("DraftModel", "Jacobi", "Lookahead", "NgramLookup", "SelfSpeculation", "Strategy"),
        "StrategyStats",
    ),
    "pygpukit.llm.tokenizer": ("Tokenizer",),
    "pygpukit.llm.torch_file": ("TorchFile", "TorchTensorInfo"),
}
# Names of 0.2 and the modules that define them.
_COMPAT = {
    "pygpukit._compat.chat": (
        *("ChatMessage", "apply_chat_template", "create_chat_prompt", "format_chat_messages"),
    ),
    "pygpukit._compat.lazy_loader": ("LazyModelLoader", "TensorState"),
    "pygpukit._compat.layer_streaming": (
        *("AutoLRU", "LayerStreamingContext", "LoadingStrategy", "SimpleStreaming"),
        *("SlidingWindow", "create_streaming_context"),
    ),
    "pygpukit._compat.llm_attention": (*("Attention", "CausalSelfAttention", "LlamaAttention"),),
    "pygpukit._compat.llm_block": ("LlamaBlock", "TransformerBlock"),
    "pygpukit._compat.llm_buffers": ("DecodeBuffers", "PrefillBuffers"),
    "pygpukit._compat.llm_configs": (
        *("GPT2Config", "LlamaConfig", "Qwen3Config", "TransformerConfig"),
    ),
    "pygpukit._compat.llm_decode": (
        *("DecodeBatch", "DecodeM1", "DecodeM1Graph", "DecodeStrategy"),
    ),
    "pygpukit._compat.llm_layers": (
        *("LayerNorm", "Linear", "LinearBF16", "LinearFP8", "LlamaMLP", "MLP"),
        *("MoELayer", "Norm", "RMSNorm"),
    ),
    "pygpukit._compat.llm_load": (
        *("load_gpt2_from_safetensors", "load_llama_from_safetensors"),
        *("load_mixtral_from_safetensors", "load_model_from_safetensors"),
        *("load_qwen3_from_safetensors", "repack_linear", "repack_model_weights"),
        *("repack_norm", "repack_weight"),
    ),
    "pygpukit._compat.llm_model": (*("CausalTransformerModel", "GPT2Model", "LlamaModel"),),
    "pygpukit._compat.llm_rotary": ("apply_rotary_pos_emb_numpy", "precompute_freqs_cis"),
    "pygpukit._compat.llm_specs": (
        *("GPT2_SPEC", "LLAMA_SPEC", "MIXTRAL_SPEC", "MODEL_SPECS", "ModelSpec"),
        *("QWEN2_SPEC", "QWEN3_MOE_SPEC", "QWEN3_SPEC", "detect_model_spec"),
    ),
    "pygpukit._compat.llm_speculation": ("DecodeJacobi", "DecodeSpeculative"),
    "pygpukit._compat.memory": ("PoolStats",),
    "pygpukit._compat.token_sampling": ("sample_token",),
}

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pygpukit._compat.chat import *  # noqa: F403
    from pygpukit._compat.layer_streaming import *  # noqa: F403
    from pygpukit._compat.lazy_loader import LazyModelLoader, TensorState
    from pygpukit._compat.llm_attention import *  # noqa: F403
    from pygpukit._compat.llm_block import *  # noqa: F403
    from pygpukit._compat.llm_buffers import *  # noqa: F403
    from pygpukit._compat.llm_configs import *  # noqa: F403
    from pygpukit._compat.llm_decode import *  # noqa: F403
    from pygpukit._compat.llm_layers import *  # noqa: F403
    from pygpukit._compat.llm_load import *  # noqa: F403
    from pygpukit._compat.llm_model import *  # noqa: F403
    from pygpukit._compat.llm_rotary import *  # noqa: F403
    from pygpukit._compat.llm_specs import *  # noqa: F403
    from pygpukit._compat.llm_speculation import *  # noqa: F403
    from pygpukit._compat.memory import PoolStats
    from pygpukit._compat.token_sampling import *  # noqa: F403
    from pygpukit.llm.chat_template import ChatTemplate, ChatTemplateError
    from pygpukit.llm.detokenizer import Detokenizer
    from pygpukit.llm.engine import Engine, EngineMetrics
    from pygpukit.llm.generation_config import GenerationConfig
    from pygpukit.llm.grammar import Grammar
    from pygpukit.llm.language_model import LanguageModel, load
    from pygpukit.llm.optimization_info import (
        FP8QuantConfig,
        ModelOptimizationInfo,
        PruningConfig,
        QATQuantConfig,
        SparsityConfig,
    )
    from pygpukit.llm.request import Request, TokenLogprob
    from pygpukit.llm.safetensors import (
        Dtype,
        SafeTensorsFile,
        ShardedSafeTensorsFile,
        TensorInfo,
        load_safetensors,
        save_safetensors,
    )
    from pygpukit.llm.stop_strings import StopStrings
    from pygpukit.llm.strategies import (
        DraftModel,
        Jacobi,
        Lookahead,
        NgramLookup,
        SelfSpeculation,
        Strategy,
        StrategyStats,
    )
    from pygpukit.llm.tokenizer import Tokenizer
    from pygpukit.llm.torch_file import TorchFile, TorchTensorInfo

__all__ = [
    "ChatTemplate",
    "ChatTemplateError",
    "Detokenizer",
    "DraftModel",
    "Dtype",
    "Engine",
    "EngineMetrics",
    "FP8QuantConfig",
    "GenerationConfig",
    "Grammar",
    "Jacobi",
    "LanguageModel",
    "LazyModelLoader",
    "Lookahead",
    "ModelOptimizationInfo",
    "NgramLookup",
    "PoolStats",
    "PruningConfig",
    "QATQuantConfig",
    "Request",
    "SafeTensorsFile",
    "SelfSpeculation",
    "ShardedSafeTensorsFile",
    "SparsityConfig",
    "StopStrings",
    "Strategy",
    "StrategyStats",
    "TensorInfo",
    "TensorState",
    "TokenLogprob",
    "Tokenizer",
    "TorchFile",
    "TorchTensorInfo",
    "load",
    "load_safetensors",
    "save_safetensors",
]
if not TYPE_CHECKING:
    __getattr__ = lazy_names("pygpukit.llm", {**_HOMES, **_COMPAT}, ("models",))
    __all__ = sorted({*__all__, *(name for names in _COMPAT.values() for name in names)})

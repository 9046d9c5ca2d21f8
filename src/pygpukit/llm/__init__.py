"""Language models: weight files, tokenizers, generation. Names are loaded on first use."""

from pygpukit._lazy import lazy_names

_HOMES = {
    "pygpukit.llm.chat_template": ("ChatTemplate", "ChatTemplateError"),
    "pygpukit.llm.detokenizer": ("Detokenizer",),
    "pygpukit.llm.generation_config": ("GenerationConfig",),
    "pygpukit.llm.language_model": ("LanguageModel", "load"),
    "pygpukit.llm.optimization_info": (
        *("FP8QuantConfig", "ModelOptimizationInfo", "PruningConfig", "QATQuantConfig"),
        "SparsityConfig",
    ),
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
}
# Names of 0.2 and the modules that define them.
_COMPAT = {
    "pygpukit._compat.chat": (
        *("ChatMessage", "apply_chat_template", "create_chat_prompt", "format_chat_messages"),
    ),
    "pygpukit._compat.lazy_loader": ("LazyModelLoader", "TensorState"),
    "pygpukit._compat.memory": ("PoolStats",),
    "pygpukit._compat.token_sampling": ("sample_token",),
}

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pygpukit._compat.chat import *  # noqa: F403
    from pygpukit._compat.lazy_loader import LazyModelLoader, TensorState
    from pygpukit._compat.memory import PoolStats
    from pygpukit._compat.token_sampling import *  # noqa: F403
    from pygpukit.llm.chat_template import ChatTemplate, ChatTemplateError
    from pygpukit.llm.detokenizer import Detokenizer
    from pygpukit.llm.generation_config import GenerationConfig
    from pygpukit.llm.language_model import LanguageModel, load
    from pygpukit.llm.optimization_info import (
        FP8QuantConfig,
        ModelOptimizationInfo,
        PruningConfig,
        QATQuantConfig,
        SparsityConfig,
    )
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

__all__ = [
    "ChatTemplate",
    "ChatTemplateError",
    "Detokenizer",
    "DraftModel",
    "Dtype",
    "FP8QuantConfig",
    "GenerationConfig",
    "Jacobi",
    "LanguageModel",
    "LazyModelLoader",
    "Lookahead",
    "ModelOptimizationInfo",
    "NgramLookup",
    "PoolStats",
    "PruningConfig",
    "QATQuantConfig",
    "SafeTensorsFile",
    "SelfSpeculation",
    "ShardedSafeTensorsFile",
    "SparsityConfig",
    "StopStrings",
    "Strategy",
    "StrategyStats",
    "TensorInfo",
    "TensorState",
    "Tokenizer",
    "load",
    "load_safetensors",
    "save_safetensors",
]
if not TYPE_CHECKING:
    __getattr__ = lazy_names("pygpukit.llm", {**_HOMES, **_COMPAT})
    __all__ = sorted({*__all__, *(name for names in _COMPAT.values() for name in names)})

"""Language models: weight files, loading, generation. Names are loaded on first use."""

from pygpukit._lazy import lazy_names

# The modules and the names they define.
_HOMES = {
    "pygpukit._compat.lazy_loader": ("LazyModelLoader", "TensorState"),
    "pygpukit._compat.memory": ("PoolStats",),
    "pygpukit.llm.safetensors": (
        *("Dtype", "SafeTensorsFile", "ShardedSafeTensorsFile", "TensorInfo"),
        *("load_safetensors", "save_safetensors"),
    ),
}

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pygpukit._compat.lazy_loader import LazyModelLoader, TensorState
    from pygpukit._compat.memory import PoolStats
    from pygpukit.llm.safetensors import (
        Dtype,
        SafeTensorsFile,
        ShardedSafeTensorsFile,
        TensorInfo,
        load_safetensors,
        save_safetensors,
    )

__all__ = [
    "Dtype",
    "LazyModelLoader",
    "PoolStats",
    "SafeTensorsFile",
    "ShardedSafeTensorsFile",
    "TensorInfo",
    "TensorState",
    "load_safetensors",
    "save_safetensors",
]
if not TYPE_CHECKING:
    __getattr__ = lazy_names("pygpukit.llm", _HOMES)

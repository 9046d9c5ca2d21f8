"""Weight files."""

from pygpukit.llm import (
    Dtype,
    LazyModelLoader,
    PoolStats,
    SafeTensorsFile,
    TensorInfo,
    TensorState,
    load_safetensors,
)

__all__ = [
    "Dtype",
    "LazyModelLoader",
    "PoolStats",
    "SafeTensorsFile",
    "TensorInfo",
    "TensorState",
    "load_safetensors",
]

"""The ops as functions, loaded on first use."""

from pygpukit._lazy import lazy_names
from pygpukit._names import OPS

# The module has the name of its function: loaded later, it would shadow it.
from pygpukit.ops.matmul import matmul

TYPE_CHECKING = False  # a name type checkers know; importing typing costs more than this package
if TYPE_CHECKING:
    from pygpukit.ops import (
        audio,
        basic,
        conv,
        creation,
        data_types,
        elementwise,
        embeddings,
        kv_cache,
        low_precision,
        manipulation,
        moe,
        nn,
        paged_cache,
        positions,
        recurrent,
        reduction,
        sampling,
        sdpa,
        tensor,
        unary,
    )
    from pygpukit.ops.basic import *  # noqa: F403

if not TYPE_CHECKING:  # type checkers would accept any name
    __getattr__ = lazy_names(
        "pygpukit.ops",
        OPS,
        submodules=("audio", "basic", "unary", *(module.rpartition(".")[2] for module in OPS)),
    )


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = [
    "audio",
    "basic",
    "conv",
    "creation",
    "data_types",
    "elementwise",
    "embeddings",
    "kv_cache",
    "low_precision",
    "manipulation",
    "matmul",
    "moe",
    "nn",
    "paged_cache",
    "positions",
    "recurrent",
    "reduction",
    "sampling",
    "sdpa",
    "tensor",
    "unary",
]
if TYPE_CHECKING:
    __all__ += basic.__all__
else:
    __all__ = sorted({*__all__, *(name for names in OPS.values() for name in names)})

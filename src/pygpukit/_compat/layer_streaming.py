"""Layer streaming of 0.2: which layers of a LazyModelLoader are on the device at a time.

>>> with create_streaming_context(loader, "sliding", num_layers=32, window_size=4) as context:
...     for i in range(32):
...         context.prepare(i)             # its tensors are there, those before the window are not
...         w = loader.get(f"model.layers.{i}.mlp.up_proj.weight")
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Any

from pygpukit import _native
from pygpukit._compat.lazy_loader import LazyModelLoader
from pygpukit.core.arguments import whole
from pygpukit.core.errors import InvalidTypeError, InvalidValueError, OperationError


class LoadingStrategy(ABC):
    """Which layers are loaded for a layer that is about to run, and which are dropped."""

    @abstractmethod
    def wanted(self, layer: int, num_layers: int) -> range:
        """Layers to be loaded; ``layer`` is one of them."""

    @abstractmethod
    def kept(self, layer: int, num_layers: int) -> range:
        """Layers that may stay; others are dropped."""

    @property
    def unload_on_end(self) -> bool:
        """Whether all layers are dropped at the end."""
        return True


class SimpleStreaming(LoadingStrategy):
    """One layer at a time."""

    def wanted(self, layer: int, num_layers: int) -> range:
        """The layer."""
        return range(layer, layer + 1)

    def kept(self, layer: int, num_layers: int) -> range:
        """The layer."""
        return range(layer, layer + 1)


class SlidingWindow(LoadingStrategy):
    """The last window_size layers stay, the next prefetch_ahead are loaded early."""

    def __init__(self, window_size: int = 4, prefetch_ahead: int = 1) -> None:
        self.window_size = whole("SlidingWindow", "window_size", window_size, 1)
        self.prefetch_ahead = whole("SlidingWindow", "prefetch_ahead", prefetch_ahead)

    def wanted(self, layer: int, num_layers: int) -> range:
        """The layer and those ahead."""
        return range(layer, min(layer + 1 + self.prefetch_ahead, num_layers))

    def kept(self, layer: int, num_layers: int) -> range:
        """The window, and those ahead."""
        ahead = self.wanted(layer, num_layers).stop
        return range(max(layer + 1 - self.window_size, 0), ahead)


class AutoLRU(LoadingStrategy):
    """The loader's budget decides: the least recently used tensors make room."""

    def __init__(self, unload_on_end: bool = False) -> None:
        self._unload_on_end = bool(unload_on_end)

    def wanted(self, layer: int, num_layers: int) -> range:
        """The layer."""
        return range(layer, layer + 1)

    def kept(self, layer: int, num_layers: int) -> range:
        """All of them."""
        return range(num_layers)

    @property
    def unload_on_end(self) -> bool:
        """As given."""
        return self._unload_on_end


class LayerStreamingContext:
    """A pass through the layers of a loader's files."""

    def __init__(
        self,
        loader: LazyModelLoader,
        strategy: LoadingStrategy,
        num_layers: int,
        prefix_template: str = "model.layers.{}.",
    ) -> None:
        op = "LayerStreamingContext"
        if not isinstance(loader, LazyModelLoader):
            raise InvalidTypeError(
                f"{op}: loader is of type {type(loader).__name__}, expected a LazyModelLoader"
            )
        if not isinstance(strategy, LoadingStrategy):
            raise InvalidTypeError(
                f"{op}: strategy is of type {type(strategy).__name__}, expected a LoadingStrategy"
            )
        if "{}" not in prefix_template:
            raise InvalidValueError(
                f"{op}: prefix_template is {_native.safe_repr(prefix_template)}, expected one "
                "with {} for the layer"
            )
        self.loader, self.strategy = loader, strategy
        self.num_layers = whole(op, "num_layers", num_layers, 1)
        self.prefix_template = prefix_template
        self._is_open = False

    def __enter__(self) -> LayerStreamingContext:
        self._is_open = True
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._is_open = False
        if self.strategy.unload_on_end:
            for layer in range(self.num_layers):
                self.loader.unload_layer(self._prefix(layer))

    def _prefix(self, layer: int) -> str:
        return self.prefix_template.format(layer)

    def prepare(self, layer: int) -> None:
        """Loads what a layer needs, and drops what the strategy does not keep."""
        op = "LayerStreamingContext.prepare"
        if not self._is_open:
            raise OperationError(f"{op}: not inside `with`")
        layer = whole(op, "layer", layer, 0, self.num_layers - 1)
        kept = self.strategy.kept(layer, self.num_layers)
        for other in range(self.num_layers):
            if other not in kept:
                self.loader.unload_layer(self._prefix(other))
        for other in self.strategy.wanted(layer, self.num_layers):
            for name in self.loader.get_layer_tensors(self._prefix(other)):
                self.loader.get(name)

    @property
    def memory_stats(self) -> dict[str, Any]:
        """Layers and bytes on the device, and the loader's budget."""
        loaded = [i for i in range(self.num_layers) if self.loader.is_layer_loaded(self._prefix(i))]
        return {
            "loaded_layers": loaded,
            "loaded_bytes": self.loader.loaded_size,
            "total_bytes": self.loader.total_size,
            "budget_bytes": self.loader.pool_stats.quota,
        }


def create_streaming_context(
    loader: LazyModelLoader,
    strategy: str = "sliding",
    num_layers: int | None = None,
    prefix_template: str = "model.layers.{}.",
    **options: Any,
) -> LayerStreamingContext:
    """A context by the name of a strategy: "simple", "sliding" or "auto", and its options.

    Without ``num_layers`` the layers of the loader's files are counted.
    """
    op = "create_streaming_context"
    kinds: dict[str, type[LoadingStrategy]] = {
        "simple": SimpleStreaming,
        "sliding": SlidingWindow,
        "auto": AutoLRU,
    }
    if strategy not in kinds:
        raise InvalidValueError(
            f"{op}: strategy is {_native.safe_repr(strategy)}, expected one of {', '.join(kinds)}"
        )
    if num_layers is None:
        num_layers = 0
        while loader.get_layer_tensors(prefix_template.format(num_layers)):
            num_layers += 1
    return LayerStreamingContext(loader, kinds[strategy](**options), num_layers, prefix_template)


__all__ = [
    "AutoLRU",
    "LayerStreamingContext",
    "LoadingStrategy",
    "SimpleStreaming",
    "SlidingWindow",
    "create_streaming_context",
]

"""Layer streaming of section 18.5 of 0.2."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pygpukit as gp
from pygpukit import llm

LAYER = 64  # bytes


@pytest.fixture
def loader(tmp_path: Path) -> llm.LazyModelLoader:
    tensors = {
        f"model.layers.{i}.{part}.weight": gp.from_numpy(np.full(8, i, np.float32))
        for i in range(6)
        for part in ("a", "b")
    }
    llm.save_safetensors(tmp_path / "model.safetensors", tensors)
    loader = llm.LazyModelLoader(1 << 20, device="cpu")
    loader.load_file(tmp_path / "model.safetensors")
    return loader


@pytest.mark.parametrize(
    ("strategy", "wanted"),
    [
        (llm.SimpleStreaming(), [[0], [1], [2], [3], [4], [5]]),
        (llm.SlidingWindow(2, 1), [[0, 1], [0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 5], [4, 5]]),
        (llm.SlidingWindow(1, 0), [[0], [1], [2], [3], [4], [5]]),
        (llm.AutoLRU(), [list(range(i + 1)) for i in range(6)]),
    ],
)
def test_layers_on_the_device(
    loader: llm.LazyModelLoader, strategy: llm.LoadingStrategy, wanted: list[list[int]]
) -> None:
    with llm.LayerStreamingContext(loader, strategy, 6) as context:
        for i, layers in enumerate(wanted):
            context.prepare(i)
            stats = context.memory_stats
            assert stats["loaded_layers"] == layers
            assert stats["loaded_bytes"] == len(layers) * LAYER
            assert stats["total_bytes"] == 6 * LAYER
            assert loader.get(f"model.layers.{i}.a.weight").to_numpy()[0] == i
    assert loader.num_loaded == (12 if isinstance(strategy, llm.AutoLRU) else 0)


def test_auto_lru_may_unload(loader: llm.LazyModelLoader) -> None:
    with llm.LayerStreamingContext(loader, llm.AutoLRU(unload_on_end=True), 6) as context:
        context.prepare(0)
        assert loader.num_loaded == 2
    assert loader.num_loaded == 0


@pytest.mark.parametrize(
    ("name", "options", "kind"),
    [
        ("simple", {}, llm.SimpleStreaming),
        ("sliding", {"window_size": 3, "prefetch_ahead": 2}, llm.SlidingWindow),
        ("auto", {"unload_on_end": True}, llm.AutoLRU),
    ],
)
def test_create_streaming_context(
    loader: llm.LazyModelLoader, name: str, options: dict[str, Any], kind: type
) -> None:
    context = llm.create_streaming_context(loader, name, **options)
    assert isinstance(context.strategy, kind)
    assert context.num_layers == 6
    for option, value in options.items():
        assert getattr(context.strategy, option) == value
    assert llm.create_streaming_context(loader, name, num_layers=2).num_layers == 2


def test_errors(loader: llm.LazyModelLoader) -> None:
    with pytest.raises(TypeError, match="abstract"):
        llm.LoadingStrategy()  # type: ignore[abstract]
    with pytest.raises(ValueError, match="window_size is 0"):
        llm.SlidingWindow(window_size=0)
    with pytest.raises(ValueError, match="prefetch_ahead is -1"):
        llm.SlidingWindow(prefetch_ahead=-1)
    with pytest.raises(ValueError, match="strategy is 'all', expected one of simple, sliding"):
        llm.create_streaming_context(loader, "all")
    with pytest.raises(ValueError, match="num_layers is 0"):
        llm.create_streaming_context(loader, "simple", prefix_template="other.{}.")
    simple = llm.SimpleStreaming()
    with pytest.raises(ValueError, match="prefix_template is 'model'"):
        llm.LayerStreamingContext(loader, simple, 6, "model")
    with pytest.raises(TypeError, match="loader is of type int"):
        llm.LayerStreamingContext(3, simple, 6)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="strategy is of type str"):
        llm.LayerStreamingContext(loader, "simple", 6)  # type: ignore[arg-type]
    context = llm.LayerStreamingContext(loader, simple, 6)
    with pytest.raises(RuntimeError, match="not inside `with`"):
        context.prepare(0)
    with context, pytest.raises(ValueError, match="layer is 6, expected 0 to 5"):
        context.prepare(6)

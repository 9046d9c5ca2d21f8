"""SafeTensors in shards on CPU simulation: the index, loading when needed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors
import safetensors.numpy

import pygpukit as gp


def values(dtype: Any, shape: tuple[int, ...], seed: int = 0) -> Any:
    """Every finite value that small numbers have in the dtype."""
    rng = np.random.default_rng(seed)
    if dtype is np.bool_:
        return rng.integers(0, 2, shape).astype(dtype)
    return rng.integers(0, 100, shape).astype(np.float64).astype(dtype)


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    one = {"a": values(np.float32, (3, 5), 1), "b": values(np.int16, (7,), 2)}
    two = {"c": values(np.float16, (2, 2), 3)}
    safetensors.numpy.save_file(one, tmp_path / "model-1.safetensors", {"format": "np"})
    safetensors.numpy.save_file(two, tmp_path / "model-2.safetensors")
    index = {"weight_map": {"a": "model-1.safetensors", "c": "model-2.safetensors"}}
    index["weight_map"]["b"] = "model-1.safetensors"
    path = tmp_path / "model.safetensors.index.json"
    path.write_text(json.dumps(index))
    return path


# --- shards -------------------------------------------------------------------------------------
def test_an_index(shards: Path) -> None:
    weights = gp.llm.load_safetensors(shards)
    assert isinstance(weights, gp.llm.ShardedSafeTensorsFile)
    assert weights.tensor_names == ["a", "c", "b"]
    assert [Path(path).name for path in weights.shard_files] == [
        "model-1.safetensors",
        "model-2.safetensors",
    ]
    weights.verify()
    assert weights.metadata == {"format": "np"}
    arrays = weights.load()
    np.testing.assert_array_equal(arrays["a"].to_numpy(), values(np.float32, (3, 5), 1))
    np.testing.assert_array_equal(arrays["b"].to_numpy(), values(np.int16, (7,), 2))
    np.testing.assert_array_equal(arrays["c"].to_numpy(), values(np.float16, (2, 2), 3))
    weights.check_names(["a", "b", "c"])
    with pytest.raises(ValueError, match="missing 'x'; unexpected 'c'"):
        weights.check_names(["a", "b", "x"])


def test_shards_open_when_needed(shards: Path) -> None:
    (shards.parent / "model-2.safetensors").unlink()
    weights = gp.llm.ShardedSafeTensorsFile(shards)
    assert weights.tensor("a").shape == (3, 5)
    with pytest.raises(FileNotFoundError):
        weights.tensor("c")


@pytest.mark.parametrize("shard", ["../x", "/etc/passwd", "a/../../x", "", "..\\x", "x\0"])
def test_shards_stay_inside_the_folder(shard: str, tmp_path: Path) -> None:
    path = tmp_path / "m.index.json"
    path.write_text(json.dumps({"weight_map": {"a": shard}}))
    with pytest.raises(ValueError, match="expected a file inside the index's folder"):
        gp.llm.ShardedSafeTensorsFile(path)


def test_index_and_shards_that_disagree(shards: Path) -> None:
    index = json.loads(shards.read_text())
    index["weight_map"]["d"] = "model-2.safetensors"
    shards.write_text(json.dumps(index))
    with pytest.raises(ValueError, match="has no tensor 'd', expected by"):
        gp.llm.ShardedSafeTensorsFile(shards).tensor("c")
    del index["weight_map"]["d"], index["weight_map"]["b"]
    shards.write_text(json.dumps(index))
    with pytest.raises(ValueError, match="has 'b', which"):
        gp.llm.ShardedSafeTensorsFile(shards).verify()


# --- LazyModelLoader ----------------------------------------------------------------------------
def test_lazy_loader(shards: Path) -> None:
    loader = gp.llm.LazyModelLoader(80)
    loader.load_file(shards)
    State = gp.llm.TensorState
    assert (loader.num_files, loader.num_tensors, loader.num_loaded) == (1, 3, 0)
    assert loader.total_size == 60 + 14 + 8
    assert loader.tensor_state("a") == State.OnDisk
    np.testing.assert_array_equal(loader.get("a").to_numpy(), values(np.float32, (3, 5), 1))
    assert loader.get("a") is loader.get("a")
    loader.get("b")
    assert loader.loaded_size == 74
    loader.get("a")
    loader.get("c")  # "b" leaves: "a" was used since
    assert loader.loaded_tensors == ["a", "c"]
    assert loader.tensor_state("b") == State.Evicted
    assert loader.tensor_state("c") == State.OnGpu
    stats = loader.pool_stats
    assert isinstance(stats, gp.llm.PoolStats)
    assert (stats.quota, stats.used, stats.available, stats.eviction_count) == (80, 68, 12, 1)
    assert loader.layer_state("a") == (1, 1, 60, 60)
    assert loader.layer_state("") == (3, 2, 82, 68)
    assert loader.is_layer_loaded("a")
    assert not loader.is_layer_loaded("")
    assert not loader.is_layer_loaded("none")
    assert loader.layer_size("b") == 14
    assert loader.unload_layer("a") == (1, 60)
    assert loader.unload_tensors(["c", "b"]) == (1, 8)
    loader.get("b")
    assert loader.unload_model() == 14
    with pytest.raises(KeyError, match="no tensor 'x'"):
        loader.get("x")
    with pytest.raises(ValueError, match="which another file has"):
        loader.load_file(shards)
    loader.clear()
    assert loader.num_files == loader.num_tensors == 0


def test_lazy_loader_without_eviction(shards: Path) -> None:
    loader = gp.llm.LazyModelLoader(70, enable_eviction=False)
    loader.load_file(shards)
    loader.get("a")
    with pytest.raises(MemoryError, match="14 bytes, 60 of 70 are used"):
        loader.get("b")
    small = gp.llm.LazyModelLoader(10)
    small.load_file(shards)
    with pytest.raises(MemoryError, match="60 bytes, 0 of 10 are used"):
        small.get("a")
    with pytest.raises(ValueError, match="memory_budget"):
        gp.llm.LazyModelLoader(0)

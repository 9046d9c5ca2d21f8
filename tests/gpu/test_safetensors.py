"""SafeTensors to a GPU: contents, conversion, blocks, bounded host memory, eviction, order."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pygpukit as gp

MODEL = Path(__file__).resolve().parents[1] / "data" / "tiny-qwen3-1m" / "model.safetensors"
STORED = {"float32": "F32", "bfloat16": "BF16", "float16": "F16", "int32": "I32", "uint8": "U8"}
MB = 1 << 20


def write(path: Path, tensors: dict[str, Any]) -> Path:
    """In the order given, so that tensors may be misaligned."""
    header, at = {}, 0
    for name, x in tensors.items():
        offsets = [at, at := at + x.nbytes]
        header[name] = {"dtype": STORED[str(x.dtype)], "shape": x.shape, "data_offsets": offsets}
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for x in tensors.values():
            file.write(np.ascontiguousarray(x).tobytes())
    return path


def values(dtype: Any, count: int, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind in "iu":
        return rng.integers(0, 200, count).astype(dtype)
    return rng.standard_normal(count, np.float32).astype(dtype)


@pytest.fixture(scope="module")
def tensors() -> dict[str, Any]:
    """From 1 byte to many windows, odd sizes."""
    return {
        "byte": values(np.uint8, 1, 0),
        "large": values(np.float32, 9 * MB + 3, 1).reshape(3, -1),
        "norm": values(ml_dtypes.bfloat16, 4097, 2),
        "wide": values(ml_dtypes.bfloat16, 6 * MB + 1, 3),
        "half": values(np.float16, 1001, 4),
        "ids": values(np.int32, 3 * MB, 5),
        "empty": np.empty((0, 4), np.float32),
    }


@pytest.fixture(scope="module")
def path(tensors: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("weights") / "model.safetensors", tensors)


def same_bits(x: gp.GPUArray, want: Any) -> None:
    got = x.to_numpy()
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    assert got.tobytes() == np.ascontiguousarray(want).tobytes()


def test_a_real_model() -> None:
    weights = gp.llm.SafeTensorsFile(MODEL)
    for name, x in weights.load().items():
        assert x.on_gpu
        assert x.to_numpy().tobytes() == weights.tensor_bytes(name)


@pytest.mark.parametrize("block_bytes", [0, 1, 8 * MB])
@pytest.mark.parametrize("num_threads", [0, 1, 3])
def test_as_stored(path: Path, tensors: dict[str, Any], block_bytes: int, num_threads: int) -> None:
    weights = gp.llm.SafeTensorsFile(path)
    arrays = weights.load(block_bytes=block_bytes, num_threads=num_threads)
    for name, want in tensors.items():
        same_bits(arrays[name], want)


@pytest.mark.parametrize("block_bytes", [0, 8 * MB])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float64"])
def test_converted(path: Path, tensors: dict[str, Any], dtype: str, block_bytes: int) -> None:
    arrays = gp.llm.SafeTensorsFile(path).load(dtype=dtype, block_bytes=block_bytes)
    target = gp.DataType.from_string(dtype).to_numpy_dtype()
    for name, stored in tensors.items():
        converts = stored.dtype.kind not in "iu"
        same_bits(arrays[name], stored.astype(target) if converts else stored)


def test_read_only_views_of_few_blocks(path: Path) -> None:
    before = gp.memory.stats()["blocks"]
    arrays = gp.llm.SafeTensorsFile(path).load()
    assert gp.memory.stats()["blocks"] == before + 1
    for x in arrays.values():
        assert gp.memory.is_frozen(x)
        if x.size:
            assert x.device_ptr % 256 == 0
            with pytest.raises(ValueError, match="read-only"):
                x[...] = 0


def test_an_index(tensors: dict[str, Any], tmp_path: Path) -> None:
    names = list(tensors)
    weight_map = {}
    for i, part in enumerate((names[:2], names[2:5], names[5:])):
        write(tmp_path / f"{i}.safetensors", {name: tensors[name] for name in part})
        weight_map.update(dict.fromkeys(part, f"{i}.safetensors"))
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": weight_map}))
    arrays = gp.llm.load_safetensors(index).load()
    for name, want in tensors.items():
        same_bits(arrays[name], want)


def test_written_and_read_again(tensors: dict[str, Any], tmp_path: Path) -> None:
    arrays = {name: gp.from_numpy(x) for name, x in tensors.items()}
    arrays["strided"] = arrays["large"].T
    gp.llm.save_safetensors(tmp_path / "x", arrays, {"format": "pt"})
    again = gp.llm.SafeTensorsFile(tmp_path / "x").load()
    for name, x in arrays.items():
        same_bits(again[name], x.to_numpy())


def test_threads_load_at_once(path: Path, tensors: dict[str, Any]) -> None:
    weights = gp.llm.SafeTensorsFile(path)
    wrong: list[object] = []

    def work(dtype: str | None) -> None:
        try:
            with gp.Stream():
                x = weights.tensor("wide", dtype=dtype)
                same_bits(x, tensors["wide"].astype(dtype) if dtype else tensors["wide"])
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(d,)) for d in (None, "float32") * 3]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_after_the_work_of_the_stream(path: Path, tensors: dict[str, Any]) -> None:
    """Memory that a stream has freed is reused in its order: its late writes come first."""
    a = gp.ones((8192, 8192), dtype="float32")
    for _ in range(20):
        a = a @ a * 1e-5  # takes a while; the memory of the former is free to be used
    same_bits(gp.llm.SafeTensorsFile(path).tensor("large"), tensors["large"])


def test_not_in_a_capture(path: Path) -> None:
    weights = gp.llm.SafeTensorsFile(path)
    graph = gp.CudaGraph()
    with pytest.raises(gp.CaptureError), graph:
        weights.tensor("norm")


def test_progress_and_its_errors(path: Path, tensors: dict[str, Any]) -> None:
    weights = gp.llm.SafeTensorsFile(path)
    seen: list[tuple[int, int]] = []
    weights.load(progress=lambda *now: seen.append(now))
    assert seen[0][0] == 0
    assert seen[-1][0] == seen[-1][1]
    assert seen == sorted(seen)

    def stop(done: int, total: int) -> None:
        if done:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        weights.load(progress=stop)
    same_bits(weights.tensor("wide"), tensors["wide"])


CHILD = """
import resource, sys
import pygpukit as gp
gp.zeros(1).to_numpy()
weights = gp.llm.SafeTensorsFile(sys.argv[1])
weights.tensor("first")                       # the pinned buffers of one window
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
arrays = weights.load(["large"], dtype=sys.argv[2] or None)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, arrays["large"].nbytes)
"""


@pytest.mark.parametrize("dtype", ["", "float32"])
def test_host_memory_is_bounded(dtype: str, tmp_path: Path) -> None:
    size = 1 << 30
    header = {
        "first": {"dtype": "BF16", "shape": [8], "data_offsets": [0, 16]},
        "large": {"dtype": "BF16", "shape": [size // 2], "data_offsets": [16, 16 + size]},
    }
    text = json.dumps(header).encode()
    path = tmp_path / "x"
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + 16 + size)
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(path), dtype], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    grown_kb, nbytes = map(int, done.stdout.split())
    assert nbytes == (2 * size if dtype else size)
    assert grown_kb < 200 * 1024  # 128 MiB of pinned buffers, stacks, kernels


LIMITED = """
import sys
import numpy as np
import pygpukit as gp
weights = gp.llm.SafeTensorsFile(sys.argv[1])
want = {name: x.to_numpy() for name, x in weights.load().items()}
gp.memory.trim()
total = sum(x.nbytes for x in want.values())
gp.memory.set_limit(total // 2)
try:
    weights.load()
except gp.OutOfMemory:
    pass
else:
    raise SystemExit("the limit did not hold")
arrays = weights.load(evictable=True, block_bytes=8 << 20)
assert gp.memory.stats()["evictions"] > 0
for _ in range(2):
    for name, x in arrays.items():
        assert x.to_numpy().tobytes() == want[name].tobytes(), name
"""


def test_more_than_the_limit_by_eviction(tmp_path: Path) -> None:
    rows = {f"layer.{i}": values(np.float32, 4 * MB, i) for i in range(12)}
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(write(tmp_path / "x", rows))],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr

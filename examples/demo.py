"""`make demo`: what PyGPUkit does on this machine, in a few seconds.

Each part checks its results against NumPy or against a guarantee of the library and prints one
line with a figure. The exit code is not zero if any part fails. Without a GPU the same program runs
on CPU simulation. Names of parts as arguments choose some of them.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import numpy as np

import pygpukit as gp

MIB = 2**20
DATA = Path(__file__).resolve().parents[1] / "tests" / "data"
TINY = DATA / "tiny-qwen3-1m"
WHISPER = DATA / "tiny-whisper-words"


def require(ok: object, what: str) -> None:
    if not ok:
        raise AssertionError(what)


def milliseconds(call: Callable[[], object]) -> float:
    """Time of one call including its work on the device; the best of three."""
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        call()
        gp.synchronize()
        best = min(best, time.perf_counter() - start)
    return best * 1e3


def arrays() -> str:
    """Views, broadcasting, indexing and a reduction over them."""
    host = np.random.default_rng(0).standard_normal((1000, 1000), dtype=np.float32)
    x = gp.from_numpy(host)

    def centre() -> gp.GPUArray:
        y = x[::2, ::-1] - gp.mean(x, axis=0)[::-1]
        y[y < 0] = 0
        return y

    expected = np.maximum(host[::2, ::-1] - host.mean(axis=0)[::-1], 0)
    require(np.allclose(centre().to_numpy(), expected, atol=1e-5), "differs from NumPy")
    return f"views, broadcasting, masks on {x.shape}: {milliseconds(centre):.2f} ms"


@gp.fuse
def gate(x, w, bias, scale):
    return gp.silu(x * w + bias) * scale


def fused_expression() -> str:
    """Four elementwise ops as one kernel, bit-identical to the separate ops."""
    rng = gp.random.default_rng(1)
    x, w, bias = rng.standard_normal((1000, 1000)), rng.standard_normal(1000), gp.ones(1000)
    fused = gate(x, w, bias, 0.5)
    separate = gp.silu(x * w + bias) * 0.5
    require(gp.array_equal(fused, separate), "fused and separate ops differ")
    time_ms = milliseconds(lambda: gate(x, w, bias, 0.5))
    lines = len(gate.source.splitlines())
    return f"silu(x * w + bias) * scale as {lines} lines of CUDA C, same bits: {time_ms:.2f} ms"


def gemm() -> str:
    """A linear layer with a fused epilogue, and the plan of its GEMM."""
    rng = np.random.default_rng(2)
    host_x = rng.standard_normal((64, 1024), dtype=np.float32)
    host_w = rng.standard_normal((1024, 1024), dtype=np.float32) / 32
    x, w, bias = gp.from_numpy(host_x), gp.from_numpy(host_w), gp.ones(1024)
    y = gp.linear(x, w, bias, "relu")
    expected = np.maximum(host_x @ host_w.T + 1, 0)
    require(np.allclose(y.to_numpy(), expected, rtol=1e-4, atol=1e-4), "differs from NumPy")
    half = x.astype("bfloat16"), w.astype("bfloat16").T
    plan = gp.explain_matmul(*half, sm=None if x.on_gpu else 90)
    require(plan.choice in plan.candidates, "the choice is none of the candidates")
    where = "" if x.on_gpu else " on an H200"
    engine, predicted = plan.choice["engine"], plan.choice["predicted_us"]
    return (
        f"relu(x w^T + b), 64x1024x1024; in bfloat16 by {engine}, best of "
        f"{len(plan.candidates)} plans, {predicted:.1f} us predicted{where}"
    )


SCALE = """
__global__ void scale(float* x, float factor, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= factor;
}
"""


def custom_kernel() -> str:
    """CUDA C compiled at run time; without a GPU it runs in the simulator."""
    if not gp.is_nvrtc_available():
        return "skipped: NVRTC is missing (pip install pygpukit[jit])"
    start = time.perf_counter()
    kernel = gp.jit(SCALE, "scale")
    compiled = (time.perf_counter() - start) * 1e3
    x = gp.ones(1_000_000)
    kernel(x, factor=0.5, n=x.size)
    require((x.to_numpy() == 0.5).all(), "the kernel's result is wrong")
    where = "on the GPU" if x.on_gpu else "in the simulator"
    return f"scale(x, factor, n): compiled in {compiled:.0f} ms, 1,000,000 elements {where}"


def cuda_graph() -> str:
    """Work captured once and replayed with one call."""
    total, one = gp.zeros(1000), gp.ones(1000)
    graph = gp.CudaGraph()
    with graph:
        for _ in range(100):
            gp.add(total, one, out=total)
    require((total.to_numpy() == 0).all(), "the capture ran its work")
    start = time.perf_counter()
    for _ in range(10):
        graph.replay()
    graph.synchronize()
    each = (time.perf_counter() - start) * 1e6 / 1000
    require((total.to_numpy() == 1000).all(), "the replays gave another result")
    return f"100 kernels captured, replayed 10 times: {each:.2f} us per kernel"


def memory() -> str:
    """An enforced limit, and arrays that are evicted to host memory and restored."""
    before = gp.memory.stats()
    chunk = before["chunk"]
    gp.memory.trim()
    limit = gp.memory.stats()["reserved"] + 8 * chunk
    gp.memory.set_limit(limit)
    gp.memory.set_evictable_default(chunk)
    try:
        count, elems = 12, chunk // 4
        kept = [gp.full((elems,), float(i)) for i in range(count)]
        require(gp.memory.stats()["peak_reserved"] <= max(limit, before["peak_reserved"]), "limit")
        first = [float(array[0]) for array in kept]
        require(first == list(range(count)), "a restored array has changed")
        try:
            gp.empty(limit // 4 + elems)
            require(False, "an allocation above the limit was granted")
        except gp.OutOfMemory:
            pass
        evictions = gp.memory.stats()["evictions"] - before["evictions"]
        require(evictions > 0, "nothing was evicted")
        held = count * chunk // MIB
        return (
            f"{held} MiB of arrays under {8 * chunk // MIB} MiB: {evictions} evictions, all intact"
        )
    finally:
        gp.memory.set_evictable_default(None)
        gp.memory.set_limit(None)


def scheduler() -> str:
    """Tasks with dependencies and reservations beside a partition with a memory quota."""
    partition = gp.scheduler.partition("demo", compute=0.25, memory="8MiB", qos="best_effort")
    try:
        with partition:
            try:
                gp.zeros(4 * MIB)
                require(False, "16 MiB were granted to a partition of 8")
            except gp.OutOfMemory:
                pass

        def background(i: int) -> float:
            with partition:
                return float(gp.sum(gp.full((1000,), float(i))))

        start = time.perf_counter()
        load = gp.scheduler.submit(lambda: gp.ones(1000), memory=MIB, qos="guaranteed")
        sums = [
            gp.scheduler.submit(lambda k=k: float(gp.sum(load.result() * k)), after=[load])
            for k in range(8)
        ]
        beside = [gp.scheduler.submit(background, i, qos="best_effort") for i in range(8)]
        require([task.result(30) for task in sums] == [1000.0 * k for k in range(8)], "sums")
        require([task.result(30) for task in beside] == [1000.0 * i for i in range(8)], "partition")
        spent = (time.perf_counter() - start) * 1e3
    finally:
        partition.close()
    return f"17 tasks in {spent:.1f} ms, 8 of them in a partition; its 8 MiB quota held"


def language_model() -> str:
    """Greedy text of a small trained model, token for token what Transformers gives."""
    text = json.loads((TINY / "golden.json").read_text())["greedy"][0]
    model = gp.llm.load(TINY, "float32", max_length=128, max_batch=1)
    count = len(text["float32"])

    def generate() -> list[int]:
        return model.generate(text["prompt_ids"], max_new_tokens=count, stop_tokens=[])

    tokens = generate()
    require(tokens == text["float32"], "the tokens are not those of Transformers")
    start = time.perf_counter()
    require(generate() == tokens, "the same prompt gave another text")
    rate = count / (time.perf_counter() - start)
    try:
        words = model.tokenizer.decode(tokens[:8])
    except ImportError:
        words = f" {tokens[:8]}"
    return f'"{text["prompt"]}" -> "{words}...": {rate:.0f} tokens per second'


def speech_to_text() -> str:
    """A clip through a small trained Whisper, word for word what was said."""
    clips = json.loads((WHISPER / "golden.json").read_text(encoding="utf-8"))["clips"]
    clip = next(clip for clip in clips if clip["name"] == "clip7")
    try:
        model = gp.asr.WhisperModel.from_pretrained(WHISPER, max_batch=1, max_beams=1)
    except ImportError as error:
        return f"0 clips: {error}"
    start = time.perf_counter()
    result = model.transcribe(WHISPER / "clip7.wav", language="en")
    spent = time.perf_counter() - start
    require(result.text == clip["text"], f"{result.text!r} is not what was said")
    return f'{result.duration:.1f} s of sound -> "{result.text}" in {spent * 1e3:.0f} ms'


PARTS = (
    *(arrays, fused_expression, gemm, custom_kernel, cuda_graph, memory, scheduler),
    *(language_model, speech_to_text),
)


def mode() -> str:
    """The mode this machine runs in, from `python -m pygpukit --json`."""
    command = [sys.executable, "-m", "pygpukit", "--json"]
    found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    why = found["why"].splitlines()[0].removesuffix(" Tried:")
    return f"{found['mode']} ({why})"


def main(chosen: list[str]) -> int:
    start = time.perf_counter()
    print(f"PyGPUkit {gp.__version__}, {mode()}\n")
    failed = 0
    parts = {part.__name__.replace("_", " "): part for part in PARTS}
    names = chosen or list(parts)
    for name in names:
        part = parts[name]
        try:
            print(f"  ok      {name:<17} {part()}", flush=True)
        except Exception as error:
            failed += 1
            print(f"  FAILED  {name:<17} {type(error).__name__}: {error}", flush=True)
            traceback.print_exc()
    spent = time.perf_counter() - start
    print(f"\n{len(names) - failed} of {len(names)} parts passed in {spent:.1f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

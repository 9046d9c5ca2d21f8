"""A few small cases of every kernel family, for compute-sanitizer (gpu_check.sh sanitizer)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases import (
    attention,
    audio,
    conv,
    fuse,
    moe,
    nn,
    paged_cache,
    products,
    quantize,
    recurrent,
    sampling,
    sorting,
)
from cases import run_attention as attention_runs
from cases import run_audio as audio_runs
from cases import run_conv as conv_runs
from cases import run_moe as moe_runs
from cases import run_nn as nn_runs
from cases import run_paged_cache as cache_runs
from cases import run_quantize as quantize_runs
from cases import run_recurrent as recurrent_runs
from cases import run_sampling as sampling_runs
from cases import run_sorting as sorting_runs
from cases.llm import TINY, golden, write_model
from cases.run_fuse import to_device

import pygpukit as gp
from pygpukit.ops.matmul_plan import explain_matmul, with_matmul_plan

pytestmark = pytest.mark.sanitize
DEVICE = "cuda"
Case = Any


def pick(table: Iterable[Case], *names: str) -> Any:
    """The cases of those names, each of which must exist."""
    by_name = {str(case): case for case in table}
    return pytest.mark.parametrize("case", [by_name[name] for name in names], ids=str)


# --- audio ----------------------------------------------------------------------------------------


@pick(
    audio.CASES,
    "golden-stft",
    "golden-whisper_128",
    "golden-istft",
    "sosfilt",
    "median-time",
    "crossings",
    "resample-3-7",
)
def test_audio(case: Case) -> None:
    audio_runs.run_case(case, DEVICE)


# --- rows: a warp, a block and a cluster for each ------------------------------------------------


@pick(
    nn.CASES,
    "rmsnorm-float32-1x33",
    "rmsnorm-bfloat16-2x4099",
    "rmsnorm-bfloat16-3x5120-float32-weight",
    "layernorm-float32-129x24",
    "layernorm-bfloat16-1x40000",
    "add_rmsnorm-bfloat16-4x1024",
    "add_rmsnorm-float16-1x40000",
    "add_layernorm-float32-3x1000",
    "groupnorm-bfloat16-2x12x3x7-by-2",
    "instancenorm-float32-3x8x5",
    "adain-float32-2x12x3x7",
)
def test_norms(case: Case) -> None:
    nn_runs.run_case(case, DEVICE)


@pick(
    nn.CASES,
    "softmax-float32-1x33",
    "softmax-bfloat16-2x4099",
    "softmax-float32-1x40000",
    "softmax-float32-3x40x9-axis1",
    "softmax-bfloat16-3x5000-mask-3x5000-axis-1",
    "log_softmax-float16-129x24",
    "log_likelihood-bfloat16-2x3x1000-int32",
    "log_likelihood-float32-2x150001-int64",
)
def test_softmax(case: Case) -> None:
    nn_runs.run_case(case, DEVICE)


@pick(
    nn.CASES,
    "rope-bfloat16-2x3x4x8-by-3-float32-halves",
    "rope-float32-5x2x64-by-16-float32-pairs",
    "rope_computed-bfloat16-5x2x64-by-32-halves",
    "embedding-bfloat16-2x5-of-64-int32-float32-positions",
    "embedding-float32-7-of-33-int32-float32-start",
)
def test_positions(case: Case) -> None:
    nn_runs.run_case(case, DEVICE)


@pytest.mark.nvrtc
@pytest.mark.parametrize("shape", [(3, 33), (129, 24), (2, 4099), (1, 40000)], ids=str)
@pick(fuse.CASES, "add_rmsnorm", "two_rows", "extremes")
def test_fused_rows(case: Case, shape: tuple[int, int]) -> None:
    for dtype in ("float32", "bfloat16"):
        host = case.draw(shape, dtype)
        got = gp.fuse(case.ours)(*to_device(host, DEVICE)).to_numpy().astype(np.float64)
        want = case.want(*host)
        assert np.max(np.abs(got - want) / (1 + np.abs(want))) <= fuse.TOLERANCE[dtype]


@pytest.mark.parametrize("shape", [(7, 33), (3, 5000), (5000, 3)], ids=str)
def test_reductions(shape: tuple[int, int]) -> None:
    host = np.random.default_rng(0).integers(-9, 9, shape).astype(np.float32)
    x = gp.from_numpy(host, device=DEVICE)
    for axis in (0, 1, None):
        for name in ("sum", "max", "argmin"):
            want = getattr(np, name)(host, axis=axis)
            np.testing.assert_array_equal(getattr(gp, name)(x, axis=axis).to_numpy(), want)
    for axis in (0, 1):
        want = np.cumsum(host, axis=axis)
        np.testing.assert_array_equal(gp.cumsum(x, axis=axis).to_numpy(), want)


# --- attention and caches ------------------------------------------------------------------------


@pick(
    attention.CASES,
    "float16-2x1x300-4/2-d64-causal=True",
    "bfloat16-2x3x40-4/2-d64-causal=True",
    "float16-2x2x33-20/1-d64-causal=True",
    "float16-2x2x19-4/2-d96",
    "bfloat16-2x2x19-4/2-d256",
    "float16-2x1x48-4/2-d64-causal=True-lengths-page16",
    "float16-2x1x64-4/2-d64-k_scale=0.5-v_scale=2.0-causal=True-lengths-page32-fp8",
)
def test_attention_decode(case: Case) -> None:
    attention_runs.run_case(case, DEVICE)


def engine_cases(*names: str) -> Any:
    by_name = {str(case): (engine, case) for engine, case in attention.ENGINE_CASES}
    return pytest.mark.parametrize(("engine", "case"), [by_name[name] for name in names], ids=str)


@engine_cases(
    "float16-2x140x200-2/1-d64-causal=True-packed",
    "bfloat16-2x140x256-2/1-d64-causal=True-window=40-lengths-packed-page32",
    "bfloat16-2x140x200-2/1-d128-causal=True-window=70-softcap=3.0-sinks-lengths",
    "bfloat16-2x140x256-2/1-d128-causal=True-lengths-sinks-page16-spare1",
    "bfloat16-2x140x200-2/1-d256-causal=True-window=70-sinks-lengths",
    "bfloat16-2x140x256-2/1-d96-causal=True-lengths-sinks-page16-spare1",
    "float16-2x140x200-2/1-d96-causal=True-packed",
    "bfloat16-2x140x200-2/1-d64-causal=True-mask-bias-lengths",
)
def test_attention_prefill_and_tile(engine: str, case: Case) -> None:
    attention_runs.run_case(case, DEVICE, engine)


@pick(
    attention.CASES,
    "float16-2x20x30-4/2-d80-causal=True",
    "bfloat16-2x20x30-4/2-d192-128",
    "float16-2x40x128-4/2-d64-k_scale=0.5-v_scale=2.0-causal=True-lengths-packed-page16-spare5-fp8",
    "float16-2x9x96-4/2-d48-causal=True-lengths-packed-page32-spare1-fp8",
    "float16-2x2x19-4/2-d20",
    "float32-2x5x9-4/2-d16-mask-bias-sinks-lengths",
)
def test_attention_others(case: Case) -> None:
    attention_runs.run_case(case, DEVICE)


@pick(
    paged_cache.CASES, "norm and rope-bfloat16", "odd half-float32", "fp8-bfloat16", "wide-float16"
)
def test_kv_cache(case: Case) -> None:
    cache_runs.run_case(case, DEVICE)


def test_kv_pages() -> None:
    cache_runs.run_pages("bfloat16", 64, DEVICE)


# --- products ------------------------------------------------------------------------------------


def small_integers(shape: tuple[int, ...], dtype: str, seed: int) -> Any:
    return np.random.default_rng(seed).integers(-1, 2, shape).astype(np.float32).astype(dtype)


def check_plans(run: Callable[[], None], out: Any, want: Any) -> None:
    """Every plan of a product of small integers, which is exact."""
    for plan in explain_matmul(run).candidates:
        out[...] = float("nan")
        with_matmul_plan(run, plan["text"])
        np.testing.assert_array_equal(out.to_numpy().astype(np.float32), want, plan["text"])


def test_matmul_in_slices() -> None:
    a, b = small_integers((70, 40), "float64", 1), small_integers((40, 24), "float64", 2)
    x, w = (gp.from_numpy(h, device=DEVICE) for h in (a, b))
    out = gp.empty((70, 24), "float64", device=DEVICE)
    want = (a @ b).astype(np.float32)
    check_plans(lambda: gp.matmul(x, w, out=out, precision="float64_int8"), out, want)


@pytest.mark.parametrize("n_major", [False, True], ids=["k-major", "n-major"])
@pytest.mark.parametrize(("m", "n", "k"), [(1, 72, 136), (5, 72, 136), (70, 136, 72)])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_matmul(dtype: str, m: int, n: int, k: int, n_major: bool) -> None:
    a, b = small_integers((m, k), dtype, 1), small_integers((k, n), dtype, 2)
    x = gp.from_numpy(a, device=DEVICE)
    w = gp.from_numpy(b if n_major else np.ascontiguousarray(b.T), device=DEVICE)
    right = w if n_major else gp.permute_dims(w, (1, 0))
    out = gp.empty((m, n), dtype, device=DEVICE)
    check_plans(
        lambda: gp.matmul(x, right, out=out), out, a.astype(np.float32) @ b.astype(np.float32)
    )


@pick(
    products.SCALED,
    "float8_e4m3fn-float8_e4m3fn-(33,65)-40-vv-False-None-ct",
    "float8_e4m3fn-float8_e4m3fn-(64,256)-128-vv-True-bfloat16-ct",
)
def test_scaled(case: Case) -> None:
    products.run_scaled(case, DEVICE, 2.0**-12)


@pytest.mark.parametrize("dtype", quantize.SPARSE_DTYPES)
@pytest.mark.parametrize(("m", "n", "k"), [(3, 7, 33), (70, 136, 328)])
def test_sparse_weights(m: int, n: int, k: int, dtype: str) -> None:
    quantize_runs.run_sparse_round_trip((n, k), dtype)
    w, x = small_integers((n, k), dtype, 1), small_integers((m, k), dtype, 2)
    packed, rows = gp.quantize(gp.from_numpy(w, device=DEVICE), "2:4"), gp.from_numpy(x)
    out = gp.empty((m, n), dtype, device=DEVICE)
    want = x.astype(np.float32) @ quantize.pruned(w).astype(np.float32).T
    check_plans(lambda: gp.linear(rows, packed, out=out), out, want)


PACKED_FORMATS = (
    quantize.Format("int4", 32, zero_point=True),
    quantize.Format("int8"),
    quantize.Format("fp8", block=True),
    *map(quantize.Format, ("nvfp4", "nf4", "mxfp8")),
)


# Few rows, with K split; tiles of many rows; rows off their alignment.
@pytest.mark.parametrize(("m", "n", "k"), [(3, 20, 2056), (70, 24, 136), (5, 17, 33)], ids=str)
@pytest.mark.parametrize("fmt", PACKED_FORMATS, ids=str)
def test_packed(fmt: quantize.Format, m: int, n: int, k: int) -> None:
    packed = gp.quantize(
        gp.from_numpy(quantize.weights((n, k), "bfloat16"), device=DEVICE), fmt.name, **fmt.options
    )
    x = gp.from_numpy(quantize.weights((m, k), "bfloat16", 3), device=DEVICE)
    out = gp.empty((m, n), "bfloat16", device=DEVICE)
    wide, w = quantize_runs.host(x), quantize_runs.host(packed.dequantize("float32"))
    limit = quantize_runs.rounding_limit(wide, w, "bfloat16")

    def run() -> None:
        gp.linear(x, packed, out=out)

    for plan in explain_matmul(run).candidates:
        out[...] = float("nan")
        with_matmul_plan(run, plan["text"])
        assert (np.abs(quantize_runs.host(out) - wide @ w.T) <= limit).all(), plan["text"]


@pytest.mark.parametrize("fmt", [PACKED_FORMATS[0], quantize.Format("fp8")], ids=str)
def test_packed_experts(fmt: quantize.Format) -> None:
    quantize_runs.run_grouped(fmt, (3, 0, 9, 1), (20, 136), "bfloat16")
    quantize_runs.run_grouped(fmt, (70, 0, 5), (20, 136), "bfloat16")


@pytest.mark.parametrize("shape", [(20, 136), (129, 264)], ids=str)
@pytest.mark.parametrize("fmt", [quantize.Format("int8"), PACKED_FORMATS[2]], ids=str)
def test_quantized_rows(fmt: quantize.Format, shape: tuple[int, int]) -> None:
    quantize_runs.run_quantized_rows(fmt, 20, shape, "bfloat16")


@pytest.mark.parametrize("shape", [(7, 33), (136, 512)], ids=str)
@pytest.mark.parametrize("fmt", quantize.BLOCK_FORMATS)
def test_block_formats(fmt: str, shape: tuple[int, int]) -> None:
    quantize_runs.run_quantized_input(fmt, 20, shape, "bfloat16")


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_grouped(dtype: str) -> None:
    sizes = (3, 0, 65, 1)
    a, b = small_integers((75, 72), dtype, 1), small_integers((4, 136, 72), dtype, 2)
    x, w = (gp.from_numpy(host, device=DEVICE) for host in (a, b))
    device_sizes = gp.from_numpy(np.array(sizes, np.int32), device=DEVICE)
    out = gp.empty((75, 136), dtype, device=DEVICE)
    groups = np.split(a.astype(np.float32), np.cumsum(sizes))
    parts = [rows @ of.T for rows, of in zip(groups[:4], b.astype(np.float32), strict=True)]
    want = np.concatenate([*parts, np.zeros((75 - sum(sizes), 136), np.float32)])
    check_plans(lambda: gp.grouped_gemm(x, w, device_sizes, out=out), out, want)


@pick(
    moe.ROUTES,
    "17x31-top3--float32",
    "9x1024-top8--bfloat16",
    "21x256-top6-num_groups=8-top_groups=4-float32",
)
def test_moe_route(case: Case) -> None:
    moe_runs.run_route(case, DEVICE)


@pick(
    moe.PERMUTES,
    "5x8of16x33-float32-wild-int32",
    "1300x2of60x24-bfloat16-skewed-int32",
    "257x8of128x72-float32-even-int32",
)
def test_moe_permute(case: Case) -> None:
    moe_runs.run_permute(case, DEVICE)


def test_moe_mlp() -> None:
    moe_runs.run_mlp(5, "bfloat16", DEVICE)
    moe_runs.run_mlp(37, "float32", DEVICE)


@pick(
    conv.CASES,
    "conv1d-2x70x200-130x70x3-2-1-gelu-float32",
    "conv1d-2x70x200-130x70x3-2-1-gelu-bfloat16",
    "conv1d-1x6x33-18x1x7-6-2-2-float32",
    "conv2d-2x24x9x33-40x24x3x5-(1, 2)-silu-bfloat16",
    "conv_transpose1d-1x24x70-24x16x4-2-1-1-bfloat16",
    "causal_conv1d-2x5x37-4-state-float32",
)
def test_conv(case: Case) -> None:
    conv_runs.run_case(case, DEVICE)


@pick(
    recurrent.CASES,
    "lstm_bidirectional-1x7x20-33-float32",
    "lstm_forward-3x4x16-128-bfloat16",
    "gru_bidirectional-5x3x8-300-float32",
    "gru_forward-33x2x4-12-float32",
    "selective_scan-2x9x40-16-float32",
    "selective_scan-1x33x33-5-bfloat16",
)
def test_recurrent(case: Case) -> None:
    recurrent_runs.run_case(case, DEVICE)


# --- choices -------------------------------------------------------------------------------------


@pick(
    [*sampling.CASES, *sampling.LARGE_CASES],
    "plain-float32-33",
    "top-k-bfloat16-4099",
    "all-float32-4099",
    "penalties-float32-50257",
    "top-k and top-p-float32-50257",
)
def test_sampling(case: Case) -> None:
    sampling_runs.run_case(case, DEVICE)


def test_logprobs() -> None:
    sampling_runs.run_logprobs(DEVICE, 1000)


@pick(
    sorting.SORT_CASES,
    "int32-33-axis-1-mixed",
    "float32-2049-axis-1-mixed",
    "int32-8833-axis-1-mixed-down",
    "float32-300x3-axis-1-mixed",
)
def test_sorting(case: Case) -> None:
    sorting_runs.run_sort_case(case, DEVICE)


def test_histogram() -> None:
    sorting_runs.run_histogram("float32", 5001, 97, DEVICE)


# --- language models -----------------------------------------------------------------------------


@pytest.mark.parametrize("use_graph", [False, True], ids=["eager", "graph"])
def test_llm(use_graph: bool) -> None:
    model = gp.llm.load(TINY, "float32", device=DEVICE, max_length=640)
    text = golden()["greedy"][0]
    options: dict[str, Any] = {"max_new_tokens": 4, "stop_tokens": [], "use_graph": use_graph}
    assert model.generate(text["prompt_ids"], **options) == text["float32"][:4]


def test_llm_in_bfloat16(tmp_path: Path) -> None:
    sizes = {"hidden": 128, "inner": 192, "layers": 2, "vocab": 100, "positions": 512}
    folder = write_model(tmp_path / "model", **sizes)
    model = gp.llm.load(folder, "bfloat16", device=DEVICE, max_length=512)
    prompts = [np.random.default_rng(n).integers(0, 100, n).tolist() for n in (5, 300)]
    options: dict[str, Any] = {"max_new_tokens": 3, "stop_tokens": [], "use_graph": False}
    alone = [model.generate(prompt, **options) for prompt in prompts]
    assert model.generate_batch(prompts, **options) == alone

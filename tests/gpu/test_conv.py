"""The conv family on the GPU: case tables, views, the shapes of models, batches, graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cases.conv import CASES, MUST_RAISE, Case, MustRaise
from cases.must_raise import run_must_raise
from cases.run_conv import run_case, run_out, run_state, run_weight_norm
from cases.views import VIEWS

import pygpukit as gp
from pygpukit.ops import conv

SOME = [c for c in CASES if c.dtype != "float16" and c.name.startswith(("2x70", "1x64x40", "2x24"))]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    run_case(case, "cuda")


@pytest.mark.parametrize("view", [name for name in VIEWS if name != "whole"])
@pytest.mark.parametrize("case", SOME, ids=str)
def test_views(case: Case, view: str) -> None:
    run_case(case, "cuda", view)


@pytest.mark.parametrize("case", MUST_RAISE, ids=str)
def test_must_raise(case: MustRaise) -> None:
    run_must_raise(case, "cuda")


def test_out() -> None:
    run_out("cuda")


def test_causal_conv1d_in_pieces() -> None:
    run_state("cuda")


def test_fold_weight_norm() -> None:
    run_weight_norm("cuda")


def drawn(shape: tuple[int, ...], dtype: str, seed: int) -> Any:
    host = np.random.default_rng(seed).normal(size=shape).astype("float32")
    return gp.astype(gp.from_numpy(host, device="cuda"), dtype)


# (in, out, length, taps, stride, padding, dilation): Whisper's stem, iSTFTNet's residual blocks.
MODELS = (
    (80, 384, 3000, 3, 1, 1, 1),
    (1280, 1280, 3000, 3, 2, 1, 1),
    (256, 256, 6001, 11, 1, 25, 5),
    (128, 128, 36001, 7, 1, 9, 3),
)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("shape", MODELS, ids=str)
def test_shapes_of_models(shape: tuple[int, ...], dtype: str) -> None:
    """Against one matmul for each tap, summed in float32 of the same inputs."""
    channels, outs, length, taps, stride, padding, dilation = shape
    x, w = drawn((1, channels, length), dtype, 1), drawn((outs, channels, taps), dtype, 2)
    got = conv.conv1d(x, w, None, stride, padding, dilation).to_numpy().astype(np.float64)
    at = np.random.default_rng(3).integers(0, got.shape[2], 64)
    host = np.pad(x.to_numpy().astype(np.float64)[0], ((0, 0), (padding, padding)))
    weights = w.to_numpy().astype(np.float64)
    want = sum(weights[:, :, t] @ host[:, at * stride + t * dilation] for t in range(taps))
    unit = {"float32": 2e-6, "bfloat16": 8e-3, "float16": 1e-3}[dtype]
    np.testing.assert_allclose(got[0][:, at], want, rtol=unit, atol=unit * (channels * taps) ** 0.5)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_sample_has_the_same_bits_alone_and_among_others(dtype: str) -> None:
    x, w = drawn((5, 64, 500), dtype, 1), drawn((64, 64, 3), dtype, 2)
    together = conv.conv1d(x, w, padding=1).to_numpy()
    for i in (0, 4):
        alone = conv.conv1d(x[i : i + 1], w, padding=1).to_numpy()
        np.testing.assert_array_equal(alone[0], together[i])


def test_repeats_bitwise() -> None:
    x, w = drawn((2, 96, 1000), "float16", 1), drawn((96, 40, 12), "float16", 2)
    first = conv.conv_transpose1d(x, w, stride=6, padding=3).to_numpy()
    for _ in range(3):
        again = conv.conv_transpose1d(x, w, stride=6, padding=3).to_numpy()
        np.testing.assert_array_equal(again, first)


def test_graph() -> None:
    x, w = drawn((1, 64, 300), "bfloat16", 1), drawn((64, 64, 3), "bfloat16", 2)
    want = conv.conv1d(x, w, padding=1, activation="gelu").to_numpy()
    out = gp.zeros_like(x)
    taps, state = drawn((64, 4), "bfloat16", 3), gp.zeros((1, 64, 3), "bfloat16", device="cuda")
    step = gp.zeros((1, 64, 1), "bfloat16", device="cuda")
    graph = gp.CudaGraph()
    with graph:
        conv.conv1d(x, w, padding=1, activation="gelu", out=out)
        conv.causal_conv1d(x[:, :, :1], taps, None, state, out=step, state_out=state)
    graph.replay()
    graph.replay()
    np.testing.assert_array_equal(out.to_numpy(), want)
    np.testing.assert_array_equal(
        state.to_numpy()[:, :, 1:], np.repeat(x.to_numpy()[:, :, :1], 2, axis=2)
    )


def test_tf32_is_asked_for() -> None:
    x, w = drawn((1, 128, 400), "float32", 1), drawn((128, 128, 3), "float32", 2)
    full = conv.conv1d(x, w, padding=1).to_numpy()
    gp.set_matmul_precision("tf32")
    try:
        fast = conv.conv1d(x, w, padding=1).to_numpy()
    finally:
        gp.set_matmul_precision("float32")
    assert np.abs(fast - full).max() < 0.2
    assert (fast != full).any()

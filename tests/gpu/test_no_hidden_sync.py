"""Ops copy nothing to or from the host and wait for nothing: driver calls are counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pygpukit as gp
from pygpukit import _native

FORBIDDEN = (
    "cuMemcpyDtoHAsync",
    "cuMemcpyHtoDAsync",
    "cuCtxSynchronize",
    "cuStreamSynchronize",
    "cuEventSynchronize",
    "cuMemAlloc",
    "cuMemFree",
    "cuMemHostAlloc",
)


class Data:
    """Arrays the operations below take."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self.x = gp.from_numpy(rng.normal(size=(64, 96)).astype(np.float32))
        self.y = gp.from_numpy(rng.normal(size=(64, 96)).astype(np.float32))
        self.rng = gp.random.default_rng(1)
        self.row = gp.from_numpy(rng.normal(size=96).astype(np.float32))
        self.i = gp.from_numpy(rng.integers(0, 64, 40))
        self.experts = gp.from_numpy(rng.normal(size=(4, 32, 96)).astype(np.float32))
        self.sizes = gp.from_numpy(np.array([10, 0, 40, 14], np.int32))
        self.ids = gp.from_numpy(rng.integers(0, 4, 64).astype(np.int32))
        self.fp8 = gp.astype(self.x, "float8_e4m3fn")
        self.tokens = gp.from_numpy(rng.integers(0, 96, (64, 5)).astype(np.int32))
        self.kv = self.x.reshape((64, 2, 48))
        self.pages = gp.zeros((8, 16, 2, 48))
        self.many = gp.from_numpy(rng.integers(0, 50, 5000).astype(np.int32))


def _setitem(x: Any, key: Any, value: Any) -> None:
    x[key] = value


# Views: not one call of the driver.
VIEWS: dict[str, Callable[[Data], object]] = {
    "slice": lambda d: d.x[1:9],
    "slices and a step": lambda d: d.x[::2, 3:-1:4],
    "integer": lambda d: d.x[5],
    "newaxis": lambda d: d.x[None, :, 1:],
    "transpose": lambda d: d.x.T,
    "permute_dims": lambda d: gp.permute_dims(d.x, (1, 0)),
    "reshape": lambda d: gp.reshape(d.x, (96, 64)),
    "broadcast_to": lambda d: gp.broadcast_to(d.row, (64, 96)),
    "squeeze": lambda d: gp.squeeze(d.x[:1], 0),
    "flip": lambda d: gp.flip(d.x),
}

# Work on the current stream only.
OPS: dict[str, Callable[[Data], object]] = {
    "a + b": lambda d: d.x + d.y,
    "a + 1.5": lambda d: d.x + 1.5,
    "add out": lambda d: gp.add(d.x, d.y, out=d.y),
    "broadcast": lambda d: d.x * d.row,
    "comparison": lambda d: d.x < d.y,
    "in place": lambda d: d.y.__iadd__(1),
    "mixed dtypes": lambda d: d.row + gp.ones(96, "int32"),
    "where": lambda d: gp.where(d.x > 0, d.x, 0.0),
    "exp": lambda d: gp.exp(d.x),
    "special": lambda d: gp.special.digamma(gp.special.erfinv(gp.special.ndtr(d.x))),
    "add.reduce": lambda d: gp.add.reduce(d.x),
    "maximum.accumulate": lambda d: gp.maximum.accumulate(d.x, 1),
    "multiply.outer": lambda d: gp.multiply.outer(d.row, d.row),
    "add.at": lambda d: gp.add.at(d.y, d.i, d.x[:40]),
    "convolve": lambda d: gp.convolve(d.row, d.row[:7]),
    "interp": lambda d: gp.interp(d.x, d.row, d.row),
    "gradient": lambda d: gp.gradient(d.x),
    "trapezoid": lambda d: gp.trapezoid(d.x, d.row),
    "unwrap": lambda d: gp.unwrap(d.x),
    "cov": lambda d: gp.cov(d.x),
    "nanmedian": lambda d: gp.nanmedian(d.x, axis=1),
    "histogram2d": lambda d: gp.histogram2d(d.row, d.row, 5, [(-2, 2), (-2, 2)]),
    "select": lambda d: gp.select([d.x < 0, d.x > 1], [d.x, d.y], 2.0),
    "insert by array": lambda d: gp.insert(d.row, d.i, d.row[:40]),
    "sliding_window_view": lambda d: gp.sum(gp.sliding_window_view(d.row, 5), axis=1),
    "polyval": lambda d: gp.polyval(d.row[:4], d.x),
    "kaiser": lambda d: gp.kaiser(51, 8.6),
    "distributions": lambda d: [
        draw(4.0, 0.5, (100,)) for draw in (d.rng.gamma, d.rng.beta, d.rng.laplace, d.rng.binomial)
    ],
    "poisson of an array": lambda d: d.rng.poisson(d.row * d.row),
    "clip": lambda d: gp.clip(d.x, -1, 1),
    "strided operands": lambda d: d.x[:, ::2] + d.y[:, 1::2],
    "transposing copy": lambda d: d.x.T.contiguous(),
    "overlapping out": lambda d: gp.add(d.row[1:], 0, out=d.row[:-1]),
    "astype": lambda d: gp.astype(d.x, "float16"),
    "zeros": lambda d: gp.zeros((8, 8)),
    "full": lambda d: gp.full((8, 8), 2.5),
    "arange": lambda d: gp.arange(100),
    "sum": lambda d: gp.sum(d.x),
    "sum over axis 0": lambda d: gp.sum(d.x, axis=0),
    "sum over axis 1": lambda d: gp.sum(d.x, axis=1),
    "mean": lambda d: gp.mean(d.x, axis=1, keepdims=True),
    "std": lambda d: gp.std(d.x),
    "max": lambda d: gp.max(d.x, axis=0),
    "argmax": lambda d: gp.argmax(d.x, axis=1),
    "any": lambda d: gp.any(d.x > 0),
    "cumsum": lambda d: gp.cumulative_sum(d.row),
    "rmsnorm": lambda d: gp.rmsnorm(d.x, d.row),
    "add_layernorm": lambda d: gp.add_layernorm(d.x, d.y, d.row, d.row),
    "rmsnorm_fp8": lambda d: gp.rmsnorm_fp8(d.x, d.row),
    "groupnorm": lambda d: gp.groupnorm(d.x, 8),
    "softmax": lambda d: gp.softmax(d.x, mask=d.y > 0),
    "attention": lambda d: gp.attention(*(d.x.reshape((1, -1, 1, 8)),) * 3),
    "softmax over axis 0": lambda d: gp.softmax(d.x, 0),
    "sample": lambda d: gp.sample(d.x, top_k=5, top_p=0.9, typical_p=0.9, seed=1),
    "sample with logprobs": lambda d: gp.sample(d.x, previous=d.tokens, seed=1, logprobs=3),
    "slot_mapping": lambda d: gp.slot_mapping(d.tokens, d.ids, page=16),
    "kv_cache_write": lambda d: gp.kv_cache_write(d.kv, d.kv, d.pages, d.pages, d.ids, d.kv),
    "copy_pages": lambda d: gp.copy_pages(d.pages, None, d.tokens[:, :2]),
    "gather_pages": lambda d: gp.gather_pages(d.pages, d.tokens, 40, d.ids),
    "cross_entropy": lambda d: gp.cross_entropy(d.x, d.ids),
    "rope": lambda d: gp.rope(d.x.reshape((64, 2, 48)), d.y[:, :24], d.y[:, 24:48], d.ids),
    "rope_computed": lambda d: gp.rope_computed(d.x.reshape((64, 2, 48)), d.row[:24], d.ids),
    "swiglu": lambda d: gp.swiglu(d.x),
    "conv1d": lambda d: gp.conv1d(d.x[None], d.experts.reshape((64, 64, 3)), padding=1),
    "conv1d depthwise": lambda d: gp.conv1d(d.x[None], d.y[:, None, :4], groups=64),
    "conv_transpose1d": lambda d: gp.conv_transpose1d(
        d.x[None], d.experts.reshape((64, 16, 12)), stride=6
    ),
    "causal_conv1d": lambda d: gp.causal_conv1d(d.x[None], d.y[:, :4], activation="silu"),
    "rfft": lambda d: gp.fft.rfft(d.x),
    "rfft of a prime": lambda d: gp.fft.rfft(d.x, 97),
    "fft in two passes": lambda d: gp.fft.fft(d.x, 2**16),
    "stft": lambda d: gp.ops.audio.stft(d.x, 256, 32),
    "stft and back": lambda d: gp.ops.audio.istft(gp.ops.audio.stft(d.x, 100, 25), 25),
    "mel_spectrogram": lambda d: gp.ops.audio.mel_spectrogram(d.x, 400, 160),
    "whisper_log_mel": lambda d: gp.ops.audio.whisper_log_mel(d.x.reshape(-1)),
    "resample": lambda d: gp.ops.audio.resample(d.x, 3, 2),
    "sosfilt": lambda d: gp.ops.audio.sosfilt(d.x.reshape(-1), [[1, 0, 0, 1, -0.5, 0.2]]),
    "hpss": lambda d: gp.ops.audio.hpss(gp.abs(d.x)),
    "phase_vocoder": lambda d: gp.ops.audio.time_stretch(d.x, 1.5, 64, 16),
    "yin": lambda d: gp.ops.audio.yin(d.x, 8000, 90, 2, 200, 2000),
    "lstm_forward": lambda d: gp.lstm_forward(d.x[None], d.y, d.y[:, :16]),
    "gru_forward": lambda d: gp.gru_forward(d.x[None], d.y[:48], d.y[:48, :16]),
    "selective_scan": lambda d: gp.selective_scan(
        d.x[None], d.x[None], d.y[:, :16], d.y[None, :16], d.y[None, 16:32]
    ),
    "sort": lambda d: gp.sort(d.many),
    "argsort": lambda d: gp.argsort(d.many),
    "topk": lambda d: gp.topk(d.row, 5),
    "take": lambda d: gp.take(d.x, d.i, axis=0),
    "getitem by an array": lambda d: d.x[d.i],
    "setitem": lambda d: _setitem(d.y, slice(0, 3), 1.0),
    "setitem of an array": lambda d: _setitem(d.y, slice(0, 64), d.x),
    "setitem by an array": lambda d: _setitem(d.y, d.i, 0.0),
    "setitem by a mask": lambda d: _setitem(d.y, d.y > 0, 0.0),
    "take_along_axis": lambda d: gp.take_along_axis(d.x, gp.argsort(d.x, axis=1), axis=1),
    "concat": lambda d: gp.concat([d.x, d.y]),
    "stack": lambda d: gp.stack([d.x, d.y], axis=-1),
    "roll": lambda d: gp.roll(d.x, 3, axis=1),
    "tile": lambda d: gp.tile(d.row, (2, 2)),
    "tril": lambda d: gp.tril(d.x),
    "matmul": lambda d: d.x @ d.y.T,
    "quantize": lambda d: gp.quantize(d.x, "nvfp4"),
    "dequantize": lambda d: gp.quantize(d.x, "int4", group=32).dequantize(),
    "linear packed": lambda d: gp.linear(d.x, gp.quantize(d.y, "int4", group=32)),
    "linear": lambda d: gp.linear(d.x, d.y, activation="gelu"),
    "linear swiglu": lambda d: gp.linear(d.x, d.y, activation="swiglu", residual=d.x[:, :32]),
    "addmm": lambda d: gp.addmm(d.row[:64], d.x, d.y.T, alpha=0.5),
    "scaled_matmul": lambda d: gp.scaled_matmul(d.fp8, d.fp8.T, d.row[:1], d.row[:64]),
    "matmul_fp8": lambda d: gp.matmul_fp8(d.x, d.y.T),
    "grouped_gemm by sizes": lambda d: gp.grouped_gemm(d.x, d.experts, d.sizes),
    "grouped_gemm by host sizes": lambda d: gp.grouped_gemm(d.x, d.experts, [10, 0, 40, 14]),
    "grouped_gemm by ids": lambda d: gp.grouped_gemm(d.x, d.experts, expert_ids=d.ids),
    "grouped_gemm packed": lambda d: gp.grouped_gemm(
        d.x.astype("bfloat16"), gp.quantize(d.experts, "int8"), d.sizes
    ),
    "grouped_gemm packed, dense": lambda d: gp.grouped_gemm(
        d.x, gp.quantize(d.experts, "int8"), d.sizes
    ),
    "moe_route": lambda d: gp.moe_route(d.x, 4, renormalize=True, num_groups=8, top_groups=2),
    "moe_permute": lambda d: gp.moe_permute(d.x, d.ids, 8),
    "moe_mlp": lambda d: gp.moe_mlp(
        d.x, d.x[:, :4], d.experts, gp.ones((4, 96, d.experts.shape[1] // 2)), 2
    ),
    "einsum": lambda d: gp.einsum("ij,kj->ik", d.x, d.y),
    "searchsorted": lambda d: gp.searchsorted(gp.sort(d.row), d.row),
    "qr": lambda d: gp.linalg.qr(d.x),
    "slogdet": lambda d: gp.linalg.slogdet(d.x[:, :64]),
    "cholesky without a check": lambda d: gp.linalg.cholesky(d.x[:, :64], check=False),
    "solve without a check": lambda d: gp.linalg.solve(d.x[:, :64], d.y, check=False),
    "inv without a check": lambda d: gp.linalg.inv(d.x[:, :64], check=False),
    "eigh without a check": lambda d: gp.linalg.eigh(d.x[:, :64], check=False),
    "large eigh without a check": lambda d: gp.linalg.eigh(d.x.mT @ d.x, check=False),
    "large svd without a check": lambda d: gp.linalg.svd(d.x.mT @ d.x, check=False),
    "lu_factor": lambda d: gp.linalg.lu_factor(d.x),
    "solve_triangular": lambda d: gp.linalg.solve_triangular(d.x[:, :64], d.y),
}


def _available(function: Callable[[Data], object], data: Data) -> None:
    try:
        function(data)
    except (AttributeError, TypeError) as error:
        pytest.skip(f"not there yet: {error}")


@pytest.mark.parametrize("name", VIEWS)
def test_views_call_nothing(name: str) -> None:
    data = Data()
    _available(VIEWS[name], data)
    with _native.count_driver_calls() as calls:
        VIEWS[name](data)
    assert calls.counts == {}


@pytest.mark.parametrize("name", OPS)
def test_no_copy_and_no_wait(name: str) -> None:
    data = Data()
    for _ in range(2):  # kernels are compiled, memory is cached
        _available(OPS[name], data)
    gp.synchronize()
    with _native.count_driver_calls() as calls:
        OPS[name](data)
    counts = calls.counts
    assert {function: counts[function] for function in FORBIDDEN if function in counts} == {}
    assert counts  # it did something


def test_one_launch_for_one_op() -> None:
    data = Data()
    data.x + data.y
    with _native.count_driver_calls() as calls:
        data.x + data.y
    counts = {name: n for name, n in calls.counts.items() if name != "cuCtxGetCurrent"}
    assert counts == {"cuLaunchKernel": 1}


def test_counts_what_does_wait() -> None:
    """The test above can fail."""
    x = gp.ones(5)
    with _native.count_driver_calls() as calls:
        x.to_numpy()
        gp.from_numpy(np.ones(3))
        gp.synchronize()
    counts = calls.counts
    assert counts["cuMemcpyDtoHAsync"] == 1
    assert counts["cuMemcpyHtoDAsync"] == 1
    assert counts.get("cuStreamSynchronize", 0) + counts.get("cuCtxSynchronize", 0) >= 2

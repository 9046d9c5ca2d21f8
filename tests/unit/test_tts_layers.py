"""The layers of gp.tts that 0.2 had, on CPU simulation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pygpukit as gp
from pygpukit.tts.kokoro import layers


# --- layers of 0.2 ---
def rand(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype("f4")


def test_basic_layers() -> None:
    x, w, b = rand(2, 5, 3), rand(4, 3, seed=1), rand(4, seed=2)
    y = layers.Linear(gp.asarray(w), gp.asarray(b))(gp.asarray(x)).to_numpy()
    np.testing.assert_allclose(y, x @ w.T + b, rtol=1e-5, atol=1e-5)
    g = rand(3, seed=3)
    y = layers.LayerNorm(gp.asarray(g), gp.asarray(g))(gp.asarray(x)).to_numpy()
    mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    np.testing.assert_allclose(y, (x - mean) / np.sqrt(var + 1e-5) * g + g, atol=1e-5)
    np.testing.assert_allclose(
        layers.leaky_relu(gp.asarray(x)).to_numpy(), np.where(x > 0, x, 0.1 * x), rtol=1e-6
    )
    np.testing.assert_allclose(layers.tanh(gp.asarray(x)).to_numpy(), np.tanh(x), rtol=1e-6)


def test_convolution_layers() -> None:
    x, v = rand(2, 3, 20), rand(4, 3, 5, seed=1)
    g = np.abs(rand(4, 1, 1, seed=2))
    conv = layers.WeightNormConv1d(gp.asarray(g), gp.asarray(v), padding=2)
    weight = g * v / np.sqrt((v**2).sum((1, 2), keepdims=True) + 1e-12)
    np.testing.assert_allclose(conv._compute_weight(), weight, rtol=1e-5)
    plain = layers.Conv1d(gp.asarray(weight), padding=2)
    y = conv(gp.asarray(x)).to_numpy()
    assert y.shape == (2, 4, 20)
    np.testing.assert_allclose(y, plain(gp.asarray(x)).to_numpy(), atol=1e-5)
    np.testing.assert_allclose(y[0, 1, 7], (x[0, :, 5:10] * weight[1]).sum(), rtol=1e-4)
    up = layers.ConvTranspose1d(gp.asarray(rand(3, 2, 4, seed=4)), None, 2, 1)
    assert up(gp.asarray(x)).shape == (2, 2, 40)
    block = layers.ResBlock1d([layers.Conv1d(gp.asarray(rand(3, 3, 3)), padding=1)] * 2)
    assert block(gp.asarray(x)).shape == x.shape
    with pytest.raises(ValueError, match="WeightNormConv1d: weight_g has shape"):
        layers.WeightNormConv1d(gp.zeros(3), gp.asarray(v))
    with pytest.raises(TypeError, match="Conv1d: weight"):
        layers.Conv1d(v)  # type: ignore[arg-type]


def test_adaptive_norms() -> None:
    x, style = rand(2, 3, 20), rand(2, 4, seed=1)
    w, b = rand(6, 4, seed=2), rand(6, seed=3)
    mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    normal = (x - mean) / np.sqrt(var + 1e-5)
    y = layers.InstanceNorm1d(gp.asarray(b[:3]), gp.asarray(b[3:]))(gp.asarray(x)).to_numpy()
    np.testing.assert_allclose(y, normal * b[:3, None] + b[3:, None], atol=1e-5)
    both = style @ w.T + b
    for offset in (0.0, 1.0):
        norm = layers.AdaIN(gp.asarray(w), gp.asarray(b), offset=offset)
        y = norm(gp.asarray(x), gp.asarray(style)).to_numpy()
        expected = normal * (offset + both[:, :3, None]) + both[:, 3:, None]
        np.testing.assert_allclose(y, expected, atol=1e-4)
    conv = layers.Conv1d(gp.asarray(rand(3, 3, 3)), padding=1)
    pool = layers.ConvTranspose1d(gp.asarray(rand(3, 1, 3)), None, 2, 1, 1, 3)
    block = layers.AdaINResBlock(conv, conv, norm, norm, pool=pool)
    assert block(gp.asarray(x), gp.asarray(style)).shape == (2, 3, 40)
    plain = layers.AdaINResBlock(conv, conv, norm, norm, conv)
    decoder = layers.Decoder(plain, [plain])
    assert decoder(gp.asarray(x), gp.asarray(style)).shape == x.shape


def test_recurrent_and_style_layers() -> None:
    x = gp.asarray(rand(2, 7, 3))
    weights = [gp.asarray(rand(16, 3)), gp.asarray(rand(16, 4)), None, None]
    out, (h, c) = layers.LSTM(*weights)(x)
    assert (out.shape, h.shape, c.shape) == ((2, 7, 4), (1, 2, 4), (1, 2, 4))
    both, (h, c) = layers.LSTM(*weights, True, *weights)(x)
    assert (both.shape, h.shape) == ((2, 7, 8), (2, 2, 4))
    np.testing.assert_allclose(both.to_numpy()[..., :4], out.to_numpy(), atol=1e-6)
    with pytest.raises(TypeError, match="W_ih_reverse"):
        layers.LSTM(*weights, True)
    encoder = layers.StyleEncoder(
        [layers.Conv1d(gp.asarray(rand(4, 3, 3)))], layers.Linear(gp.asarray(rand(6, 4)))
    )
    style = encoder(gp.asarray(rand(2, 3, 9)), gp.asarray(rand(2, 6)))
    assert style.shape == (2, 6)


def test_bert_layers() -> None:
    config = gp.tts.KokoroConfig(
        plbert_hidden_size=8, plbert_num_attention_heads=2, plbert_num_hidden_layers=2
    )
    shapes = {"embeddings.word_embeddings": (9, 8), "embeddings.position_embeddings": (5, 8)}
    for i in range(2):
        at = f"encoder.layer.{i}."
        for part in ("query", "key", "value"):
            shapes[f"{at}attention.self.{part}"] = (8, 8)
        shapes |= {f"{at}attention.output.dense": (8, 8), f"{at}intermediate.dense": (12, 8)}
        shapes |= {f"{at}output.dense": (8, 12), f"{at}attention.output.LayerNorm": (8,)}
        shapes[f"{at}output.LayerNorm"] = (8,)
    weights = {}
    for i, (name, shape) in enumerate(shapes.items()):
        weights[f"bert.{name}.weight"] = gp.asarray(rand(*shape, seed=i))
        weights[f"bert.{name}.bias"] = gp.asarray(rand(shape[0], seed=i + 100))
    bert = layers.build_plbert_from_weights(config, weights)
    ids = gp.asarray(np.array([[1, 2, 3, 4], [5, 6, 0, 0]]))
    whole = bert(ids).to_numpy()
    assert whole.shape == (2, 4, 8)
    mask = gp.asarray(np.array([[True] * 4, [True, True, False, False]]))
    alone = bert(ids[1:, :2]).to_numpy()
    np.testing.assert_allclose(bert(ids, mask).to_numpy()[1:, :2], alone, atol=1e-5)
    del weights["bert.encoder.layer.1.intermediate.dense.bias"]
    with pytest.raises(KeyError, match="intermediate"):
        layers.build_plbert_from_weights(config, weights)


def test_istftnet() -> None:
    """With a constant spectrum: the overlap-add of one frame with itself."""
    config = gp.tts.KokoroConfig()
    ups = [layers.ConvTranspose1d(gp.ones((2, 2, 10)), None, 10)]
    blocks = [[layers.ResBlock1d([layers.Conv1d(gp.zeros((2, 2, 1)))])] * 2]
    bias = rand(22)
    net = layers.ISTFTNet(
        config, ups, blocks, layers.Conv1d(gp.zeros((22, 2, 7)), gp.asarray(bias), padding=3)
    )
    samples = net(gp.zeros((1, 2, 6))).to_numpy()
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(20) / 20)
    frame = np.fft.irfft(np.exp(bias[:11]) * np.exp(1j * np.sin(bias[11:])), 20)
    total, weight = np.zeros(320), np.zeros(320)
    for i in range(61):
        total[5 * i : 5 * i + 20] += frame * window
        weight[5 * i : 5 * i + 20] += window**2
    np.testing.assert_allclose(samples[0], (total / np.maximum(weight, 1e-9))[10:-10], atol=1e-5)

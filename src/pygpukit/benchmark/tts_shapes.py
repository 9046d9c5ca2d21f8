"""The tensors of a Kokoro model by its configuration."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pygpukit.random import default_rng
from pygpukit.tts.kokoro.config import KokoroConfig

if TYPE_CHECKING:
    from pygpukit._native import GPUArray

    Shapes = Iterator[tuple[str, tuple[int, ...]]]

DECODER_WIDTH, TEXT_WIDTH = 1024, 64  # inside the decoder


def kokoro_shapes(
    config: KokoroConfig, width: int = DECODER_WIDTH, text_width: int = TEXT_WIDTH
) -> dict[str, tuple[int, ...]]:
    """Name and shape of every tensor."""
    return dict(
        [
            *_bert(config),
            *_linear("bert_encoder", config.hidden_dim, config.plbert_hidden_size),
            *_text_encoder(config),
            *_predictor(config),
            *_decoder(config, width, text_width),
        ]
    )


def random_weights(shapes: dict[str, tuple[int, ...]], seed: int = 1) -> dict[str, GPUArray]:
    """Normal numbers, scaled so that activations stay near 1."""
    random = default_rng(seed)
    weights = {}
    for name, shape in shapes.items():
        fan_in = 1
        for size in shape[1:]:
            fan_in *= size
        x = random.normal(0.0, 1 / fan_in**0.5, shape, "float32")
        norms = ("weight_g", "gamma", "LayerNorm.weight", "layer_norm.weight")
        if name.endswith(norms) or "alpha" in name:
            x = 1.0 + 0.1 * x
        elif name.endswith("F0_proj.bias"):
            x = 0.0 * x + 150.0
        weights[name] = x
    return weights


def _linear(name: str, outputs: int, inputs: int) -> Shapes:
    yield f"{name}.weight", (outputs, inputs)
    yield f"{name}.bias", (outputs,)


def _norm(name: str, size: int) -> Shapes:
    yield f"{name}.weight", (size,)
    yield f"{name}.bias", (size,)


def _conv(name: str, outputs: int, inputs: int, taps: int, *, bias: int = 0) -> Shapes:
    """With weight norm. bias: its size where that is not the first axis; -1: none."""
    yield f"{name}.weight_g", (outputs, 1, 1)
    yield f"{name}.weight_v", (outputs, inputs, taps)
    if bias >= 0:
        yield f"{name}.bias", (bias or outputs,)


def _lstm(name: str, inputs: int, hidden: int) -> Shapes:
    for suffix in ("", "_reverse"):
        yield f"{name}.weight_ih_l0{suffix}", (4 * hidden, inputs)
        yield f"{name}.weight_hh_l0{suffix}", (4 * hidden, hidden)
        yield f"{name}.bias_ih_l0{suffix}", (4 * hidden,)
        yield f"{name}.bias_hh_l0{suffix}", (4 * hidden,)


def _bert(config: KokoroConfig) -> Shapes:
    small, wide = config.plbert_embedding_size, config.plbert_hidden_size
    yield "bert.embeddings.word_embeddings.weight", (config.n_token, small)
    yield (
        "bert.embeddings.position_embeddings.weight",
        (config.plbert_max_position_embeddings, small),
    )
    yield "bert.embeddings.token_type_embeddings.weight", (2, small)
    yield from _norm("bert.embeddings.LayerNorm", small)
    yield from _linear("bert.encoder.embedding_hidden_mapping_in", wide, small)
    for i in range(config.plbert_num_hidden_groups):
        name = f"bert.encoder.albert_layer_groups.{i}.albert_layers.0"
        for part in ("query", "key", "value", "dense"):
            yield from _linear(f"{name}.attention.{part}", wide, wide)
        yield from _norm(f"{name}.attention.LayerNorm", wide)
        yield from _linear(f"{name}.ffn", config.plbert_intermediate_size, wide)
        yield from _linear(f"{name}.ffn_output", wide, config.plbert_intermediate_size)
        yield from _norm(f"{name}.full_layer_layer_norm", wide)


def _text_encoder(config: KokoroConfig) -> Shapes:
    hidden = config.hidden_dim
    yield "text_encoder.embedding.weight", (config.n_token, hidden)
    for i in range(config.n_layer):
        yield from _conv(f"text_encoder.cnn.{i}.0", hidden, hidden, config.text_encoder_kernel_size)
        yield f"text_encoder.cnn.{i}.1.gamma", (hidden,)
        yield f"text_encoder.cnn.{i}.1.beta", (hidden,)
    yield from _lstm("text_encoder.lstm", hidden, hidden // 2)


def _predictor(config: KokoroConfig) -> Shapes:
    hidden, style = config.hidden_dim, config.style_dim
    for i in range(config.n_layer):
        at = "predictor.text_encoder.lstms"
        yield from _lstm(f"{at}.{2 * i}", hidden + style, hidden // 2)
        yield from _linear(f"{at}.{2 * i + 1}.fc", 2 * hidden, style)
    for name in ("lstm", "shared"):
        yield from _lstm(f"predictor.{name}", hidden + style, hidden // 2)
    yield from _linear("predictor.duration_proj.linear_layer", config.max_dur, hidden)
    for name in ("F0", "N"):
        yield from _block(f"predictor.{name}.0", hidden, hidden, style)
        yield from _block(f"predictor.{name}.1", hidden, hidden // 2, style, pool=True)
        yield from _block(f"predictor.{name}.2", hidden // 2, hidden // 2, style)
        yield f"predictor.{name}_proj.weight", (1, hidden // 2, 1)
        yield f"predictor.{name}_proj.bias", (1,)


def _block(name: str, inputs: int, outputs: int, style: int, *, pool: bool = False) -> Shapes:
    yield from _conv(f"{name}.conv1", outputs, inputs, 3)
    yield from _conv(f"{name}.conv2", outputs, outputs, 3)
    yield from _linear(f"{name}.norm1.fc", 2 * inputs, style)
    yield from _linear(f"{name}.norm2.fc", 2 * outputs, style)
    if inputs != outputs:
        yield from _conv(f"{name}.conv1x1", outputs, inputs, 1, bias=-1)
    if pool:
        yield from _conv(f"{name}.pool", inputs, 1, 3)


def _decoder(config: KokoroConfig, width: int, text_width: int) -> Shapes:
    style, last = config.style_dim, config.upsample_initial_channel
    inner = width + 2 + text_width
    yield from _block("decoder.encode", config.hidden_dim + 2, width, style)
    for i in range(3):
        yield from _block(f"decoder.decode.{i}", inner, width, style)
    yield from _block("decoder.decode.3", inner, last, style, pool=True)
    for name in ("F0_conv", "N_conv"):
        yield from _conv(f"decoder.{name}", 1, 1, 3)
    yield from _conv("decoder.asr_res.0", text_width, config.hidden_dim, 1)
    yield from _linear("decoder.generator.m_source.l_linear", 1, 9)
    yield from _generator(config, style)


def _generator(config: KokoroConfig, style: int) -> Shapes:
    at = "decoder.generator"
    bins = config.gen_istft_n_fft + 2
    blocks = list(zip(config.resblock_kernel_sizes, config.resblock_dilation_sizes, strict=True))
    channels = config.upsample_initial_channel
    for i, taps in enumerate(config.upsample_kernel_sizes):
        channels //= 2
        yield from _conv(f"{at}.ups.{i}", 2 * channels, channels, taps, bias=channels)
        stride = 1
        for rate in config.upsample_rates[i + 1 :]:
            stride *= rate
        is_last = i + 1 == len(config.upsample_rates)
        yield f"{at}.noise_convs.{i}.weight", (channels, bins, 1 if is_last else 2 * stride)
        yield f"{at}.noise_convs.{i}.bias", (channels,)
        noise_taps = 11 if is_last else 7
        yield from _snake(f"{at}.noise_res.{i}", channels, noise_taps, 3, style)
        for j, (block_taps, dilations) in enumerate(blocks):
            name = f"{at}.resblocks.{i * len(blocks) + j}"
            yield from _snake(name, channels, block_taps, len(dilations), style)
    yield from _conv(f"{at}.conv_post", bins, channels, 7)


def _snake(name: str, channels: int, taps: int, count: int, style: int) -> Shapes:
    for which in (1, 2):
        for i in range(count):
            yield from _conv(f"{name}.convs{which}.{i}", channels, channels, taps)
            yield from _linear(f"{name}.adain{which}.{i}.fc", 2 * channels, style)
            yield f"{name}.alpha{which}.{i}", (1, channels, 1)

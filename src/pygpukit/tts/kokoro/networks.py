"""Networks made of Kokoro's layers, and how weights by name become them.

KokoroModel does not use these: its networks are in the C++ core.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from pygpukit import _native
from pygpukit._native import GPUArray
from pygpukit.ops.repeating import pad
from pygpukit.tts.kokoro.basic_layers import (
    LSTM,
    AdaINResBlock,
    LayerNorm,
    Linear,
    WeightNormConv1d,
    leaky_relu,
)
from pygpukit.tts.kokoro.config import KokoroConfig

if TYPE_CHECKING:
    Layer = Callable[[GPUArray], GPUArray]
    Weights = Mapping[str, GPUArray]


# --- BERT ---
class BertSelfAttention:
    """Attention of a sequence to itself."""

    def __init__(
        self,
        query: Linear,
        key: Linear,
        value: Linear,
        num_attention_heads: int,
        attention_head_size: int,
    ) -> None:
        self.query, self.key, self.value = query, key, value
        self.num_attention_heads = num_attention_heads
        self.attention_head_size = attention_head_size

    def __call__(self, x: GPUArray, attention_mask: GPUArray | None = None) -> GPUArray:
        """attention_mask is bool [batch, tokens]: which are there."""
        batch, length = x.shape[:2]
        shape = (batch, length, self.num_attention_heads, self.attention_head_size)
        q, k, v = (_native.reshape(layer(x), shape) for layer in (self.query, self.key, self.value))
        mask = None if attention_mask is None else attention_mask[:, None, None, :]
        mixed = _native.attention(q, k, v, mask=mask)
        return _native.reshape(mixed, (batch, length, -1))


class BertLayer:
    """Attention and a feed-forward network with gelu, each with a residual and a norm."""

    def __init__(
        self,
        attention: BertSelfAttention,
        attention_output: Linear,
        attention_norm: LayerNorm,
        intermediate: Linear,
        output_dense: Linear,
        output_norm: LayerNorm,
    ) -> None:
        self.attention = attention
        self.attention_output = attention_output
        self.attention_norm = attention_norm
        self.intermediate = intermediate
        self.output_dense = output_dense
        self.output_norm = output_norm

    def __call__(self, x: GPUArray, attention_mask: GPUArray | None = None) -> GPUArray:
        mixed = self.attention_output(self.attention(x, attention_mask))
        y = self.attention_norm(_native.add(x, mixed))
        inner = self.output_dense(_native.gelu(self.intermediate(y)))
        return self.output_norm(_native.add(y, inner))


class ALBERTLayer(BertLayer):
    """The layer that all layers of an ALBERT share."""


class _Encoder:
    """Embedded tokens through layers."""

    def __init__(self, embed: Callable[[GPUArray], GPUArray], layers: Sequence[BertLayer]) -> None:
        self.embed = embed
        self.layers = list(layers)

    def __call__(self, input_ids: GPUArray, attention_mask: GPUArray | None = None) -> GPUArray:
        x = self.embed(input_ids)
        for layer in self.layers:
            x = layer(x, attention_mask)
        return x


class PLBERTEncoder(_Encoder):
    """A BERT over phonemes: [batch, tokens] to [batch, tokens, hidden]."""

    def __init__(
        self,
        config: KokoroConfig,
        embeddings: GPUArray,
        position_embeddings: GPUArray,
        layers: Sequence[BertLayer],
    ) -> None:
        self.config = config
        self.embeddings = embeddings
        self.position_embeddings = position_embeddings
        super().__init__(self._embed, layers)

    def _embed(self, input_ids: GPUArray) -> GPUArray:
        rows = _native.take(self.embeddings, input_ids, 0)
        return _native.add(rows, self.position_embeddings[: input_ids.shape[1]])


class ALBERTEncoder(_Encoder):
    """Kokoro's PL-BERT: small embeddings, a projection, and one layer many times."""

    def __init__(
        self,
        word_embeddings: GPUArray,
        position_embeddings: GPUArray,
        token_type_embeddings: GPUArray,
        embedding_norm: LayerNorm,
        mapping: Linear,
        layer: ALBERTLayer | Sequence[ALBERTLayer],
        num_layers: int = 12,
    ) -> None:
        self.word_embeddings = word_embeddings
        self.positions = _native.add(position_embeddings, token_type_embeddings[:1])
        self.embedding_norm = embedding_norm
        self.mapping = mapping
        groups = [layer] if isinstance(layer, ALBERTLayer) else list(layer)
        shared = [groups[i * len(groups) // num_layers] for i in range(num_layers)]
        super().__init__(self._embed, shared)

    def _embed(self, input_ids: GPUArray) -> GPUArray:
        rows = _native.take(self.word_embeddings, input_ids, 0)
        x = _native.add(rows, self.positions[: input_ids.shape[1]])
        return self.mapping(self.embedding_norm(x))


# --- Kokoro ---
class KokoroTextEncoder:
    """Embedded tokens through convolutions with norms, then an LSTM: [batch, hidden, tokens]."""

    def __init__(
        self,
        embedding: GPUArray,
        cnn_layers: Sequence[tuple[Layer, LayerNorm]],
        lstm: LSTM,
    ) -> None:
        self.embedding = embedding
        self.cnn_layers = list(cnn_layers)
        self.lstm = lstm

    def __call__(self, input_ids: GPUArray) -> GPUArray:
        x = _native.take(self.embedding, input_ids, 0)
        for conv, norm in self.cnn_layers:
            x = leaky_relu(norm(_swap_axes(conv(_swap_axes(x)))), 0.2)
        return _swap_axes(self.lstm(x)[0])


class StyleEncoder:
    """Convolutions with leaky_relu, their mean over the length, and a projection."""

    def __init__(self, convs: Sequence[Layer], projection: Linear | None = None) -> None:
        self.convs = list(convs)
        self.projection = projection

    def __call__(self, x: GPUArray, speaker_embedding: GPUArray | None = None) -> GPUArray:
        """x is [batch, channels, length]: [batch, style]."""
        for conv in self.convs:
            x = leaky_relu(conv(x))
        style = _native.mean(x, -1)
        if self.projection is not None:
            style = self.projection(style)
        return style if speaker_embedding is None else _native.add(style, speaker_embedding)


class Decoder:
    """Blocks in a style; the input of every block is joined by the same features."""

    def __init__(self, encode: AdaINResBlock, decode: Sequence[AdaINResBlock]) -> None:
        self.encode = encode
        self.decode = list(decode)

    def __call__(self, x: GPUArray, style: GPUArray, features: Sequence[GPUArray] = ()) -> GPUArray:
        y = self.encode(x, style)
        for block in self.decode:
            y = block(_native.concat([y, *features], 1), style)
        return y


class ISTFTNet:
    """Transposed convolutions and residual blocks to a spectrum, and its inverse STFT."""

    def __init__(
        self,
        config: KokoroConfig,
        ups: Sequence[Layer],
        resblocks: Sequence[Sequence[Layer]],
        output_conv: Layer,
    ) -> None:
        self.config = config
        self.ups = list(ups)
        self.resblocks = [list(blocks) for blocks in resblocks]
        self.output_conv = output_conv

    def __call__(self, x: GPUArray) -> GPUArray:
        """x is [batch, channels, length]: samples [batch, length * hop_length]."""
        for up, blocks in zip(self.ups, self.resblocks, strict=True):
            x = up(leaky_relu(x))
            outputs = [block(x) for block in blocks]
            for output in outputs[1:]:
                outputs[0] = _native.add(outputs[0], output)
            x = _native.multiply(outputs[0], 1.0 / len(outputs)) if outputs else x
        x = pad(x, ((0, 0), (0, 0), (1, 0)), "reflect")
        spectrum = self.output_conv(leaky_relu(x, 0.01))
        bins = self.config.gen_istft_n_fft // 2 + 1
        magnitude = _native.exp(spectrum[:, :bins])
        phase = _native.sin(spectrum[:, bins:])
        return self._inverse(magnitude, phase)

    def _inverse(self, magnitude: GPUArray, phase: GPUArray) -> GPUArray:
        from pygpukit.ops.audio import istft

        parts = [_native.multiply(magnitude, f(phase)) for f in (_native.cos, _native.sin)]
        spectrum = _native.stack(
            [_swap_axes(part) for part in parts], -1
        )  # [batch, frames, bins, 2]
        return istft(spectrum, self.config.gen_istft_hop_size)


def _swap_axes(x: GPUArray) -> GPUArray:
    return _native.swapaxes(x, 1, 2)


# --- from weights ---
def build_plbert_from_weights(
    config: KokoroConfig, weights: Weights, prefix: str = "bert"
) -> PLBERTEncoder:
    """A BERT with the names of Hugging Face. KeyError for a name that is not there."""
    layers = []
    for i in range(config.plbert_num_hidden_layers):
        name = f"{prefix}.encoder.layer.{i}"
        layers.append(
            BertLayer(
                _attention(config, weights, f"{name}.attention.self"),
                _linear(weights, f"{name}.attention.output.dense"),
                _norm(weights, f"{name}.attention.output.LayerNorm"),
                _linear(weights, f"{name}.intermediate.dense"),
                _linear(weights, f"{name}.output.dense"),
                _norm(weights, f"{name}.output.LayerNorm"),
            )
        )
    return PLBERTEncoder(
        config,
        weights[f"{prefix}.embeddings.word_embeddings.weight"],
        weights[f"{prefix}.embeddings.position_embeddings.weight"],
        layers,
    )


def build_albert_from_weights(
    config: KokoroConfig, weights: Weights, prefix: str = "bert"
) -> ALBERTEncoder:
    """Kokoro's PL-BERT. KeyError for a name that is not there."""
    at = f"{prefix}.embeddings"
    groups = [
        _albert_layer(config, weights, f"{prefix}.encoder.albert_layer_groups.{i}.albert_layers.0")
        for i in range(config.plbert_num_hidden_groups)
    ]
    return ALBERTEncoder(
        weights[f"{at}.word_embeddings.weight"],
        weights[f"{at}.position_embeddings.weight"],
        weights[f"{at}.token_type_embeddings.weight"],
        _norm(weights, f"{at}.LayerNorm"),
        _linear(weights, f"{prefix}.encoder.embedding_hidden_mapping_in"),
        groups,
        config.plbert_num_hidden_layers,
    )


def build_text_encoder_from_weights(
    config: KokoroConfig, weights: Weights, prefix: str = "text_encoder"
) -> KokoroTextEncoder:
    """Kokoro's text encoder. KeyError for a name that is not there."""
    layers = []
    for i in range(config.n_layer):
        conv = f"{prefix}.cnn.{i}.0"
        norm = f"{prefix}.cnn.{i}.1"
        layers.append(
            (
                WeightNormConv1d(
                    weights[f"{conv}.weight_g"],
                    weights[f"{conv}.weight_v"],
                    weights[f"{conv}.bias"],
                    padding=(config.text_encoder_kernel_size - 1) // 2,
                ),
                LayerNorm(weights[f"{norm}.gamma"], weights[f"{norm}.beta"]),
            )
        )
    names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
    w_ih, w_hh, b_ih, b_hh = (weights[f"{prefix}.lstm.{name}"] for name in names)
    back = (weights[f"{prefix}.lstm.{name}_reverse"] for name in names)
    lstm = LSTM(w_ih, w_hh, b_ih, b_hh, True, *back)
    return KokoroTextEncoder(weights[f"{prefix}.embedding.weight"], layers, lstm)


def _albert_layer(config: KokoroConfig, weights: Weights, name: str) -> ALBERTLayer:
    return ALBERTLayer(
        _attention(config, weights, f"{name}.attention"),
        _linear(weights, f"{name}.attention.dense"),
        _norm(weights, f"{name}.attention.LayerNorm"),
        _linear(weights, f"{name}.ffn"),
        _linear(weights, f"{name}.ffn_output"),
        _norm(weights, f"{name}.full_layer_layer_norm"),
    )


def _attention(config: KokoroConfig, weights: Weights, name: str) -> BertSelfAttention:
    return BertSelfAttention(
        _linear(weights, f"{name}.query"),
        _linear(weights, f"{name}.key"),
        _linear(weights, f"{name}.value"),
        config.plbert_num_attention_heads,
        config.plbert_head_dim,
    )


def _linear(weights: Weights, name: str) -> Linear:
    return Linear(weights[f"{name}.weight"], weights[f"{name}.bias"])


def _norm(weights: Weights, name: str) -> LayerNorm:
    return LayerNorm(weights[f"{name}.weight"], weights[f"{name}.bias"], 1e-12)

"""A small random Kokoro model, and what the kokoro package computes with it, stage by stage.

usage: make_kokoro_golden.py FOLDER      (tests/data/tiny-kokoro)
       make_kokoro_golden.py --compare   the full configuration against pygpukit, in one process

Needs torch, transformers and kokoro (0.9.4); --compare also pygpukit. kokoro's text processing is
not imported. The folder gets config.json, a checkpoint and a voice written by torch.save (float16),
and golden.npz: token ids, the noise of the source, and the result of every stage.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
import types
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch

FULL: dict[str, Any] = {
    "hidden_dim": 512,
    "n_layer": 3,
    "n_token": 178,
    "max_dur": 50,
    "style_dim": 128,
    "n_mels": 80,
    "dropout": 0.2,
    "text_encoder_kernel_size": 5,
    "plbert": {
        "hidden_size": 768,
        "num_attention_heads": 12,
        "intermediate_size": 2048,
        "max_position_embeddings": 512,
        "num_hidden_layers": 12,
    },
    "istftnet": {
        "upsample_rates": [10, 6],
        "upsample_kernel_sizes": [20, 12],
        "upsample_initial_channel": 512,
        "resblock_kernel_sizes": [3, 7, 11],
        "resblock_dilation_sizes": [[1, 3, 5], [1, 3, 5], [1, 3, 5]],
        "gen_istft_n_fft": 20,
        "gen_istft_hop_size": 5,
    },
}
TINY: dict[str, Any] = {
    "hidden_dim": 16,
    "n_layer": 2,
    "n_token": 178,
    "max_dur": 4,
    "style_dim": 8,
    "n_mels": 80,
    "dropout": 0.2,
    "text_encoder_kernel_size": 5,
    "plbert": {
        "embedding_size": 12,
        "hidden_size": 24,
        "num_attention_heads": 3,
        "intermediate_size": 32,
        "max_position_embeddings": 64,
        "num_hidden_layers": 4,
        "num_hidden_groups": 2,
    },
    "istftnet": {
        "upsample_rates": [4, 3],
        "upsample_kernel_sizes": [8, 7],
        "upsample_initial_channel": 16,
        "resblock_kernel_sizes": [3, 7],
        "resblock_dilation_sizes": [[1, 3, 5], [1, 2, 4]],
        "gen_istft_n_fft": 20,
        "gen_istft_hop_size": 5,
    },
}
# Widths inside the decoder, which the package has as constants.
FULL_WIDTHS, TINY_WIDTHS = (1024, 64), (24, 4)
TOLERANCE = 1e-4


def kokoro_modules() -> tuple[Any, Any]:
    """istftnet and modules, without the package's __init__ and what that needs."""
    spec = importlib.util.find_spec("kokoro")
    if spec is None or spec.submodule_search_locations is None:
        sys.exit("make_kokoro_golden: needs the package kokoro: pip install --no-deps kokoro")
    package = types.ModuleType("kokoro")
    package.__path__ = list(spec.submodule_search_locations)
    sys.modules["kokoro"] = package
    if importlib.util.find_spec("attr") is None:  # imported there, not used
        sys.modules["attr"] = types.ModuleType("attr")
        sys.modules["attr"].attr = None  # type: ignore[attr-defined]
    return importlib.import_module("kokoro.istftnet"), importlib.import_module("kokoro.modules")


class Model(torch.nn.Module):  # type: ignore[misc]
    """The parts of kokoro's model, of any size."""

    def __init__(self, config: dict[str, Any], widths: tuple[int, int]) -> None:
        super().__init__()
        from transformers import AlbertConfig

        istftnet, modules = kokoro_modules()
        hidden, style = config["hidden_dim"], config["style_dim"]
        self.bert = modules.CustomAlbert(
            AlbertConfig(vocab_size=config["n_token"], **config["plbert"])
        )
        self.bert_encoder = torch.nn.Linear(config["plbert"]["hidden_size"], hidden)
        self.predictor = modules.ProsodyPredictor(
            style, hidden, config["n_layer"], config["max_dur"], config["dropout"]
        )
        self.text_encoder = modules.TextEncoder(
            hidden, config["text_encoder_kernel_size"], config["n_layer"], config["n_token"]
        )
        self.decoder = decoder_of(istftnet, config, widths)
        self.style_dim = style


def decoder_of(istftnet: Any, config: dict[str, Any], widths: tuple[int, int]) -> Any:
    hidden, style, net = config["hidden_dim"], config["style_dim"], config["istftnet"]
    if widths == FULL_WIDTHS:
        return istftnet.Decoder(hidden, style, config["n_mels"], **net)
    from torch.nn.utils import weight_norm

    wide, narrow = widths
    last = net["upsample_initial_channel"]
    block = istftnet.AdainResBlk1d
    decoder = istftnet.Decoder.__new__(istftnet.Decoder)
    torch.nn.Module.__init__(decoder)
    decoder.encode = block(hidden + 2, wide, style)
    inner = wide + 2 + narrow
    decoder.decode = torch.nn.ModuleList(
        [block(inner, wide, style) for _ in range(3)] + [block(inner, last, style, upsample=True)]
    )
    decoder.F0_conv = weight_norm(torch.nn.Conv1d(1, 1, 3, stride=2, padding=1))
    decoder.N_conv = weight_norm(torch.nn.Conv1d(1, 1, 3, stride=2, padding=1))
    decoder.asr_res = torch.nn.Sequential(weight_norm(torch.nn.Conv1d(hidden, narrow, 1)))
    decoder.generator = istftnet.Generator(style, **net)
    return decoder


def random_tensor(name: str, shape: tuple[int, ...], seed: int) -> np.ndarray[Any, Any]:
    """By name, so that anybody can make the same ones."""
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    x = rng.standard_normal(shape)
    if "alpha" in name or "gamma" in name or name.endswith((".norm.weight", "LayerNorm.weight")):
        x = 1 + 0.2 * x
    elif name.endswith("conv_post.weight_g"):
        x = 0.05 + 0.01 * x  # an exponential follows
    elif name.endswith(("weight_g", "full_layer_layer_norm.weight")):
        x = 1 + 0.1 * x
    elif name.endswith("F0_proj.bias"):
        x = np.full(shape, 110.0)
    elif name.endswith("F0_proj.weight"):
        x = x * 150 / np.sqrt(x.size)
    elif "duration_proj" in name:
        x = x * 2
    elif len(shape) > 1 and "embeddings" not in name and "embedding.weight" not in name:
        x = x / np.sqrt(np.prod(shape[1:]))
    elif len(shape) == 1:
        x = 0.1 * x
    return x.astype(np.float16).astype(np.float32)


def fill(model: torch.nn.Module, seed: int) -> dict[str, np.ndarray[Any, Any]]:
    """Random weights; the tensors by name."""
    tensors = {}
    with torch.no_grad():
        for name, value in model.state_dict().items():
            tensors[name] = random_tensor(name, tuple(value.shape), seed)
            value.copy_(torch.from_numpy(tensors[name]))
    return tensors


def run(model: Model, tokens: Any, style: Any, noise: Any, speed: float) -> dict[str, Any]:
    """KModel.forward_with_tokens with every stage kept; noise takes the place of randn_like."""
    stages: dict[str, Any] = {}
    ids = torch.tensor([tokens])
    lengths = torch.tensor([len(tokens)])
    mask = torch.zeros(ids.shape, dtype=torch.bool)
    voice, prosody = style[:, : model.style_dim], style[:, model.style_dim :]
    stages["bert"] = model.bert(ids, attention_mask=(~mask).int())
    stages["bert_encoder"] = model.bert_encoder(stages["bert"])
    d = model.predictor.text_encoder(
        stages["bert_encoder"].transpose(-1, -2), prosody, lengths, mask
    )
    stages["duration_encoder"] = d
    x, _ = model.predictor.lstm(d)
    stages["duration"] = torch.sigmoid(model.predictor.duration_proj(x)).sum(-1)
    durations = torch.round(stages["duration"] / speed).clamp(min=1).long().squeeze(0)
    frames = torch.repeat_interleave(torch.arange(len(tokens)), durations)
    stages["pitch"], stages["energy"] = model.predictor.F0Ntrain(
        d[:, frames].transpose(-1, -2), prosody
    )
    stages["text_encoder"] = model.text_encoder(ids, lengths, mask).transpose(-1, -2)
    asr = stages["text_encoder"][:, frames].transpose(-1, -2)
    kept = keep_inner_stages(model.decoder, stages)
    randn_like = torch.randn_like
    samples = len(frames) * 2 * model.decoder.generator.m_source.l_sin_gen.upsample_scale
    table = torch.from_numpy(noise(samples))[None]
    torch.randn_like = lambda like, **_: table if like.shape == table.shape else randn_like(like)
    try:
        audio = model.decoder(asr, stages["pitch"], stages["energy"], voice)
    finally:
        torch.randn_like = randn_like
        for handle in kept:
            handle.remove()
    stages["samples"] = audio.reshape(-1)
    stages["durations"] = durations
    return {name: value.detach().numpy() for name, value in stages.items()}


def keep_inner_stages(decoder: Any, stages: dict[str, Any]) -> list[Any]:
    """Hooks for what is inside the decoder."""

    def keep(name: str) -> Any:
        def hook(_: Any, __: Any, output: Any) -> None:
            value = output[0] if isinstance(output, tuple) else output
            stages[name] = value.reshape(1, -1) if name == "source" else value.clone()

        return hook

    def keep_input(name: str, index: int) -> Any:
        def hook(_: Any, inputs: Any) -> None:
            stages[name] = inputs[index].clone()

        return hook

    generator = decoder.generator
    transform = type(generator.stft).transform

    def decided(samples: Any) -> Any:
        """Padding makes the first frame symmetric: its angles are 0 or pi, and the sign of pi is
        that of a rounding error."""
        magnitude, phase = transform(generator.stft, samples)
        first = phase[..., 0]
        phase[..., 0] = torch.where(first.abs() > 1, torch.pi, torch.zeros(()))
        return magnitude, phase

    generator.stft.transform = decided
    return [
        decoder.encode.register_forward_hook(keep("encode")),
        decoder.decode[-1].register_forward_hook(keep("decode")),
        generator.m_source.register_forward_hook(keep("source")),
        generator.noise_convs[0].register_forward_pre_hook(keep_input("harmonics", 0)),
        generator.conv_post.register_forward_hook(keep("spectrum")),
    ]


def noise_of(seed: int) -> Any:
    """Values that float16 holds, so that a golden file stays small."""

    def noise(samples: int) -> np.ndarray[Any, Any]:
        values = np.random.default_rng(seed).standard_normal((samples, 9))
        return values.astype(np.float16).astype(np.float32)

    return noise


def parts_of(model: Model) -> dict[str, Any]:
    """As the published checkpoint is: a dict of parts, names with "module.", no norm weights."""
    parts = {}
    for part in ("bert", "bert_encoder", "predictor", "decoder", "text_encoder"):
        tensors = getattr(model, part).state_dict()
        parts[part] = {
            f"module.{name}": value.half()
            for name, value in tensors.items()
            if not name.startswith("pooler")
        }
    return parts


def make(folder: Path) -> None:
    model = Model(TINY, TINY_WIDTHS).eval()
    fill(model, 7)
    symbols = "$;:,.!?-abcdefghijklmnopqrstuvwxyz "
    tokens = [0, 15, 9, 33, 21, 4, 28, 16, 12, 5, 0]
    rng = np.random.default_rng(11)
    pack = rng.standard_normal((60, 1, 2 * TINY["style_dim"])).astype(np.float16)
    with torch.no_grad():
        style = torch.from_numpy(pack[len(tokens) - 3].astype(np.float32))
        stages = run(model, tokens, style, noise_of(3), 1.0)
        slow = run(model, tokens, style, noise_of(3), 0.7)
    (folder / "voices").mkdir(parents=True, exist_ok=True)
    vocab = {symbol: i for i, symbol in enumerate(symbols) if i}
    text = json.dumps({**TINY, "vocab": vocab}, indent=1)
    (folder / "config.json").write_text(text + "\n", encoding="utf-8")
    torch.save(parts_of(model), folder / "kokoro-tiny.pth")
    torch.save(torch.from_numpy(pack), folder / "voices" / "af_test.pt")
    noise = noise_of(3)(len(slow["samples"]) + 2).astype(np.float16)
    np.savez_compressed(
        folder / "golden.npz",
        tokens=np.array(tokens),
        noise=noise,
        slow_samples=slow["samples"],
        slow_durations=slow["durations"],
        slow_pitch=slow["pitch"],
        slow_energy=slow["energy"],
        **stages,
    )
    print(
        f"{len(stages['samples'])} samples, pitch {stages['pitch'].min():.0f} to "
        f"{stages['pitch'].max():.0f} Hz, durations {stages['durations'].tolist()}"
    )


def relative_error(ours: np.ndarray[Any, Any], theirs: np.ndarray[Any, Any]) -> float:
    """The largest difference, of the largest magnitude."""
    ours = ours.reshape(theirs.shape)
    return float(np.abs(ours - theirs).max() / np.abs(theirs).max())


def as_spectrum(harmonics: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Magnitudes and phases as complex numbers: the phase of nothing is nothing."""
    magnitude, phase = np.split(harmonics.astype(np.float64), 2, axis=1)
    return np.asarray(magnitude * np.exp(1j * phase))


def compare() -> int:
    import pygpukit as gp

    model = Model(FULL, FULL_WIDTHS).eval()
    tensors = fill(model, 5)
    rng = np.random.default_rng(2)
    tokens = [0, *rng.integers(1, FULL["n_token"], 6).tolist(), 0]
    style = rng.standard_normal((1, 2 * FULL["style_dim"])).astype(np.float32)
    with torch.no_grad():
        theirs = run(model, tokens, torch.from_numpy(style), noise_of(4), 1.0)
    noise = noise_of(4)(theirs["durations"].sum() * 600)
    native = gp._native.KokoroModel(
        json.dumps(FULL), {name: gp.asarray(value) for name, value in tensors.items()}
    )
    ours = {}
    # An error of 1e-6 in the pitch is one of a thousand in its ninth harmonic after some seconds:
    # the decoder gets the package's curves.
    samples, durations = native.run(
        tokens,
        gp.asarray(style[0]),
        pitch=gp.asarray(theirs["pitch"][0]),
        energy=gp.asarray(theirs["energy"][0]),
        noise=gp.asarray(noise),
        trace=lambda stage, value: ours.update({stage: value.to_numpy()}),
    )
    ours["samples"] = samples.to_numpy()
    worst = 0.0
    for name, value in theirs.items():
        if name == "durations":
            worst = max(worst, float(durations != value.tolist()))
            continue
        pair = (ours[name].astype(np.float64), value.astype(np.float64))
        if name == "harmonics":
            pair = (as_spectrum(pair[0]), as_spectrum(pair[1]))
        error = relative_error(*pair)
        worst = max(worst, error)
        print(f"{name:18} {value.shape!s:20} {error:.1e}")
    print(f"{native.num_parameters} parameters, {len(samples)} samples, worst {worst:.1e}")
    return int(worst > TOLERANCE)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    if sys.argv[1] == "--compare":
        sys.exit(compare())
    make(Path(sys.argv[1]))

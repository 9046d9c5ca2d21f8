"""Golden values of Whisper with random weights: tests/data/whisper-golden/*.npz.

    python scripts/make_asr_golden.py       # with torch and transformers, on the CPU

Two shapes. A file has the config, the weights (float16 values, which both sides read as float32),
a spectrogram, token ids, and what Transformers computes from them in float32: the states of
encoders and the logits of decoders that are cut after each of their layers, the keys and values of
the cross cache, and greedy tokens.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import WhisperConfig, WhisperForConditionalGeneration

FOLDER = Path(__file__).resolve().parents[1] / "tests" / "data" / "whisper-golden"
COMMON = {
    "bos_token_id": 96,
    "decoder_start_token_id": 97,
    "eos_token_id": 96,
    "pad_token_id": 96,
    "suppress_tokens": None,
    "begin_suppress_tokens": None,
}
SHAPES: dict[str, dict[str, Any]] = {
    "even": {
        "d_model": 48,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 3,
        "decoder_attention_heads": 3,
        "encoder_ffn_dim": 96,
        "decoder_ffn_dim": 96,
        "num_mel_bins": 20,
        "max_source_positions": 50,
        "max_target_positions": 24,
        "vocab_size": 131,
    },
    "turbo": {  # few decoder layers, other heads in each part
        "d_model": 64,
        "encoder_layers": 3,
        "decoder_layers": 1,
        "encoder_attention_heads": 8,
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 160,
        "decoder_ffn_dim": 112,
        "num_mel_bins": 32,
        "max_source_positions": 75,
        "max_target_positions": 32,
        "vocab_size": 200,
        "scale_embedding": True,
    },
}


def randomized(config: WhisperConfig, rng: np.random.Generator) -> WhisperForConditionalGeneration:
    """Weights that keep every layer's output near 1, biases and norms that are not trivial."""
    model = WhisperForConditionalGeneration(config).eval().float()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            shape = tuple(parameter.shape)
            spread = 0.3 if parameter.ndim == 1 else 1.5 / np.sqrt(np.prod(shape[1:]))
            values = rng.standard_normal(shape) * spread
            if "layer_norm.weight" in name:
                values += 1.0
            parameter.copy_(torch.from_numpy(values.astype(np.float16).astype(np.float32)))
    return model


def cut(model: WhisperForConditionalGeneration, encoder: int, decoder: int) -> Any:
    """The model after so many layers of each part."""
    config = WhisperConfig(
        **{**model.config.to_dict(), "encoder_layers": encoder, "decoder_layers": decoder}
    )
    part = WhisperForConditionalGeneration(config).eval().float()
    kept = {k: v for k, v in model.state_dict().items() if k in part.state_dict()}
    part.load_state_dict(kept)
    return part


def golden(name: str, seed: int) -> dict[str, Any]:
    sizes = SHAPES[name]
    rng = np.random.default_rng(seed)
    config = WhisperConfig(**COMMON, **sizes)
    model = randomized(config, rng)
    frames = 2 * sizes["max_source_positions"]
    mel = rng.standard_normal((2, sizes["num_mel_bins"], frames)).astype(np.float16)
    ids = rng.integers(0, sizes["vocab_size"], (2, 9))
    x = torch.from_numpy(mel.astype(np.float32))
    values: dict[str, Any] = {"config": json.dumps(sizes), "mel": mel, "ids": ids.astype(np.int32)}
    with torch.no_grad():
        for layers in range(1, sizes["encoder_layers"] + 1):
            states = cut(model, layers, 1).model.encoder(x).last_hidden_state
            values[f"encoder_{layers}"] = states.numpy()
        for layers in range(1, sizes["decoder_layers"] + 1):
            part = cut(model, sizes["encoder_layers"], layers)
            logits = part(x, decoder_input_ids=torch.from_numpy(ids)).logits
            values[f"logits_{layers}"] = logits.numpy()
        tokens = torch.from_numpy(ids[:, :3])
        for _ in range(12):
            logits = model(x, decoder_input_ids=tokens).logits
            tokens = torch.cat([tokens, logits[:, -1:].argmax(-1)], dim=1)
    values["greedy"] = tokens[:, 3:].numpy().astype(np.int32)
    for key, tensor in model.state_dict().items():
        if key != "proj_out.weight":
            values["weight:" + key] = tensor.numpy().astype(np.float16)
    return values


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=FOLDER)
    folder: Path = parser.parse_args().out
    folder.mkdir(parents=True, exist_ok=True)
    for seed, name in enumerate(SHAPES):
        np.savez_compressed(folder / f"{name}.npz", **golden(name, seed))
        print(name, (folder / f"{name}.npz").stat().st_size)


if __name__ == "__main__":
    main()

"""Small random models of every family, and what Transformers computes with them.

usage: make_llm_goldens.py FOLDER      (needs torch and transformers; tests/data/families)

Each folder has config.json, model.safetensors (float32) and golden.npz: token ids, logits of all of
them, the greedy continuation, and how far off bfloat16 is.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file

COMMON = {
    "vocab_size": 160,
    "hidden_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 80,
    "max_position_embeddings": 256,
    "head_dim": 16,
    "initializer_range": 0.2,
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
YARN = {
    "rope_type": "yarn",
    "rope_theta": 10000.0,
    "factor": 4.0,
    "original_max_position_embeddings": 64,
}
LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 10000.0,
    "short_factor": [1.0 + 0.1 * i for i in range(6)],
    "long_factor": [2.0 + 0.5 * i for i in range(6)],
    "original_max_position_embeddings": 128,
    "partial_rotary_factor": 0.75,
}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": (
        "GPT2Config",
        {
            "vocab_size": 160,
            "n_embd": 48,
            "n_layer": 3,
            "n_head": 4,
            "n_positions": 128,
            "initializer_range": 0.2,
        },
    ),
    "llama": ("LlamaConfig", COMMON),
    "llama31": ("LlamaConfig", {**COMMON, "rope_parameters": LLAMA3, "tie_word_embeddings": True}),
    "llama_bias": ("LlamaConfig", {**COMMON, "attention_bias": True, "rope_parameters": YARN}),
    "mistral": ("MistralConfig", {**COMMON, "sliding_window": 9}),
    "qwen2": ("Qwen2Config", COMMON),
    "qwen3": ("Qwen3Config", COMMON),
    "gemma2": (
        "Gemma2Config",
        {
            **COMMON,
            "num_hidden_layers": 4,
            "sliding_window": 7,
            "query_pre_attn_scalar": 24,
            "attn_logit_softcapping": 20.0,
            "final_logit_softcapping": 10.0,
        },
    ),
    "gemma3_text": (
        "Gemma3TextConfig",
        {**COMMON, "num_hidden_layers": 6, "sliding_window": 7, "query_pre_attn_scalar": 24},
    ),
    "phi3": (
        "Phi3Config",
        {
            **COMMON,
            "hidden_size": 64,
            "rope_parameters": LONGROPE,
            "pad_token_id": 0,
            "sliding_window": None,
            "original_max_position_embeddings": 128,
        },
    ),
    "mixtral": ("MixtralConfig", {**COMMON, "num_local_experts": 6, "num_experts_per_tok": 2}),
    "qwen3_moe": (
        "Qwen3MoeConfig",
        {
            **COMMON,
            "num_experts": 6,
            "num_experts_per_tok": 3,
            "moe_intermediate_size": 40,
            "norm_topk_prob": True,
        },
    ),
}
TOKENS, NEW = 40, 12


def randomize(model: torch.nn.Module) -> None:
    """Norms and biases too: those of a new model are ones and zeros, which hide mistakes."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim == 1:
                center = 1.0 if "norm" in name and "bias" not in name else 0.0
                parameter.copy_(center + 0.2 * torch.randn_like(parameter))


def make(name: str, folder: Path) -> None:
    torch.manual_seed(sum(name.encode()))
    cls, values = FAMILIES[name]
    config = getattr(transformers, cls)(**values)
    config._attn_implementation = "eager"
    model = transformers.AutoModelForCausalLM.from_config(config).float().eval()
    randomize(model)
    model.save_pretrained(folder)
    for file in folder.glob("generation_config.json"):
        file.unlink()
    weights = folder / "model.safetensors"
    save_file(load_file(weights), weights)  # without what Transformers adds to the header
    ids = torch.randint(
        0, config.vocab_size, (1, TOKENS), generator=torch.Generator().manual_seed(1)
    )
    with torch.no_grad():
        logits = model(ids).logits[0].double().numpy()
        grown = ids
        for _ in range(NEW):
            grown = torch.cat([grown, model(grown).logits[:, -1:].argmax(-1)], 1)
        rounded = model.bfloat16()(ids).logits[0].double().numpy()
    error = np.sqrt(np.mean((rounded - logits) ** 2) / np.mean(logits**2))
    np.savez_compressed(
        folder / "golden.npz",
        ids=ids[0].numpy().astype(np.int32),
        logits=logits.astype(np.float32),
        greedy=grown[0, TOKENS:].numpy().astype(np.int32),
        bfloat16_error=error,  # of Transformers itself
    )
    text = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(text, indent=1, sort_keys=True) + "\n")
    print(name, sum(p.numel() for p in model.parameters()), "parameters")


if __name__ == "__main__":
    root = Path(sys.argv[1])
    for family in FAMILIES:
        (root / family).mkdir(parents=True, exist_ok=True)
        make(family, root / family)

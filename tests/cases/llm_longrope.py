"""LongRoPE: short texts and long ones are rotated by other frequencies (Phi-3)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

import pygpukit as gp
from cases.llm import DATA, strategies

FOLDER = DATA / "families" / "phi3"
BORDER = 128  # original_max_position_embeddings of the folder
Array = np.ndarray[Any, np.dtype[np.float64]]


def load(device: str, max_length: int = 256) -> gp.llm.LanguageModel:
    return gp.llm.load(FOLDER, "float32", device=device, max_length=max_length, max_batch=3)


def text(length: int, seed: int = 3) -> list[int]:
    return np.random.default_rng(seed).integers(0, 160, length).tolist()


class Reference:
    """Phi-3 in float64: all of a text by the factors that its length asks for."""

    def __init__(self, folder: Path) -> None:
        file = gp.llm.SafeTensorsFile(folder / "model.safetensors")
        self.weights = {
            name: file.tensor(name).to_numpy().astype(np.float64) for name in file.tensor_names
        }
        self.config = json.loads((folder / "config.json").read_text())

    def rotation(self, length: int) -> tuple[Array, Array]:
        rope = self.config["rope_parameters"]
        factors = np.array(rope["long_factor" if length > BORDER else "short_factor"])
        dim = 2 * len(factors)
        frequencies = rope["rope_theta"] ** -(np.arange(0, dim, 2) / dim) / factors
        ratio = self.config["max_position_embeddings"] / BORDER
        scale = np.sqrt(1 + np.log(ratio) / np.log(BORDER))
        angles = np.arange(length)[:, None] * frequencies
        return np.cos(angles) * scale, np.sin(angles) * scale

    def logits(self, ids: list[int]) -> Array:
        w, c = self.weights, self.config
        heads, kv_heads, dim = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
        cos, sin = self.rotation(len(ids))
        pairs = cos.shape[1]

        def norm(x: Array, name: str) -> Array:
            return x / np.sqrt((x * x).mean(-1, keepdims=True) + c["rms_norm_eps"]) * w[name]

        def rotate(x: Array) -> Array:  # [tokens, heads, dim]
            a, b, rest = x[..., :pairs], x[..., pairs : 2 * pairs], x[..., 2 * pairs :]
            co, si = cos[:, None], sin[:, None]
            return np.concatenate([a * co - b * si, b * co + a * si, rest], -1)

        x = w["model.embed_tokens.weight"][ids]
        mask = np.triu(np.full((len(ids), len(ids)), -np.inf), 1)
        for i in range(c["num_hidden_layers"]):
            at = f"model.layers.{i}."
            qkv = norm(x, f"{at}input_layernorm.weight") @ w[f"{at}self_attn.qkv_proj.weight"].T
            q, k, v = np.split(qkv, [heads * dim, (heads + kv_heads) * dim], -1)
            q = rotate(q.reshape(-1, heads, dim))
            k, v = k.reshape(-1, kv_heads, dim), v.reshape(-1, kv_heads, dim)
            k, v = (np.repeat(t, heads // kv_heads, 1) for t in (rotate(k), v))
            scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(dim) + mask
            shares = np.exp(scores - scores.max(-1, keepdims=True))
            shares /= shares.sum(-1, keepdims=True)
            states = np.einsum("hqk,khd->qhd", shares, v).reshape(len(ids), -1)
            x = x + states @ w[f"{at}self_attn.o_proj.weight"].T
            both = norm(x, f"{at}post_attention_layernorm.weight")
            gate, up = np.split(both @ w[f"{at}mlp.gate_up_proj.weight"].T, 2, -1)
            x = x + (gate / (1 + np.exp(-gate)) * up) @ w[f"{at}mlp.down_proj.weight"].T
        logits: Array = norm(x, "model.norm.weight") @ w["lm_head.weight"].T
        return logits

    def greedy(self, ids: list[int], count: int) -> list[int]:
        """Every token from a forward pass over all before it."""
        for _ in range(count):
            ids = [*ids, int(self.logits(ids)[-1].argmax())]
        return ids[-count:]


def check_logits(model: gp.llm.LanguageModel, reference: Reference, length: int) -> None:
    for chunk in (512, 48):
        pieces = gp.llm.LanguageModel(model._model, max_length=256, max_batch=1, chunk=chunk)
        got = pieces.logits(text(length)).to_numpy()
        np.testing.assert_allclose(got, reference.logits(text(length)), atol=1e-3)


def check_growth(
    model: gp.llm.LanguageModel, reference: Reference, length: int, use_graph: bool = True
) -> None:
    """Tokens on both sides of the border, with every strategy."""
    options: dict[str, Any] = {"max_new_tokens": 9, "stop_tokens": [], "use_graph": use_graph}
    wanted = reference.greedy(text(length), 9)
    assert model.generate(text(length), **options) == wanted
    for strategy in strategies(model).values():
        assert model.generate(text(length), strategy=strategy, **options) == wanted


def check_batch(model: gp.llm.LanguageModel, reference: Reference) -> None:
    """Rows cross one by one; one that has ended stands at the border."""
    prompts = [text(BORDER - 2), text(BORDER - 5, 4), text(20, 5)]
    rows = [reference.greedy(prompt, 9) for prompt in prompts]
    assert model.generate_batch(prompts, max_new_tokens=9, stop_tokens=[]) == rows
    stop = rows[0][0]
    ends = [row.index(stop) + 1 if stop in row else 9 for row in rows]
    again = model.generate_batch(prompts, max_new_tokens=9, stop_tokens=[stop])
    assert again == [row[:end] for row, end in zip(rows, ends, strict=True)]


def check_engine(model: gp.llm.LanguageModel, reference: Reference) -> None:
    """A text ends at the border; long prompts and short ones share no pages."""
    long, short = text(BORDER + 30), text(BORDER - 3)
    with gp.llm.Engine(model, max_batch=4, max_length=256, page=16) as engine:
        for _ in range(2):  # the second time with the prefix cache
            requests = [
                engine.submit(ids, max_new_tokens=9, stop_tokens=[])
                for ids in (long, short, long[:100])
            ]
            got = [request.result() for request in requests]
            assert got[0] == reference.greedy(long, 9)
            assert got[1] == reference.greedy(short, 4)
            assert got[2] == reference.greedy(long[:100], 9)
            assert requests[1].finish_reason == "length"

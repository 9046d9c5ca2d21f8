"""Small models with what Transformers computed from them (scripts/make_llm_goldens.py)."""

from __future__ import annotations

import gc
import json
from pathlib import Path
from typing import Any

import numpy as np

import pygpukit as gp

DATA = Path(__file__).parent.parent / "data"
TINY = DATA / "tiny-qwen3-1m"
FAMILIES = sorted(p.name for p in (DATA / "families").iterdir()) if DATA.exists() else []


def golden() -> Any:
    return json.loads((TINY / "golden.json").read_text())


def check_family(family: str, device: str, dtype: str) -> None:
    """Logits of a prompt at once and in pieces, and the greedy continuation."""
    folder = DATA / "families" / family
    wanted = np.load(folder / "golden.npz")
    ids = wanted["ids"].tolist()
    model = gp.llm.load(folder, dtype, device=device, max_length=128, max_batch=2)

    def error(of: gp.llm.LanguageModel) -> float:
        got = of.logits(ids).to_numpy().astype(np.float64)
        want = wanted["logits"].astype(np.float64)
        return float(np.sqrt(np.mean((got - want) ** 2) / np.mean(want**2)))

    if dtype != "float32":
        limit = 2.0 * float(wanted["bfloat16_error"])
        if family in ("mixtral", "qwen3_moe"):
            # Rounding sends a few tokens to other experts: few, and still near.
            got = model.logits(ids).to_numpy().astype(np.float64)
            want = wanted["logits"].astype(np.float64)
            rows = np.sqrt(np.mean((got - want) ** 2, axis=1) / np.mean(want**2))
            assert np.quantile(rows, 0.9) < limit
            assert rows.max() < 0.6
            return
        assert error(model) < limit
        return
    assert error(model) < 2e-5
    new = model.generate(ids, max_new_tokens=len(wanted["greedy"]), stop_tokens=[])
    assert new == wanted["greedy"].tolist()
    assert error(gp.llm.LanguageModel(model._model, max_length=128, chunk=7)) < 2e-5  # in pieces


def check_chat(talker: gp.llm.LanguageModel, fresh: gp.llm.LanguageModel) -> None:
    """The next turn begins with the pages of the one before; its tokens are a fresh model's."""
    free = talker.free_tokens
    messages = [{"role": "user", "content": "In the beginning " * 30}]
    lengths = []
    for turn in range(3):
        stream = talker.chat(messages, max_new_tokens=12, stop_tokens=[])
        kept = talker._chat
        assert kept is not None
        lengths.append(kept[1].length)
        reply = "".join(stream)
        alone = fresh.chat(messages, max_new_tokens=12, stop_tokens=[])
        fresh._chat = None
        assert "".join(alone) == reply
        assert stream.tokens == alone.tokens
        messages += [
            {"role": "assistant", "content": reply},
            {"role": "user", "content": f"And {turn}?"},
        ]
    assert 64 <= lengths[0] < lengths[2]
    assert lengths == sorted(lengths)
    assert talker.free_tokens < free
    other = [{"role": "user", "content": "Something else"}]
    assert "".join(talker.chat(other, max_new_tokens=6)) == "".join(
        fresh.chat(other, max_new_tokens=6)
    )
    messages[0]["content"] += "!"  # what was said is another
    assert "".join(talker.chat(messages, max_new_tokens=6)) == "".join(
        fresh.chat(messages, max_new_tokens=6)
    )
    talker.generate([5] * 250, max_new_tokens=6)  # needs all pages
    assert talker.free_tokens == free


def strategies(draft: gp.llm.LanguageModel) -> dict[str, gp.llm.Strategy]:
    """One of each kind."""
    return {
        "ngram": gp.llm.NgramLookup(),
        "draft-model": gp.llm.DraftModel(draft),
        "self": gp.llm.SelfSpeculation(2),
        "jacobi": gp.llm.Jacobi(),
        "lookahead": gp.llm.Lookahead(),
    }


def write_model(folder: Path, *, qwen2: bool = False, **sizes: int) -> Path:
    """A Qwen3 of random weights in float32, or a Qwen2: biases, and no norms of heads."""
    rng = np.random.default_rng(7)
    hidden, inner, layers, vocab = (sizes[name] for name in ("hidden", "inner", "layers", "vocab"))
    heads, kv_heads, dim = sizes.get("heads", 8), sizes.get("kv_heads", 4), sizes.get("dim", 64)
    tensors = {
        "model.embed_tokens.weight": (vocab, hidden),
        "model.norm.weight": (hidden,),
    }
    for i in range(layers):
        at = f"model.layers.{i}."
        tensors |= {
            f"{at}input_layernorm.weight": (hidden,),
            f"{at}post_attention_layernorm.weight": (hidden,),
            f"{at}self_attn.q_proj.weight": (heads * dim, hidden),
            f"{at}self_attn.k_proj.weight": (kv_heads * dim, hidden),
            f"{at}self_attn.v_proj.weight": (kv_heads * dim, hidden),
            f"{at}self_attn.o_proj.weight": (hidden, heads * dim),
            f"{at}self_attn.q_norm.weight": (dim,),
            f"{at}self_attn.k_norm.weight": (dim,),
            f"{at}mlp.gate_proj.weight": (inner, hidden),
            f"{at}mlp.up_proj.weight": (inner, hidden),
            f"{at}mlp.down_proj.weight": (hidden, inner),
        }
        if qwen2:
            tensors |= {
                f"{at}self_attn.{name}_proj.bias": (count * dim,)
                for name, count in (("q", heads), ("k", kv_heads), ("v", kv_heads))
            }
            del tensors[f"{at}self_attn.q_norm.weight"], tensors[f"{at}self_attn.k_norm.weight"]
    folder.mkdir(parents=True, exist_ok=True)
    gp.llm.save_safetensors(
        folder / "model.safetensors",
        {
            name: rng.normal(float(len(shape) == 1), 0.03, shape).astype(np.float32)
            for name, shape in tensors.items()
        },
    )
    config = {
        "model_type": "qwen2" if qwen2 else "qwen3",
        "vocab_size": vocab,
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": dim,
        "max_position_embeddings": sizes.get("positions", 256),
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "tie_word_embeddings": True,
        "hidden_act": "silu",
    }
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def check_layer_streaming(folder: Path, device: str) -> None:
    """The same tokens with room for half of the weights."""
    write_model(folder, hidden=512, inner=1536, layers=10, vocab=1024)
    options: dict[str, Any] = {"device": device, "max_length": 64, "max_batch": 1}
    prompt = [5, 700, 31, 8]
    model = gp.llm.load(folder, **options)
    wanted = model.generate(prompt, max_new_tokens=6, stop_tokens=[])
    num_bytes = model.num_bytes
    del model
    gc.collect()
    gp.memory.trim(device)
    before = gp.memory.stats(device)
    limit = before["reserved"] + num_bytes // 2
    try:
        model = gp.llm.load(folder, max_memory=limit, **options)
        assert model.generate(prompt, max_new_tokens=6, stop_tokens=[]) == wanted
        after = gp.memory.stats(device)
        assert after["reserved"] <= limit
        assert after["restores"] - before["restores"] > 10
        del model
    finally:
        gc.collect()
        gp.memory.set_limit(None, device)

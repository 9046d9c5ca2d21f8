"""Language models on CPU simulation, against what Transformers computed."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases.llm import DATA, FAMILIES, TINY, check_family, check_layer_streaming, golden

import pygpukit as gp

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@pytest.fixture(scope="module")
def tiny() -> gp.llm.LanguageModel:
    return gp.llm.load(TINY, "float32", device="cpu", max_length=640)


@pytest.mark.parametrize("family", FAMILIES)
def test_family(family: str) -> None:
    check_family(family, "cpu", "float32")


def test_logits(tiny: gp.llm.LanguageModel) -> None:
    wanted = np.load(TINY / "golden_logits.npz")
    for text, name in zip(golden()["greedy"], wanted.files, strict=True):
        got = tiny.logits(text["prompt_ids"]).to_numpy()
        np.testing.assert_allclose(got, wanted[name], atol=1e-4)


def test_greedy_tokens(tiny: gp.llm.LanguageModel) -> None:
    for text in golden()["greedy"]:
        got = tiny.generate(text["prompt_ids"], max_new_tokens=64, stop_tokens=[])
        assert got == text["float32"]


def test_greedy_text_and_stream(tiny: gp.llm.LanguageModel) -> None:
    text = golden()["greedy"][0]
    pieces = list(tiny.generate_stream(text["prompt"], max_new_tokens=64, stop_tokens=[]))
    assert len(pieces) > 10
    assert "".join(map(str, pieces)) == text["text_float32"]


def test_a_batch_gives_the_same_tokens(tiny: gp.llm.LanguageModel) -> None:
    texts = golden()["greedy"]
    got = tiny.generate_batch([t["prompt_ids"] for t in texts], max_new_tokens=64, stop_tokens=[])
    assert got == [t["float32"] for t in texts]
    assert tiny.free_tokens == 8 * 640  # nothing is kept


def test_perplexity(tiny: gp.llm.LanguageModel) -> None:
    rows = np.load(TINY / "val_ids.npy").reshape(-1)[: 20 * 512].reshape(20, 512)
    logs = [np.log(tiny.perplexity(row.tolist())) for row in rows]
    wanted = golden()["perplexity_20x512_float32"]
    assert abs(np.exp(np.mean(logs)) - wanted) < 1e-3 * wanted
    with pytest.raises(ValueError, match="perplexity: a token id is 4096, expected 0 to 4095"):
        tiny.perplexity([1, 2, 4096])  # the last one is only looked up


def test_weights_beyond_the_memory_limit(tmp_path: Path) -> None:
    check_layer_streaming(tmp_path / "model", "cpu")


def test_stop_token_and_stop_string(tiny: gp.llm.LanguageModel) -> None:
    text = golden()["greedy"][0]
    stop = text["float32"][5]
    got = tiny.generate(text["prompt_ids"], max_new_tokens=64, stop_tokens=[stop])
    first = text["float32"].index(stop)
    assert got == text["float32"][: first + 1]
    word = text["text_float32"][10:16]
    got = tiny.generate(text["prompt"], max_new_tokens=64, stop_tokens=[], stop=word)
    assert got == text["text_float32"].split(word)[0]


def test_seeds(tiny: gp.llm.LanguageModel) -> None:
    def draw(seed: int) -> Any:
        return tiny.generate(
            [3, 888], max_new_tokens=20, temperature=1.0, seed=seed, stop_tokens=[]
        )

    assert draw(1) == draw(1)
    assert draw(1) != draw(2)
    assert draw(2**63 - 1) == draw(2**63 - 1)
    rows = [[3, 888], [5], [3, 888]]
    drawn = {"max_new_tokens": 20, "temperature": 1.0, "seed": 2**63 - 1, "stop_tokens": []}
    assert tiny.generate_batch(rows, **drawn) == [tiny.generate(row, **drawn) for row in rows]


def test_chat(tiny: gp.llm.LanguageModel) -> None:
    reply = "".join(tiny.chat([{"role": "user", "content": "Who is there?"}], max_new_tokens=8))
    assert isinstance(reply, str)


def test_explain(tiny: gp.llm.LanguageModel) -> None:
    lines = tiny.explain().splitlines()
    assert lines[0].startswith("qwen3, 1")
    assert lines[1] == "hidden = embedding[tokens]"
    assert lines[2] == "layer 0: normed = rmsnorm(hidden, attention_norm)"
    assert "layer 3: hidden = inner @ down^T + hidden" in lines
    assert lines[-1] == "logits = selected @ embedding^T"


# --- errors --------------------------------------------------------------------------------------


def changed(tmp_path: Path, **values: Any) -> Path:
    """The tiny model with another config.json."""
    folder = tmp_path / "model"
    shutil.copytree(TINY, folder)
    config = json.loads((folder / "config.json").read_text())
    config.update(values)
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"model_type": "mamba"}, ("model_type 'mamba'", "qwen3")),
        ({"hidden_size": 120}, ("embed_tokens.weight has shape (4096, 128)", "(4096, 120)")),
        (
            {"num_hidden_layers": 5, "layer_types": None},
            ("tensors of qwen3 are missing", "model.layers.4."),
        ),
        (
            {"num_hidden_layers": 3, "layer_types": None},
            ("tensors are none of qwen3's", "model.layers.3."),
        ),
        ({"vocab_size": "many"}, ("vocab_size of config.json is a string", "an integer")),
        ({"num_key_value_heads": 3}, ("num_key_value_heads is 3", "divisor")),
        ({"hidden_act": "relu"}, ("activation of config.json is 'relu'", "silu")),
        ({"layer_types": ["full_attention"]}, ("layer_types has 1 entries", "4 layers")),
        ({"rope_parameters": {"rope_type": "warp"}}, ("rope_type is 'warp'", "llama3")),
        ({"quantization_config": {}}, ("quantization_config", "quant_method")),
        ({"rms_norm_eps": -1.0}, ("epsilon of norms is -1", "0 or more")),
    ],
)
def test_bad_config(tmp_path: Path, values: dict[str, Any], words: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=re.escape(words[0])) as error:
        gp.llm.load(changed(tmp_path, **values), device="cpu")
    for word in words:
        assert word in str(error.value)


def test_bad_calls(tiny: gp.llm.LanguageModel) -> None:
    cases: list[tuple[Any, dict[str, Any], str]] = [
        ([], {}, "no tokens"),
        ([5000], {}, "generate: a token id is 5000, expected 0 to 4095"),
        ([2**31], {}, "generate: a token id is 2147483648, expected 0 to 4095"),
        ([1] * 700, {}, "max_length, 640"),
        ([1], {"max_new_tokens": 0}, "max_new_tokens is 0"),
        ([1], {"temperature": -1.0}, "temperature is -1"),
        ([1], {"top_p": 0.0}, "top_p is 0"),
        ([1], {"stop": "x"}, "stop is given for ids"),
    ]
    for prompt, options, words in cases:
        with pytest.raises(ValueError, match=words):
            tiny.generate(prompt, **options)
    with pytest.raises(TypeError, match="unknown option 'beams'"):
        tiny.generate([1], beams=3)
    with pytest.raises(TypeError, match="prompt is of type int"):
        tiny.generate(7)  # type: ignore[arg-type]
    with pytest.raises(OSError, match="nowhere"):
        gp.llm.load("nowhere")
    assert tiny.free_tokens == 8 * 640


def test_data_is_small() -> None:
    """Beside the trained Whisper, whose float32 weights are 11.4 MB."""
    sizes = {f: f.stat().st_size for f in DATA.rglob("*") if f.is_file()}
    speech = sum(size for f, size in sizes.items() if "tiny-whisper-words" in f.parts)
    assert speech < 15e6
    assert sum(sizes.values()) - speech < 12e6

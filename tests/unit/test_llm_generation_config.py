"""generation_config.json: values, defaults, fallbacks, and refusals that name the field."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases.tokenizers import MODEL

import pygpukit as gp
from pygpukit.core.errors import InvalidArgument, InvalidTypeError, InvalidValueError
from pygpukit.llm import GenerationConfig
from pygpukit.ops import sampling

LLAMA = {
    "_from_model_config": True,
    "bos_token_id": 128000,
    "do_sample": True,
    "eos_token_id": [128001, 128008, 128009, 128001],
    "temperature": 0.6,
    "top_p": 0.9,
    "max_length": 4096,
    "pad_token_id": None,
    "transformers_version": "4.42.3",
}


def folder(path: Path, **files: object) -> Path:
    for name, content in files.items():
        (path / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    return path


def test_a_published_file(tmp_path: Path) -> None:
    config = GenerationConfig.from_folder(folder(tmp_path, generation_config=LLAMA))
    assert config == GenerationConfig(
        do_sample=True,
        temperature=0.6,
        top_p=0.9,
        max_length=4096,
        eos_token_ids=(128001, 128008, 128009),
        bos_token_id=128000,
    )


def test_defaults_are_those_of_transformers(tmp_path: Path) -> None:
    config = GenerationConfig.from_folder(tmp_path)
    assert config == GenerationConfig()
    assert (config.do_sample, config.top_k, config.eos_token_ids) == (False, 50, ())
    assert GenerationConfig.from_dict({"top_k": None}).top_k == 0, "null switches it off"
    assert GenerationConfig.from_dict({"top_p": None}).top_p == 1.0


def test_the_model_in_tests_data() -> None:
    config = GenerationConfig.from_folder(MODEL)
    assert (config.eos_token_ids, config.bos_token_id, config.pad_token_id) == ((0,), 0, 0)


@pytest.mark.parametrize(
    ("generation", "model", "eos"),
    [
        ({"eos_token_id": 3}, {"eos_token_id": 4}, (3,)),
        ({"eos_token_id": None}, {"eos_token_id": 4}, (4,)),
        ({}, {"eos_token_id": [4, 5]}, (4, 5)),
        ({}, {"text_config": {"eos_token_id": 6}}, (6,)),
        ({}, {"text_config": 6}, ()),
        (None, {"eos_token_id": 7}, (7,)),
        ({"eos_token_id": []}, None, ()),
    ],
)
def test_eos(tmp_path: Path, generation: object, model: object, eos: tuple[int, ...]) -> None:
    files = {"generation_config": generation, "config": model}
    made = folder(tmp_path, **{name: file for name, file in files.items() if file is not None})
    assert GenerationConfig.from_folder(made).eos_token_ids == eos


def test_sampling_arguments_fit_sample() -> None:
    logits = gp.asarray(np.arange(8, dtype=np.float32))
    for config in (GenerationConfig(), GenerationConfig.from_dict(LLAMA)):
        options: dict[str, Any] = config.sampling()
        assert int(sampling.sample(logits, **options, counts=None, seed=1)) in range(8)
    assert GenerationConfig(temperature=0.7).sampling()["temperature"] == 0.0, "greedy"
    assert GenerationConfig(temperature=0.7, do_sample=True).sampling() == {
        "temperature": 0.7,
        "top_k": 50,
        "top_p": 1.0,
        "min_p": 0.0,
        "typical_p": 1.0,
        "repetition_penalty": 1.0,
    }


def test_replace_checks_too() -> None:
    config = dataclasses.replace(GenerationConfig(), temperature=2, stop_strings="END")
    assert (config.temperature, config.stop_strings) == (2.0, ("END",))
    with pytest.raises(InvalidValueError, match=r"GenerationConfig: top_p is 2\.0"):
        dataclasses.replace(config, top_p=2)


MUST_RAISE = [
    ("temperature", -1, InvalidValueError),
    ("temperature", "0.6", InvalidTypeError),
    ("temperature", True, InvalidTypeError),
    ("temperature", float("nan"), InvalidValueError),
    ("temperature", float("inf"), InvalidValueError),
    ("top_k", -1, InvalidValueError),
    ("top_k", 1.5, InvalidTypeError),
    ("top_k", False, InvalidTypeError),
    ("top_k", 2**40, InvalidValueError),
    ("top_p", 1.01, InvalidValueError),
    ("min_p", -0.1, InvalidValueError),
    ("typical_p", [], InvalidTypeError),
    ("repetition_penalty", 0, InvalidValueError),
    ("repetition_penalty", -2.0, InvalidValueError),
    ("do_sample", 1, InvalidTypeError),
    ("max_length", 0, InvalidValueError),
    ("max_new_tokens", "20", InvalidTypeError),
    ("eos_token_id", "</s>", InvalidTypeError),
    ("eos_token_id", [1, -2], InvalidValueError),
    ("eos_token_id", [[1]], InvalidTypeError),
    ("eos_token_id", True, InvalidTypeError),
    ("bos_token_id", -1, InvalidValueError),
    ("pad_token_id", {}, InvalidTypeError),
    ("stop_strings", [""], InvalidValueError),
    ("stop_strings", ["a", 1], InvalidTypeError),
]


@pytest.mark.parametrize(("name", "value", "error"), MUST_RAISE)
def test_refused(tmp_path: Path, name: str, value: object, error: type[InvalidArgument]) -> None:
    with pytest.raises(error, match=f"generation_config.json: {name} "):
        GenerationConfig.from_folder(folder(tmp_path, generation_config={name: value}))


def test_the_file_at_fault_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidTypeError, match=r"^config.json: eos_token_id is str 'x'"):
        GenerationConfig.from_folder(folder(tmp_path, config={"eos_token_id": "x"}))


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"[1]", "generation_config.json: is JSON of type list, expected an object"),
        (b"{", "generation_config.json: is not JSON"),
        (b"", "is not JSON"),
        (b"\xff\xfe\x00", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
    ],
)
def test_files_that_are_no_objects(tmp_path: Path, data: bytes, text: str) -> None:
    (tmp_path / "generation_config.json").write_bytes(data)
    with pytest.raises(InvalidValueError, match=text):
        GenerationConfig.from_folder(tmp_path)

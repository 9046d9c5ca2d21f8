"""Text, sampling and metadata of sections 18.1 and 18.5 of 0.2."""

from __future__ import annotations

import numpy as np
import pytest
from cases import tokenizers as cases

from pygpukit.core.errors import InvalidTypeError, InvalidValueError
from pygpukit.llm import (
    ChatMessage,
    FP8QuantConfig,
    ModelOptimizationInfo,
    PruningConfig,
    QATQuantConfig,
    SparsityConfig,
    Tokenizer,
    apply_chat_template,
    create_chat_prompt,
    format_chat_messages,
    sample_token,
)

CHAT = [
    ChatMessage("system", "Be brief."),
    ChatMessage("user", "One?"),
    ChatMessage("assistant", "Two."),
    ChatMessage("user", "Three?"),
]
CHATML = (
    "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nOne?<|im_end|>\n"
    "<|im_start|>assistant\nTwo.<|im_end|>\n<|im_start|>user\nThree?<|im_end|>\n"
)
FORMATTED = {
    "llama2": "<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\nOne? [/INST] Two. </s>"
    "<s>[INST] Three? [/INST]",
    "mistral": "<s>[INST] Be brief.\n\nOne? [/INST] Two.</s>[INST] Three? [/INST]",
    "llama3": "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
    "<|start_header_id|>user<|end_header_id|>\n\nOne?<|eot_id|>"
    "<|start_header_id|>assistant<|end_header_id|>\n\nTwo.<|eot_id|>"
    "<|start_header_id|>user<|end_header_id|>\n\nThree?<|eot_id|>",
    **dict.fromkeys(("chatml", "qwen", "qwen2", "Qwen3", "unknown"), CHATML),
}
PROMPTS = {
    "llama2": "",
    "mistral": "",
    "llama3": "<|start_header_id|>assistant<|end_header_id|>\n\n",
}


@pytest.mark.parametrize("model_type", FORMATTED)
def test_format_chat_messages(model_type: str) -> None:
    want = FORMATTED[model_type]
    assert format_chat_messages(CHAT, model_type, add_generation_prompt=False) == want
    prompt = PROMPTS.get(model_type, "<|im_start|>assistant\n")
    dicts = [{"role": m.role, "content": m.content} for m in CHAT]
    assert format_chat_messages(dicts, model_type=model_type) == want + prompt


def test_format_chat_messages_by_default() -> None:
    assert format_chat_messages(CHAT) == CHATML + "<|im_start|>assistant\n"
    with pytest.raises(InvalidTypeError, match="messages is of type str"):
        format_chat_messages("hello")  # type: ignore[arg-type]
    with pytest.raises(InvalidTypeError, match=r"messages\[0\] is of type int"):
        format_chat_messages([3])  # type: ignore[list-item]


def test_create_chat_prompt() -> None:
    assert create_chat_prompt("Hi") == [ChatMessage("user", "Hi")]
    assert create_chat_prompt("Hi", system="S", assistant_prefix="A") == [
        ChatMessage("system", "S"),
        ChatMessage("user", "Hi"),
        ChatMessage("assistant", "A"),
    ]


def test_apply_chat_template() -> None:
    own = cases.tokenizer("model")
    alone = Tokenizer(cases.MODEL / "tokenizer.json")  # has no template
    for tokenizer in (own, alone, alone._tokenizer):
        ids = apply_chat_template(CHAT, tokenizer, add_generation_prompt=False)
        assert own.decode(ids, skip_special_tokens=False) == CHATML
    assert own.decode(apply_chat_template(CHAT, own)[-3:]) == "istant\n"
    ids = apply_chat_template(CHAT[1:2], alone, model_type="mistral")
    assert alone.decode(ids) == "<s>[INST] One? [/INST]"


def test_sample_token_is_greedy_at_zero() -> None:
    assert sample_token(np.array([0.0, 3.0, 3.0, -1.0]), temperature=0.0) == 1
    assert sample_token(np.array([[0.0, 1.0]], np.float32), temperature=0) == 1
    assert isinstance(sample_token(np.zeros(4)), int)


@pytest.mark.parametrize(
    ("options", "probabilities"),
    [
        ({}, [0.4, 0.3, 0.2, 0.1]),
        ({"temperature": 0.5}, [16 / 30, 9 / 30, 4 / 30, 1 / 30]),
        ({"top_k": 2}, [4 / 7, 3 / 7, 0, 0]),
        ({"top_k": 9}, [0.4, 0.3, 0.2, 0.1]),
        ({"top_p": 0.69}, [4 / 7, 3 / 7, 0, 0]),
        ({"top_p": 0.71}, [4 / 9, 3 / 9, 2 / 9, 0]),
        ({"top_p": 0.0}, [1, 0, 0, 0]),
        ({"top_k": 3, "top_p": 0.7}, [4 / 7, 3 / 7, 0, 0]),
    ],
)
def test_sample_token_draws(options: dict[str, float], probabilities: list[float]) -> None:
    order = np.array([2, 0, 3, 1])  # not sorted
    logits = np.empty(4)
    logits[order] = np.log([0.4, 0.3, 0.2, 0.1])
    np.random.seed(11)
    count = 4000
    drawn = np.bincount([sample_token(logits, **options) for _ in range(count)], minlength=4)  # type: ignore[arg-type]
    want = np.array(probabilities)
    assert (drawn[order][want == 0] == 0).all()
    assert np.abs(drawn[order] / count - want).max() < 4 * 0.5 / count**0.5
    np.random.seed(11)
    again = [sample_token(logits, **options) for _ in range(50)]  # type: ignore[arg-type]
    np.random.seed(11)
    assert again == [sample_token(logits, **options) for _ in range(50)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("logits", "options", "text"),
    [
        ([1.0], {"temperature": -1.0}, "sample_token: temperature is -1.0"),
        ([1.0], {"top_k": -1}, "sample_token: top_k is -1"),
        ([1.0], {"top_p": 1.5}, "sample_token: top_p is 1.5"),
        ([], {}, "sample_token: logits is empty"),
        ([1.0, np.nan], {}, "has NaN"),
        ([-np.inf], {}, "no finite number"),
    ],
)
def test_sample_token_errors(logits: list[float], options: dict[str, float], text: str) -> None:
    with pytest.raises(InvalidValueError, match=text):
        sample_token(np.array(logits), **options)  # type: ignore[arg-type]


# --- metadata -------------------------------------------------------------------------------------

FP8 = {
    "quantization_config": {
        "quant_method": "fp8",
        "fmt": "e4m3",
        "weight_block_size": [128, 64],
        "modules_to_not_convert": ["lm_head"],
        "activation_scheme": "dynamic",
    }
}
MODELOPT = {
    "producer": {"name": "modelopt", "version": "0.19"},
    "quantization": {"quant_algo": "NVFP4", "group_size": 16, "exclude_modules": ["lm_head"]},
}
SPARSE = {
    "quantization_config": {
        "quant_method": "compressed-tensors",
        "sparsity_config": {
            "format": "sparse-24-bitmask",
            "sparsity_structure": "2:4",
            "global_sparsity": 0.5,
            "targets": ["Linear"],
            "ignore": ["lm_head"],
        },
    }
}


def test_fp8_quant_config() -> None:
    assert FP8QuantConfig.from_config(FP8) == FP8QuantConfig("fp8", "e4m3", (128, 64), ("lm_head",))
    plain = FP8QuantConfig.from_config({"quantization_config": {"quant_method": "fp8"}})
    assert plain == FP8QuantConfig()
    assert plain is not None
    assert plain.weight_block_size == (128, 128)
    for other in ({}, {"quantization_config": {"quant_method": "awq"}}, MODELOPT):
        assert FP8QuantConfig.from_config(other) is None


def test_qat_quant_config() -> None:
    want = QATQuantConfig("modelopt", "NVFP4", "", 16, ("lm_head",))
    assert QATQuantConfig.from_config(MODELOPT) == want
    inside = {"quant_method": "modelopt", "quant_algo": "FP8", "ignore": ["lm_head"]}
    found = QATQuantConfig.from_config({"quantization_config": inside})
    assert found == QATQuantConfig("modelopt", "FP8", "", None, ("lm_head",))
    assert QATQuantConfig.from_config(FP8) is None
    assert QATQuantConfig.from_config({}) is None


def test_pruning_and_sparsity_config() -> None:
    pruned = {"pruning_config": {"method": "magnitude", "ratio": 0.25, "targets": ["mlp"]}}
    assert PruningConfig.from_config(pruned) == PruningConfig("magnitude", 0.25, ("mlp",))
    assert PruningConfig.from_config({}) is None
    sparse = SparsityConfig.from_config(SPARSE)
    assert sparse is not None
    assert (sparse.is_2_4_sparse, sparse.global_sparsity, sparse.ignore) == (
        True,
        0.5,
        ("lm_head",),
    )
    other = SparsityConfig.from_config({"sparsity_config": {"sparsity_structure": "unstructured"}})
    assert other is not None
    assert not other.is_2_4_sparse
    assert SparsityConfig.from_config({}) is None


def test_model_optimization_info() -> None:
    nothing = ModelOptimizationInfo.from_config({"hidden_size": 64})
    assert (nothing.has_any_optimization, nothing.summary()) == (False, "none")
    every = ModelOptimizationInfo.from_config(
        {**FP8, **MODELOPT, "pruning_config": {"ratio": 0.5}, "sparsity_config": {
            "sparsity_structure": "2:4"}}
    )  # fmt: skip
    assert every.has_any_optimization
    assert every.summary() == (
        "FP8 e4m3, blocks of 128 x 64; modelopt NVFP4; pruned by ?, 50%; sparse 2:4"
    )
    assert (every.fp8, every.sparsity) == (
        FP8QuantConfig.from_config(FP8),
        SparsityConfig("2:4"),
    )


@pytest.mark.parametrize(
    ("config", "error", "text"),
    [
        (3, InvalidTypeError, "hf_config is of type int, expected a dict"),
        ({"quantization_config": []}, InvalidTypeError, "quantization_config is of type list"),
        ({"fmt": 8}, InvalidTypeError, "fmt is of type int, expected a string"),
        (
            {"weight_block_size": [128]},
            InvalidValueError,
            r"weight_block_size is \[128\], expected",
        ),
        ({"weight_block_size": [128, 0]}, InvalidValueError, "weight_block_size is 0"),
        ({"weight_block_size": 128}, InvalidValueError, "weight_block_size is 128"),
        ({"modules_to_not_convert": [1]}, InvalidTypeError, "modules_to_not_convert is not a list"),
    ],
)
def test_metadata_errors(config: object, error: type[Exception], text: str) -> None:
    if isinstance(config, dict) and "quantization_config" not in config:
        config = {"quantization_config": {"quant_method": "fp8", **config}}
    with pytest.raises(error, match=text):
        ModelOptimizationInfo.from_config(config)  # type: ignore[arg-type]

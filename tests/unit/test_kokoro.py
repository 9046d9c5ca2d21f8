"""The Kokoro model on CPU simulation: every stage against the kokoro package."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pygpukit as gp
from pygpukit import _native
from pygpukit.tts.kokoro import layers

TINY = Path(__file__).resolve().parents[1] / "data" / "tiny-kokoro"
STAGES = (
    *("bert", "bert_encoder", "duration_encoder", "duration", "text_encoder", "pitch", "energy"),
    *("encode", "decode", "source", "harmonics", "spectrum"),
)
TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def golden() -> dict[str, Any]:
    with np.load(TINY / "golden.npz") as file:
        return dict(file)


@pytest.fixture(scope="module")
def config() -> str:
    return (TINY / "config.json").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def tensors() -> dict[str, Any]:
    return gp.tts.load_kokoro_weights(TINY, "float32")


@pytest.fixture(scope="module")
def style(golden: dict[str, Any]) -> Any:
    voice = gp.tts.load_voice_embedding(TINY / "voices" / "af_test.pt", 8)
    return voice[len(golden["tokens"]) - 3]


@pytest.fixture(scope="module")
def model(config: str, tensors: dict[str, Any]) -> Any:
    return _native.KokoroModel(config, tensors)


def error_of(ours: Any, theirs: Any) -> float:
    """The largest difference, of the largest magnitude."""
    return float(np.abs(ours.reshape(theirs.shape) - theirs).max() / np.abs(theirs).max())


def as_spectrum(harmonics: Any) -> Any:
    """Magnitudes and phases as complex numbers: the phase of nothing is nothing."""
    magnitude, phase = np.split(harmonics.astype("f8"), 2, axis=1)
    return magnitude * np.exp(1j * phase)


def curves_of(golden: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """The package's curves: a rounding error of the pitch grows along the phase."""
    return {name: gp.asarray(golden[prefix + name][0]) for name in ("pitch", "energy")}


def noise_of(golden: dict[str, Any], count: int) -> Any:
    return gp.asarray(golden["noise"][:count].astype("f4"))


def test_every_stage(model: Any, golden: dict[str, Any], style: Any) -> None:
    found: dict[str, Any] = {}
    samples, durations = model.run(
        golden["tokens"].tolist(),
        style,
        noise=noise_of(golden, len(golden["samples"])),
        trace=lambda stage, value: found.update({stage: value.to_numpy()}),
        **curves_of(golden),
    )
    assert durations == golden["durations"].tolist()
    errors = {stage: error_of(found[stage], golden[stage]) for stage in STAGES}
    errors["harmonics"] = error_of(
        as_spectrum(found["harmonics"]), as_spectrum(golden["harmonics"])
    )
    errors["samples"] = error_of(samples.to_numpy(), golden["samples"])
    assert max(errors.values()) < TOLERANCE, errors
    assert samples.shape == golden["samples"].shape
    assert len(samples) == sum(durations) * model.samples_per_frame


def test_another_speed(model: Any, golden: dict[str, Any], style: Any) -> None:
    noise = noise_of(golden, len(golden["slow_samples"]))
    samples, durations = model.run(
        golden["tokens"].tolist(), style, speed=0.7, noise=noise, **curves_of(golden, "slow_")
    )
    assert durations == golden["slow_durations"].tolist()
    assert error_of(samples.to_numpy(), golden["slow_samples"]) < TOLERANCE


@pytest.mark.parametrize(("prefix", "speed"), [("", 1.0), ("slow_", 0.7)])
def test_the_samples_follow_from_phonemes_and_noise(
    model: Any, golden: dict[str, Any], style: Any, prefix: str, speed: float
) -> None:
    """By our own durations and curves: an error of the pitch, 1e-6, grows along the phase."""
    wanted = golden[f"{prefix}samples"]
    samples, durations = model.run(
        golden["tokens"].tolist(), style, speed=speed, noise=noise_of(golden, len(wanted))
    )
    assert durations == golden[f"{prefix}durations"].tolist()
    assert error_of(samples.to_numpy(), wanted) < 1e-3


def test_durations_and_curves_can_be_given(model: Any, golden: dict[str, Any], style: Any) -> None:
    tokens = golden["tokens"].tolist()
    given = [3] * len(tokens)
    flat = gp.zeros(2 * sum(given))
    samples, durations = model.run(tokens, style, durations=given, pitch=flat, energy=flat)
    assert durations == given
    assert len(samples) == sum(given) * model.samples_per_frame


def test_noise_is_drawn_by_seed(model: Any, golden: dict[str, Any], style: Any) -> None:
    tokens = golden["tokens"].tolist()
    first, again, other = (model.run(tokens, style, seed=seed)[0].to_numpy() for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 1e-4
    assert np.isfinite(first).all()


def test_the_decoder_in_16_bits(
    config: str, tensors: dict[str, Any], golden: dict[str, Any], style: Any
) -> None:
    """Durations and pitch do not depend on the dtype; the sound is near."""
    noise = noise_of(golden, len(golden["samples"]))
    for dtype, tolerance in (("float16", 0.02), ("bfloat16", 0.15)):
        model = _native.KokoroModel(config, tensors, dtype)
        pitch: list[Any] = []
        samples, durations = model.run(
            golden["tokens"].tolist(),
            style,
            noise=noise,
            trace=lambda stage, value: pitch.append(value) if stage == "pitch" else None,  # noqa: B023
            **curves_of(golden),
        )
        assert model.dtype == dtype
        assert durations == golden["durations"].tolist()
        assert error_of(pitch[0].to_numpy(), golden["pitch"]) < TOLERANCE
        assert samples.dtype == gp.float32
        difference = samples.to_numpy() - golden["samples"]
        assert np.sqrt((difference**2).mean() / (golden["samples"] ** 2).mean()) < tolerance


def test_layers_agree_with_the_package(tensors: dict[str, Any], golden: dict[str, Any]) -> None:
    numbers = gp.tts.KokoroConfig.from_json(TINY / "config.json")
    ids = gp.asarray(golden["tokens"][None])
    bert = layers.build_albert_from_weights(numbers, tensors)
    assert error_of(bert(ids).to_numpy(), golden["bert"]) < TOLERANCE
    text = layers.build_text_encoder_from_weights(numbers, tensors)
    assert error_of(text(ids).to_numpy().swapaxes(1, 2), golden["text_encoder"]) < TOLERANCE
    with pytest.raises(KeyError, match="albert_layers"):
        layers.build_albert_from_weights(numbers, {})
    with pytest.raises(KeyError, match="cnn"):
        layers.build_text_encoder_from_weights(numbers, {})


BAD_RUNS: list[tuple[str, dict[str, Any], type[Exception]]] = [
    ("there are 0 tokens, expected 1 to 64", {"tokens": []}, ValueError),
    ("there are 65 tokens", {"tokens": [1] * 65}, ValueError),
    ("token 1 is 178, expected 0 to 177", {"tokens": [0, 178]}, ValueError),
    ("token 0 is -1", {"tokens": [-1]}, ValueError),
    (r"style is float32 of shape \(3,\)", {"style": np.zeros(3, "f4")}, ValueError),
    ("style is float64", {"style": np.zeros(16)}, ValueError),
    ("speed is 0", {"speed": 0.0}, ValueError),
    ("speed is nan", {"speed": float("nan")}, ValueError),
    ("at speed 1e-07 token 0 would end", {"speed": 1e-7}, ValueError),
    ("there are 2 durations, expected 3", {"durations": [1, 1]}, ValueError),
    ("a duration below 1", {"durations": [1, 0, 1]}, ValueError),
    ("more than 1048576 frames", {"durations": [1, 2**20, 1]}, ValueError),
    (r"pitch is float32 of shape \(2,\)", {"pitch": np.zeros(2, "f4")}, ValueError),
    ("energy is float64", {"energy": np.zeros(6)}, ValueError),
    ("noise has shape", {"noise": np.zeros((2, 9), "f4")}, ValueError),
    ("noise is float64", {"noise": np.zeros((2, 9))}, ValueError),
]


@pytest.mark.parametrize(("message", "changes", "kind"), BAD_RUNS)
def test_bad_arguments(
    model: Any, style: Any, message: str, changes: dict[str, Any], kind: type[Exception]
) -> None:
    arguments: dict[str, Any] = {"tokens": [0, 5, 0], "style": style} | {
        name: gp.asarray(value) if isinstance(value, np.ndarray) else value
        for name, value in changes.items()
    }
    with pytest.raises(kind, match=message):
        model.run(arguments.pop("tokens"), arguments.pop("style"), **arguments)


def test_arguments_of_other_types(model: Any, config: str, style: Any) -> None:
    with pytest.raises(TypeError, match="style"):
        model.run([0, 1, 0], [0.0] * 16)
    with pytest.raises(TypeError, match="noise"):
        model.run([0, 1, 0], style, noise=3)
    with pytest.raises(TypeError, match=r"tensors\['a'\]"):
        _native.KokoroModel(config, {"a": 1})


def test_checkpoints_that_are_refused(config: str, tensors: dict[str, Any]) -> None:
    def refused(message: str, changes: dict[str, Any], dtype: str = "float32") -> None:
        changed = {**tensors, **changes}
        with pytest.raises(gp.InvalidArgument, match=message):
            _native.KokoroModel(
                config, {name: x for name, x in changed.items() if x is not None}, dtype
            )

    refused("has no tensor 'bert_encoder.weight'", {"bert_encoder.weight": None})
    refused(
        r"'bert_encoder.weight' has shape \(2,\), expected \(16, 24\)",
        {"bert_encoder.weight": gp.zeros(2)},
    )
    refused("has dtype int64", {"bert_encoder.bias": gp.zeros(16, dtype="int64")})
    refused("is there twice", {"bert.module.encoder.x": gp.zeros(1), "bert.encoder.x": gp.zeros(1)})
    refused("dtype is float64, expected float32", {}, "float64")
    with pytest.raises(ValueError, match="there are no tensors"):
        _native.KokoroModel(config, {})


def test_configs_that_are_refused(config: str, tensors: dict[str, Any]) -> None:
    values = json.loads(config)

    def refused(message: str, changes: dict[str, Any]) -> None:
        with pytest.raises(ValueError, match=f"kokoro: config.json: .*{message}"):
            _native.KokoroModel(json.dumps({**values, **changes}), tensors)

    net, bert = values["istftnet"], values["plbert"]
    refused("n_token is 0", {"n_token": 0})
    refused("n_token is a string", {"n_token": "x"})
    refused("hidden_dim is 15, expected an even", {"hidden_dim": 15})
    refused("text_encoder_kernel_size is 4", {"text_encoder_kernel_size": 4})
    refused("plbert is an array", {"plbert": []})
    refused("expected a multiple of 5", {"plbert": {**bert, "num_attention_heads": 5}})
    refused("expected a multiple of 3, the groups", {"plbert": {**bert, "num_hidden_groups": 3}})
    refused("layer_norm_eps", {"plbert": {**bert, "layer_norm_eps": 2}})
    refused("as many of both", {"istftnet": {**net, "upsample_rates": [4]}})
    refused("the rate plus an even", {"istftnet": {**net, "upsample_kernel_sizes": [8, 8]}})
    refused("multiple of 4", {"istftnet": {**net, "upsample_initial_channel": 18}})
    refused("as many of both", {"istftnet": {**net, "resblock_kernel_sizes": [3]}})
    refused("expected odd", {"istftnet": {**net, "resblock_kernel_sizes": [3, 4]}})
    refused("gen_istft_n_fft is 21", {"istftnet": {**net, "gen_istft_n_fft": 21}})
    refused("array of arrays", {"istftnet": {**net, "resblock_dilation_sizes": 3}})
    with pytest.raises(ValueError, match="line 1"):
        _native.KokoroModel("{", tensors)

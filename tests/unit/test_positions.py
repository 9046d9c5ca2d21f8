"""Position encodings: tables by their published formulas, and 0.2's functions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import pygpukit as gp
from pygpukit.ops import nn


def plain(dim: int, base: float = 10000.0) -> Any:
    return base ** -(np.arange(0, dim, 2) / dim)


def test_default_table() -> None:
    cos, sin = nn.rope_table(50, 16, 5e5)
    angles = np.arange(50)[:, None] * plain(16, 5e5)
    assert cos.shape == sin.shape == (50, 8)
    np.testing.assert_allclose(cos.to_numpy(), np.cos(angles), atol=1e-6)
    np.testing.assert_allclose(sin.to_numpy(), np.sin(angles), atol=1e-6)
    assert nn.rope_table(3, 8, dtype="bfloat16")[0].dtype.name == "bfloat16"


def frequencies(dim: int, scaling: dict[str, Any], **options: Any) -> tuple[Any, float]:
    found, factor = nn.rope_frequencies(dim, scaling=scaling, **options)
    return found.to_numpy().astype(np.float64), factor


def test_linear_and_ntk() -> None:
    found, factor = frequencies(64, {"rope_type": "linear", "factor": 4.0})
    np.testing.assert_allclose(found, plain(64) / 4, rtol=1e-6)
    assert factor == 1
    found, _ = frequencies(64, {"type": "ntk", "factor": 4.0})
    np.testing.assert_allclose(found, plain(64, 10000 * 4 ** (64 / 62)), rtol=1e-6)


def test_dynamic_grows_with_the_length() -> None:
    scaling = {"type": "dynamic", "factor": 2.0, "original_max_position_embeddings": 100}
    np.testing.assert_allclose(frequencies(32, scaling)[0], plain(32), rtol=1e-6)
    found, _ = frequencies(32, scaling, max_positions=300)
    np.testing.assert_allclose(found, plain(32, 10000 * 5 ** (32 / 30)), rtol=1e-6)


def test_llama3() -> None:
    scaling = {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    found, _ = frequencies(128, scaling, base=5e5)
    for ours, freq in zip(found, plain(128, 5e5), strict=True):
        length = 2 * math.pi / freq
        if length < 8192 / 4:
            want = freq
        elif length > 8192:
            want = freq / 8
        else:
            smooth = (8192 / length - 1) / 3
            want = (1 - smooth) * freq / 8 + smooth * freq
        assert ours == pytest.approx(want, rel=1e-6)


def test_yarn() -> None:
    scaling = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096}
    found, factor = frequencies(64, scaling)
    assert factor == pytest.approx(0.1 * math.log(4) + 1)
    np.testing.assert_allclose(found[0], 1.0)  # the fastest pair is left alone
    np.testing.assert_allclose(found[-1], plain(64)[-1] / 4, rtol=1e-6)
    assert (found <= plain(64) * 1.000001).all()
    assert (found >= plain(64) / 4.000001).all()
    assert frequencies(64, {**scaling, "attention_factor": 1.25})[1] == 1.25
    both = {**scaling, "mscale": 1.0, "mscale_all_dim": 0.5}
    want = (0.1 * math.log(4) + 1) / (0.05 * math.log(4) + 1)
    assert frequencies(64, both)[1] == pytest.approx(want)


@pytest.mark.parametrize("truncate", [True, False])
def test_yarn_ramp(truncate: bool) -> None:
    """gpt-oss does not round the pairs between which angles are mixed."""
    dim, base, factor, trained = 64, 150000.0, 32.0, 4096
    scaling = {"rope_type": "yarn", "factor": factor, "original_max_position_embeddings": trained}
    found, _ = frequencies(dim, {**scaling, "truncate": truncate}, base=base)
    low, high = (
        dim * math.log(trained / (turns * 2 * math.pi)) / (2 * math.log(base)) for turns in (32, 1)
    )
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    ramp = np.clip((np.arange(dim // 2) - low) / (high - low), 0, 1)
    want = plain(dim, base) / factor * ramp + plain(dim, base) * (1 - ramp)
    np.testing.assert_allclose(found, want, rtol=1e-6)


LONGROPE = {
    "type": "longrope",
    "short_factor": [1.0, 2.0],
    "long_factor": [4.0, 8.0],
    "original_max_position_embeddings": 128,
    "factor": 32.0,  # max_position_embeddings is 4096
}


@pytest.mark.parametrize("kind", ["longrope", "su"])
@pytest.mark.parametrize(("length", "pairs"), [(128, [1, 2]), (512, [4, 8])])
def test_longrope_takes_the_factors_of_the_length(kind: str, length: int, pairs: Any) -> None:
    found, factor = frequencies(4, {**LONGROPE, "type": kind}, max_positions=length)
    np.testing.assert_allclose(found, plain(4) / pairs, rtol=1e-6)
    assert factor == pytest.approx(math.sqrt(1 + math.log(32) / math.log(128)))


def test_longrope_factor() -> None:
    assert frequencies(4, {**LONGROPE, "attention_factor": 1.5})[1] == 1.5
    assert frequencies(4, {**LONGROPE, "factor": 1.0})[1] == 1
    with pytest.raises(
        ValueError, match=r"^rope_frequencies: factor of the longrope .* is missing"
    ):
        frequencies(4, {**LONGROPE, "factor": None})
    with pytest.raises(
        ValueError, match="long_factor of the longrope scaling has 2 numbers, expected 4"
    ):
        frequencies(8, LONGROPE, max_positions=512)


def test_tables_of_0_2() -> None:
    for init in (nn.rope_init_linear, nn.rope_init_ntk_aware):
        cos, sin = (table.to_numpy() for table in init(20, 16, scale=2.0))
        assert cos.shape == (20, 16)
        np.testing.assert_array_equal(cos[:, ::2], cos[:, 1::2])
        np.testing.assert_allclose(cos**2 + sin**2, 1, atol=1e-6)
        assert (cos != init(20, 16)[0].to_numpy()).any()
    yarn = nn.rope_init_yarn(20, 16, scale=4.0)[0].to_numpy()
    assert (yarn != nn.rope_init_linear(20, 16, scale=4.0)[0].to_numpy()).any()
    assert yarn[0, 0] == pytest.approx(0.1 * math.log(4) + 1)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_rope_inplace(dtype: str) -> None:
    rng = np.random.default_rng(0)
    q, k = (rng.normal(size=(5, heads, 8)).astype(dtype) for heads in (4, 2))
    cos, sin = (rng.uniform(-1, 1, (5, 8)).astype(np.float32) for _ in range(2))
    ours = [gp.from_numpy(x) for x in (q, k)]
    function = nn.rope_inplace if dtype == "float32" else nn.rope_inplace_f32table
    function(*ours, gp.from_numpy(cos), gp.from_numpy(sin))
    for x, got in zip((q, k), ours, strict=True):
        a, b = x[..., :4].astype(np.float32), x[..., 4:].astype(np.float32)
        c, s = cos[:, None, :4], sin[:, None, :4]
        want = np.concatenate([a * c - b * s, b * c + a * s], -1)
        np.testing.assert_allclose(
            got.to_numpy().astype(np.float32), want, atol=1e-6 if dtype == "float32" else 2e-2
        )


def test_rope_inplace_refuses() -> None:
    q, table = gp.ones((5, 2, 8)), gp.ones((4, 8))
    with pytest.raises(ValueError, match=r"rope_inplace: q has shape \(5, 2, 8\), cos \(4, 8\)"):
        nn.rope_inplace(q, q, table, table)


def test_pope() -> None:
    table = nn.pope_init_encoding(6, 4)
    np.testing.assert_allclose(table.to_numpy()[0], [0, 1, 0, 1])
    np.testing.assert_allclose(table.to_numpy()[2, :2], [math.sin(2), math.cos(2)], rtol=1e-6)
    q, k = gp.zeros((2, 3, 4)), gp.ones((2, 1, 4))
    nn.pope_inplace(q, k, table, start_pos=4)
    np.testing.assert_array_equal(q.to_numpy()[:, 2], table.to_numpy()[4:])
    np.testing.assert_array_equal(k.to_numpy()[:, 0], table.to_numpy()[4:] + 1)
    with pytest.raises(ValueError, match="positions 5 to 7, the encoding has 6"):
        nn.pope_inplace(q, k, table, start_pos=5)


def test_alibi() -> None:
    slopes = nn.alibi_init_slopes(8)
    np.testing.assert_allclose(slopes.to_numpy(), 2.0 ** -np.arange(1, 9))
    bias = nn.alibi_compute_bias(5, 8, slopes).to_numpy()
    full = nn.alibi_compute_bias(5, 8, slopes, causal=False).to_numpy()
    scores = gp.zeros((2, 8, 3, 5))
    nn.alibi_add_bias(scores, slopes, start_pos=2)
    for h, i, j in np.ndindex(8, 5, 5):
        want = -(2.0 ** -(h + 1)) * (i - j)
        assert full[h, i, j] == pytest.approx(want)
        assert bias[h, i, j] == pytest.approx(want if j <= i else -1e9)
    np.testing.assert_allclose(scores.to_numpy()[1], full[:, 2:])
    with pytest.raises(ValueError, match=r"slopes has shape \(8,\), expected \(4,\)"):
        nn.alibi_compute_bias(5, 4, slopes)
    for heads in (1, 6, 32, 112):
        want = (2.0 ** (-8 * np.arange(1, heads + 1) / heads)).astype(np.float32)
        np.testing.assert_array_equal(nn.alibi_init_slopes(heads).to_numpy(), want)
    with pytest.raises(ValueError, match="alibi_add_bias"):
        nn.alibi_add_bias(gp.zeros((3, 5)), slopes)


def test_irope_scale_q() -> None:
    q, positions = np.ones((3, 2, 4), np.float32), np.array([0, 8191, 30000])
    got = nn.irope_scale_q(gp.from_numpy(q), gp.from_numpy(positions)).to_numpy()
    want = np.log1p(np.floor((positions + 1) / 8192)) * 0.1 + 1
    np.testing.assert_allclose(got, np.broadcast_to(want[:, None, None], q.shape), rtol=1e-6)
    with pytest.raises(TypeError, match="positions has dtype float32"):
        nn.irope_scale_q(gp.from_numpy(q), gp.ones(3))


def test_small_functions_of_0_2() -> None:
    y = gp.zeros((2, 3))
    nn.bias_add_inplace(y, gp.from_numpy(np.arange(3, dtype=np.float32)))
    np.testing.assert_array_equal(y.to_numpy(), [[0, 1, 2]] * 2)
    with pytest.raises(ValueError, match="bias_add_inplace"):
        nn.bias_add_inplace(y, gp.ones(2))
    host = np.arange(24, dtype=np.float32).reshape(2, 12)
    outs = [gp.empty((2, n)) for n in (6, 4, 2)]
    nn.split_qkv_batch(gp.from_numpy(host), *outs, 6, 4, 2)
    np.testing.assert_array_equal(np.concatenate([o.to_numpy() for o in outs], 1), host)
    with pytest.raises(ValueError, match="split_qkv_batch: qkv has shape"):
        nn.split_qkv_batch(gp.from_numpy(host), *outs, 6, 4, 4)
    out = gp.empty((2, 12))
    table = gp.from_numpy(np.arange(60, dtype=np.float32).reshape(5, 12))
    nn.slice_rows_range_ptr(table, out, gp.from_numpy(np.array([3], np.int32)), 2)
    np.testing.assert_array_equal(out.to_numpy(), table.to_numpy()[3:])
    with pytest.raises(ValueError, match="slice_rows_range_ptr: out has shape"):
        nn.slice_rows_range_ptr(table, out, gp.zeros(1, "int32"), 3)


@pytest.mark.parametrize(
    ("dim", "scaling", "words"),
    [
        (2**40, {}, "dim is 1099511627776, expected an even number from 2 to 65536"),
        (8, {"rope_type": 3}, "rope_type is '3'"),
        (8, {"type": "linear", "factor": "4"}, "factor of the scaling is '4', expected a number"),
        (8, {"type": "linear", "factor": -1}, "factor of the scaling is -1, expected a number abo"),
        (8, {"type": "linear", "factor": math.nan}, "factor of the scaling is nan"),
        (8, {"type": "linear", "factor": 10**400}, "factor of the scaling is 1000"),
        (8, {"type": "yarn", "truncate": 0}, "truncate of the scaling is 0, expected True or"),
        (8, {"type": "longrope", "short_factor": 2}, "short_factor of the scaling is 2"),
        (8, {"type": "longrope", "short_factor": [None]}, "short_factor of the scaling is None"),
        (
            8,
            {"type": "yarn", "factor": 2.0},
            "original_max_position_embeddings of the yarn .* miss",
        ),
    ],
)
def test_bad_scalings(dim: int, scaling: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=f"^rope_frequencies: .*{words}"):
        nn.rope_frequencies(dim, scaling=scaling)

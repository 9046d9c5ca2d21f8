"""The nn family on CPU simulation: case tables, out=, special values."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from cases.must_raise import run_must_raise
from cases.nn import CASES, DTYPES, MUST_RAISE, Case, MustRaise
from cases.nn_fuzz import count, run_rows
from cases.run_nn import run_case, run_fp8, run_out

import pygpukit as gp
from pygpukit.ops import nn


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    run_case(case)


@pytest.mark.parametrize("case", MUST_RAISE, ids=str)
def test_must_raise(case: MustRaise) -> None:
    run_must_raise(case)


@pytest.mark.parametrize("number", range(count(40)))
def test_fuzz(number: int) -> None:
    run_rows(number)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(8,), (3, 64), (2, 2, 100)])
def test_rmsnorm_fp8(shape: tuple[int, ...], dtype: str) -> None:
    run_fp8(shape, dtype)


def test_rmsnorm_fp8_of_zeros() -> None:
    values, scales = nn.rmsnorm_fp8(gp.zeros((2, 16)))
    assert not values.to_numpy().astype(np.float32).any()
    np.testing.assert_array_equal(scales.to_numpy(), 1)


def test_out() -> None:
    run_out()


def test_softmax_of_rows_without_an_element() -> None:
    x = gp.ones((2, 3))
    mask = gp.from_numpy(np.array([[False] * 3, [True, False, True]]))
    np.testing.assert_array_equal(nn.softmax(x, mask=mask).to_numpy(), [[0, 0, 0], [0.5, 0, 0.5]])
    low = nn.log_softmax(x, mask=mask).to_numpy()
    assert np.isneginf(low[0]).all()
    assert np.isneginf(low[1, 1])
    np.testing.assert_allclose(low[1, [0, 2]], np.log(0.5), rtol=1e-6)


def test_softmax_of_special_values() -> None:
    host = np.array([[0.0, np.nan], [-np.inf, 1.0], [-np.inf, -np.inf], [1e30, -1e30]], np.float32)
    got = nn.softmax(gp.from_numpy(host)).to_numpy()
    assert np.isnan(got[0]).all()
    np.testing.assert_array_equal(got[1:], [[0, 1], [0, 0], [1, 0]])


def test_the_module_has_what_the_page_lists() -> None:
    page = (Path(__file__).parents[2] / "docs" / "nn.md").read_text(encoding="utf-8")
    activations = page.partition("## Activations\n")[2].partition("```")[0]
    table = "".join(re.findall(r"^\| (`.*?) \|", page, re.MULTILINE))  # of norms
    names = re.findall(r"`(\w+)(?:\(.*?\))?`", activations + table)
    assert {"gelu", "leaky_relu", "geglu", "rmsnorm", "add_layernorm", "adain"} <= set(names)
    assert set(names) <= set(nn.__all__)
    assert len(nn.__all__) == len(set(nn.__all__))


def test_cross_entropy() -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(4, 9)).astype(np.float32)
    targets = np.array([3, -100, 0, 8])
    losses = -np.log(np.exp(logits) / np.exp(logits).sum(-1, keepdims=True))
    want = np.array([losses[0, 3], 0, losses[2, 0], losses[3, 8]])
    x, t = gp.from_numpy(logits), gp.from_numpy(targets)
    np.testing.assert_allclose(nn.cross_entropy(x, t, reduction="none").to_numpy(), want, rtol=1e-5)
    assert float(nn.cross_entropy(x, t, reduction="sum")) == pytest.approx(want.sum(), rel=1e-5)
    assert float(nn.cross_entropy(x, t)) == pytest.approx(want.sum() / 3, rel=1e-5)
    for reduction, shape in (("none", (4,)), ("sum", ()), ("mean", ())):
        out = gp.empty(shape)
        assert nn.cross_entropy(x, t, reduction=reduction, out=out) is out
        same = nn.cross_entropy(x, t, reduction=reduction).to_numpy()
        np.testing.assert_array_equal(out.to_numpy(), same)


def test_rmsnorm_residual() -> None:
    rng = np.random.default_rng(1)
    x, residual = (gp.from_numpy(rng.normal(size=(3, 8)).astype(np.float32)) for _ in range(2))
    gamma = gp.ones(8)
    want = nn.add_rmsnorm(x, residual, gamma)[0].to_numpy()
    np.testing.assert_array_equal(nn.rmsnorm_residual(x, residual, gamma).to_numpy(), want)
    out = gp.empty((3, 8))
    assert nn.rmsnorm_residual(x, residual, gamma, out=out) is out


@pytest.mark.parametrize("name", ["swiglu", "geglu"])
def test_gated_activations(name: str) -> None:
    rng = np.random.default_rng(2)
    gate, up = rng.normal(size=(2, 3, 8)).astype(np.float32)
    function, activation = getattr(nn, name), nn.silu if name == "swiglu" else nn.gelu
    want = activation(gp.from_numpy(gate)).to_numpy() * up
    pair = function(gp.from_numpy(gate), gp.from_numpy(up))
    np.testing.assert_allclose(pair.to_numpy(), want, rtol=1e-6, atol=1e-7)
    both = gp.from_numpy(np.concatenate([gate, up], -1))
    out = gp.empty((3, 8))
    assert function(both, out=out) is out
    np.testing.assert_array_equal(out.to_numpy(), pair.to_numpy())
    with pytest.raises(ValueError, match=rf"{name}: gate has shape \(3, 7\)"):
        function(both[:, :7])


def test_activations_of_the_module() -> None:
    for name in ("gelu", "gelu_erf", "silu", "sigmoid", "tanh", "relu", "relu2", "quick_gelu"):
        assert getattr(nn, name) is getattr(gp, name)
    assert nn.leaky_relu(gp.full(1, -2.0), 0.5).to_numpy() == -1
    assert nn.softplus(gp.zeros(1)).to_numpy() == pytest.approx(np.log(2))
    assert nn.snake(gp.ones(1), 2.0).to_numpy() == pytest.approx(1 + np.sin(2) ** 2 / 2)

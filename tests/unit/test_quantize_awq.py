"""quantize_awq: less error than plain rounding on samples it has not seen; errors."""

from __future__ import annotations

import numpy as np
import pytest
from cases import quantize_awq

import pygpukit as gp


@pytest.mark.parametrize("case", quantize_awq.CASES, ids=str)
def test_held_out_error(case: quantize_awq.Layer) -> None:
    quantize_awq.run(case)


def test_never_worse_on_its_samples() -> None:
    """Channels of one size: nothing to gain, and alpha = 0 is plain rounding."""
    rng = np.random.default_rng(5)
    w = gp.from_numpy(rng.standard_normal((16, 128)).astype(np.float32))
    x = gp.from_numpy(rng.standard_normal((2, 20, 128)).astype(np.float32))
    found = gp.quantize_awq(w, x, "int8", steps=5)
    assert len(found.errors) == 6
    plain = gp.quantize(w, "int8")
    error = gp.linear(x, plain.dequantize() - w).to_numpy()
    assert found.errors[0] == pytest.approx(np.mean(error**2), rel=1e-4)
    assert min(found.errors) <= found.errors[0]
    still = gp.quantize_awq(w, gp.ones((3, 128)), "int8")
    assert still.alpha == 0
    assert (still.input_scale.to_numpy() == 1).all()
    assert (still.weight.values == plain.values).all()


def test_channels_without_activations() -> None:
    """A channel that is always 0 does not decide the others' scales; all zeros are rounded."""
    rng = np.random.default_rng(6)
    w = gp.from_numpy(rng.standard_normal((16, 128)).astype(np.float32))
    x = quantize_awq.tokens(rng, 32, 128)
    x[:, 5] = 0
    found = gp.quantize_awq(w, gp.from_numpy(x))
    scale = found.input_scale.to_numpy()
    assert np.isfinite(scale).all()
    assert (scale > 0).all()
    assert gp.quantize_awq(w, gp.zeros((4, 128))).alpha == 0


def test_folded_into_a_norm() -> None:
    rng = np.random.default_rng(7)
    w = gp.from_numpy(rng.standard_normal((24, 128)).astype(np.float32))
    gain = gp.from_numpy(np.where(np.arange(128) % 16 == 2, 40.0, 1.0).astype(np.float32))
    x = gp.from_numpy(rng.standard_normal((40, 128)).astype(np.float32))
    found = gp.quantize_awq(w, gp.rmsnorm(x, gain))
    apart = gp.linear(gp.rmsnorm(x, gain) * found.input_scale, found.weight)
    folded = gp.linear(gp.rmsnorm(x, gain * found.input_scale), found.weight)
    np.testing.assert_allclose(folded.to_numpy(), apart.to_numpy(), rtol=1e-4, atol=1e-4)


def test_errors() -> None:
    w, x = gp.ones((8, 64)), gp.ones((3, 64))
    with pytest.raises(TypeError, match="quantize_awq: activations is of type list"):
        gp.quantize_awq(w, [1.0] * 64)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="quantize_awq: w has dtype float64, expected float16"):
        gp.quantize_awq(w.astype("float64"), x)
    with pytest.raises(TypeError, match="quantize_awq: activations has dtype int32"):
        gp.quantize_awq(w, x.astype("int32"))
    with pytest.raises(ValueError, match=r"quantize_awq: w has shape \(2, 8, 64\), expected"):
        gp.quantize_awq(gp.ones((2, 8, 64)), x)
    with pytest.raises(ValueError, match=r"activations has shape \(3, 63\), w has shape \(8, 64\)"):
        gp.quantize_awq(w, x[:, :63])
    with pytest.raises(ValueError, match=r"activations has shape \(0, 64\)"):
        gp.quantize_awq(w, x[:0])
    with pytest.raises(ValueError, match="quantize_awq: activations has infinities or NaN"):
        gp.quantize_awq(w, x * float("nan"))
    with pytest.raises(ValueError, match="quantize_awq: steps is 0, expected 1 to 1000"):
        gp.quantize_awq(w, x, steps=0)
    with pytest.raises(ValueError, match="quantize_awq: format is 'int3', expected 'int8'"):
        gp.quantize_awq(w, x, "int3")
    with pytest.raises(ValueError, match="quantize_awq: group is 48, int4 takes 32"):
        gp.quantize_awq(w, x, group=48)
    with pytest.raises(TypeError, match="quantize_awq: format is 4, expected a str"):
        gp.quantize_awq(w, x, 4)  # type: ignore[arg-type]

"""Packed weights on CPU simulation: case tables, layouts, files, linear layers, errors."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from cases import quantize as cases
from cases.run_quantize import (
    host,
    run_grouped,
    run_grouped_without_an_expert,
    run_linear,
    run_must_raise,
    run_round_trip,
    run_swiglu,
)

import pygpukit as gp


@pytest.mark.parametrize("shape", cases.SHAPES, ids=str)
@pytest.mark.parametrize("fmt", cases.FORMATS, ids=str)
def test_round_trip(fmt: cases.Format, shape: tuple[int, int]) -> None:
    run_round_trip(fmt, shape, "float32")


@pytest.mark.parametrize("dtype", cases.DTYPES)
@pytest.mark.parametrize("fmt", cases.FORMATS, ids=str)
def test_linear(fmt: cases.Format, dtype: str) -> None:
    run_linear(fmt, 3, (20, 136), dtype)


@pytest.mark.parametrize("fmt", cases.FORMATS, ids=str)
def test_swiglu(fmt: cases.Format) -> None:
    run_swiglu(fmt, "bfloat16")


@pytest.mark.parametrize("sizes", cases.GROUP_SIZES, ids=str)
@pytest.mark.parametrize("fmt", [fmt for fmt in cases.FORMATS if not fmt.block], ids=str)
def test_grouped(fmt: cases.Format, sizes: tuple[int, ...]) -> None:
    for dtype in cases.DTYPES:
        run_grouped(fmt, sizes, (20, 136), dtype)


@pytest.mark.parametrize("m", [6, 70])
def test_grouped_rows_without_an_expert(m: int) -> None:
    run_grouped_without_an_expert(cases.Format("int4", 32), m, "float32")


def test_grouped_errors() -> None:
    x, packed = gp.ones((2, 64)), gp.quantize(gp.ones((3, 8, 64)), "int8")
    sizes = gp.from_numpy(np.array([1, 1, 0], np.int32))
    with pytest.raises(TypeError, match="grouped_gemm: w is 3, expected a GPUArray or a Packed"):
        gp.grouped_gemm(x, 3, sizes)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="grouped_gemm: x has dtype int32, packed weights take"):
        gp.grouped_gemm(x.astype("int32"), packed, sizes)
    with pytest.raises(ValueError, match=r"x has shape \(2, 64\), w has shape \(8, 64\), expected"):
        gp.grouped_gemm(x, gp.quantize(gp.ones((8, 64)), "int8"), sizes)
    with pytest.raises(ValueError, match=r"group_sizes has shape \(2,\), expected \(3,\)"):
        gp.grouped_gemm(x, packed, sizes[:2])
    with pytest.raises(ValueError, match="group_sizes add up to 1, x has 2 rows"):
        gp.grouped_gemm(x, packed, [1, 0, 0])
    with pytest.raises(ValueError, match=r"expert_ids has shape \(3,\), expected \(2,\)"):
        gp.grouped_gemm(x, packed, expert_ids=sizes)


@pytest.mark.parametrize(("name", "options", "message"), cases.MUST_RAISE)
def test_must_raise(name: str, options: dict[str, Any], message: str) -> None:
    run_must_raise(name, options, message)


def test_refuses_other_weights() -> None:
    with pytest.raises(TypeError, match="quantize: w has dtype int32, expected float16"):
        gp.quantize(gp.ones((4, 64), dtype="int32"), "int4")
    with pytest.raises(ValueError, match=r"quantize: w has shape \(64,\), expected \(n, k\)"):
        gp.quantize(gp.ones(64), "int4")
    with pytest.raises(ValueError, match=r"expected \(n, k\)"):
        gp.quantize(gp.ones((2, 4, 64)), "fp8", block=True)


def test_low_nibble_first() -> None:
    w = np.zeros((1, 32), np.float32)
    w[0, :4] = (7, -7, 3, -1)
    packed = gp.quantize(gp.from_numpy(w), "int4", group=32)
    values = packed.values.to_numpy()
    assert values.shape == (1, 16)
    assert values[0, :3].tolist() == [0x97, 0xF3, 0]
    np.testing.assert_array_equal(packed.scales.to_numpy(), [[1.0]])


def test_rows_are_padded_to_16_bytes() -> None:
    packed = gp.quantize(gp.ones((3, 33)), "int8")
    assert packed.values.shape == (3, 48)
    np.testing.assert_array_equal(packed.values.to_numpy()[:, 33:], 0)


def test_scales_are_those_of_the_formats() -> None:
    w = np.linspace(-3, 5, 256, dtype=np.float32).reshape(2, 128)
    x = gp.from_numpy(w)
    np.testing.assert_array_equal(
        gp.quantize(x, "fp8").scales.to_numpy()[:, 0], np.abs(w).max(1) / np.float32(448)
    )
    mx = gp.quantize(x, "mxfp4").scales.to_numpy()
    amax = np.abs(w).reshape(2, 4, 32).max(-1)
    np.testing.assert_array_equal(mx, np.floor(np.log2(amax)).astype(int) - 2 + 127)
    nv = gp.quantize(x, "nvfp4")
    whole = np.float32(5) / np.float32(448 * 6)
    np.testing.assert_array_equal(nv.tensor_scale.to_numpy(), [whole])
    want = (np.abs(w).reshape(2, 8, 16).max(-1) / np.float32(6) / whole).astype(
        ml_dtypes.float8_e4m3fn
    )
    np.testing.assert_array_equal(nv.scales.to_numpy().astype(np.float32), want.astype(np.float32))
    blocks = gp.quantize(gp.ones((130, 257)), "fp8", block=True)
    assert blocks.scales.shape == (2, 3)


def test_zero_points() -> None:
    w = np.tile(np.arange(16, dtype=np.float32) - 4, (2, 2))
    packed = gp.quantize(gp.from_numpy(w), "int4", group=32, zero_point=True)
    np.testing.assert_array_equal(packed.zero_points.to_numpy(), [[4], [4]])
    np.testing.assert_array_equal(packed.dequantize().to_numpy(), w)
    assert gp.quantize(gp.ones((2, 32)), "int4").zero_points is None


def test_experts() -> None:
    w = cases.weights((6, 64), "float32")
    stack = gp.quantize(gp.from_numpy(w.reshape(3, 2, 64)), "int4", group=32)
    flat = gp.quantize(gp.from_numpy(w), "int4", group=32)
    assert stack.shape == (3, 2, 64)
    np.testing.assert_array_equal(host(stack.dequantize()).reshape(6, 64), host(flat.dequantize()))
    with pytest.raises(ValueError, match=r"linear: w has shape .*, expected two dimensions"):
        gp.linear(gp.ones((1, 64)), stack)


@pytest.mark.parametrize("fmt", cases.FORMATS, ids=str)
def test_save_and_load(fmt: cases.Format, tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    packed = gp.quantize(
        gp.from_numpy(cases.weights((20, 136), "bfloat16")), fmt.name, **fmt.options
    )
    packed.save(path)
    for loaded in (gp.PackedWeight.load(path), gp.PackedWeight.load(str(path))):
        assert repr(loaded) == repr(packed)
        np.testing.assert_array_equal(host(loaded.dequantize()), host(packed.dequantize()))


@pytest.mark.parametrize("fmt", [*cases.FORMATS, cases.SPARSE], ids=str)
def test_copies_and_pickles(fmt: cases.Format) -> None:
    packed = gp.quantize(
        gp.from_numpy(cases.weights((20, 136), "bfloat16")), fmt.name, **fmt.options
    )
    shallow, deep = copy.copy(packed), copy.deepcopy(packed)
    for same in (shallow, deep, pickle.loads(pickle.dumps(packed))):
        assert repr(same) == repr(packed)
        np.testing.assert_array_equal(host(same.dequantize()), host(packed.dequantize()))
    assert gp.may_share_memory(shallow.values, packed.values)
    assert not gp.may_share_memory(deep.values, packed.values)


def test_files_that_are_missing(tmp_path: Path) -> None:
    missing = tmp_path / "none" / "x.safetensors"
    with pytest.raises(FileNotFoundError, match=r"PackedWeight\.load: "):
        gp.PackedWeight.load(missing)
    with pytest.raises(FileNotFoundError, match=r"PackedWeight\.save: "):
        gp.quantize(gp.ones((4, 64)), "int8").save(missing)
    with pytest.raises(TypeError, match=r"PackedWeight\.load: path is 3, expected a str or a"):
        gp.PackedWeight.load(3)  # type: ignore[arg-type]


def test_load_refuses_other_files(tmp_path: Path) -> None:
    path = str(tmp_path / "x.safetensors")
    gp.llm.save_safetensors(path, {"values": gp.ones((2, 2))})
    with pytest.raises(ValueError, match=r"load: .* has no .*, expected a file that .* wrote"):
        gp.PackedWeight.load(path)


def test_parts_are_checked() -> None:
    good = gp.quantize(gp.ones((4, 64)), "int4", group=32)
    options: dict[str, Any] = {"format": "int4", "group": 32, "shape": (4, 64), "dtype": "float32"}
    same = gp.PackedWeight(good.values, good.scales, **options)
    np.testing.assert_array_equal(host(same.dequantize()), host(good.dequantize()))
    with pytest.raises(ValueError, match=r"PackedWeight: scales has shape \(4, 1\), expected"):
        gp.PackedWeight(good.values, gp.ones((4, 1)), **options)
    with pytest.raises(TypeError, match="PackedWeight: values has dtype float32, expected uint8"):
        gp.PackedWeight(gp.ones((4, 32)), good.scales, **options)
    with pytest.raises(ValueError, match=r"tensor_scale has shape \(1,\), expected None for int4"):
        gp.PackedWeight(good.values, good.scales, tensor_scale=gp.ones(1), **options)
    for shape in ((-4, 64), (0, 64), (64,)):
        with pytest.raises(ValueError, match=r"PackedWeight: shape is .*, expected \(n, k\) or"):
            gp.PackedWeight(good.values, good.scales, **options | {"shape": shape})
    with pytest.raises(TypeError, match="PackedWeight: dtype is int8, expected float16, bfloat16"):
        gp.PackedWeight(good.values, good.scales, **options | {"dtype": "int8"})
    with pytest.raises(TypeError, match="PackedWeight: values is 3, expected a GPUArray"):
        gp.PackedWeight(3, good.scales, **options)  # type: ignore[arg-type]


def test_nbytes_and_repr() -> None:
    packed = gp.quantize(gp.ones((256, 1024), dtype="bfloat16"), "int4")
    assert packed.nbytes == 256 * 512 + 256 * 8 * 4
    assert repr(packed) == (
        "PackedWeight(int4, group 128, shape=(256, 1024), dtype=bfloat16, nbytes=139264, "
        "device=cpu)"
    )


def test_linear_errors() -> None:
    packed = gp.quantize(gp.ones((4, 64)), "int8")
    with pytest.raises(ValueError, match="linear: dimension mismatch: x has shape"):
        gp.linear(gp.ones((2, 32)), packed)
    with pytest.raises(TypeError, match="linear: x has dtype float64, packed weights take"):
        gp.linear(gp.ones((2, 64), dtype="float64"), packed)
    with pytest.raises(ValueError, match=r"linear: bias has shape \(5,\)"):
        gp.linear(gp.ones((2, 64)), packed, gp.ones(5))
    with pytest.raises(ValueError, match="matmul: alpha, dtype and precision are for arrays"):
        gp.matmul(gp.ones((2, 64)), packed.T, alpha=2.0)
    with pytest.raises(TypeError):
        packed @ gp.ones((2, 64))  # type: ignore[operator]


def test_leading_dimensions_and_out() -> None:
    packed = gp.quantize(gp.ones((4, 64)), "int8")
    x = gp.ones((2, 3, 64))
    out = gp.zeros((2, 3, 4))
    assert gp.linear(x, packed, out=out) is out
    np.testing.assert_allclose(out.to_numpy(), 64.0, rtol=1e-6)
    assert gp.linear(gp.ones(64), packed).shape == (4,)
    norm = gp.ones(64)
    np.testing.assert_allclose(
        gp.linear(2 * x, packed, norm=norm, eps=0.0).to_numpy(), 64.0, rtol=1e-5
    )


def test_plan_is_explained() -> None:
    packed = gp.quantize(gp.ones((256, 512), dtype="bfloat16"), "int4")
    text = str(gp.explain_matmul(lambda: gp.linear(gp.ones((1, 512), dtype="bfloat16"), packed)))
    assert "packed(" in text
    assert "b=int4 in pairs" in text
    assert "float32 scale per 128 of k" in text
    text = str(gp.explain_matmul(lambda: gp.linear(gp.ones((4096, 512), dtype="bfloat16"), packed)))
    assert "dequantize(" in text


@pytest.mark.parametrize("name", ["int8", "fp8"])
def test_quantize_input(name: str) -> None:
    w = cases.weights((24, 96), "float32")
    x = cases.weights((5, 96), "float32", 3)
    packed = gp.quantize(gp.from_numpy(w), name)
    rows = gp.quantize(gp.from_numpy(x), name)
    both = host(rows.dequantize()) @ host(packed.dequantize()).T
    bias, residual = gp.ones(24), gp.full((5, 24), 2.0)
    y = gp.linear(gp.from_numpy(x), packed, quantize_input=True)
    np.testing.assert_allclose(host(y), both, rtol=1e-4, atol=1e-4)
    y = gp.linear(gp.from_numpy(x), packed, bias, "relu", residual, quantize_input=True)
    np.testing.assert_allclose(host(y), np.maximum(both + 1, 0) + 2, rtol=1e-4, atol=1e-4)
    y = gp.linear(gp.from_numpy(x), packed, activation="swiglu", quantize_input=True)
    gate, up = np.split(both, 2, axis=-1)
    np.testing.assert_allclose(host(y), gate / (1 + np.exp(-gate)) * up, rtol=1e-3, atol=1e-3)


def test_quantize_input_is_for_eight_bits_per_row() -> None:
    x = gp.ones((2, 64))
    with pytest.raises(ValueError, match="linear: quantize_input is True, w is int4, group 128"):
        gp.linear(x, gp.quantize(gp.ones((4, 64)), "int4"), quantize_input=True)
    with pytest.raises(ValueError, match="linear: quantize_input is True, w is an array"):
        gp.linear(x, gp.ones((4, 64)), quantize_input=True)
    with pytest.raises(ValueError, match="linear: quantize_input goes neither with few_rows"):
        gp.linear(x, gp.quantize(gp.ones((4, 64)), "int8"), quantize_input=True, few_rows=True)

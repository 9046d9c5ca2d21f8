"""2:4 sparse weights on CPU simulation: what is kept, layout, files, linear layers, errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases import quantize as cases
from cases.run_quantize import host, run_linear, run_sparse_round_trip, run_swiglu

import pygpukit as gp


@pytest.mark.parametrize("dtype", cases.SPARSE_DTYPES)
@pytest.mark.parametrize("shape", cases.SPARSE_SHAPES, ids=str)
def test_round_trip(shape: tuple[int, int], dtype: str) -> None:
    run_sparse_round_trip(shape, dtype)


@pytest.mark.parametrize("dtype", cases.SPARSE_DTYPES)
@pytest.mark.parametrize("shape", [(20, 136), (7, 33)], ids=str)
def test_linear(shape: tuple[int, int], dtype: str) -> None:
    run_linear(cases.SPARSE, 3, shape, dtype)


def test_swiglu() -> None:
    run_swiglu(cases.SPARSE, "bfloat16")


def test_two_largest_and_where_they_are() -> None:
    w = np.zeros((1, 16), np.float16)
    w[0, :8] = (1, -4, 2, 3, 5, 5, 5, 5)
    w[0, 11] = 7  # alone: the other place is the first of the zeros
    packed = gp.quantize(gp.from_numpy(w), "2:4")
    np.testing.assert_array_equal(packed.values.to_numpy(), [[-4, 3, 5, 5, 0, 7, 0, 0]])
    metadata = packed.metadata.to_numpy()
    assert metadata.shape == (1, 1, 32)
    assert metadata.dtype == np.uint32
    # Groups from the lowest bits on, the first place in the lower half of four bits: (1, 3),
    # (0, 1), (0, 3), (0, 1). The upper half is for row 8, which there is not.
    assert metadata[0, 0, 0] == 0x4444_4C4D
    assert (metadata[0, 0, 1:] == 0x4444_4444).all()


def test_metadata_is_in_the_order_of_the_tensor_cores() -> None:
    rng = np.random.default_rng(4)
    n, k = 40, 200
    w = rng.standard_normal((n, k)).astype(np.float16)
    packed = gp.quantize(gp.from_numpy(w), "2:4")
    metadata = packed.metadata.to_numpy()
    assert metadata.shape == (3, 4, 32)
    assert packed.values.shape == (n, 104)  # rows of 16 bytes
    for row, group in [(0, 0), (8, 1), (15, 3), (17, 20), (39, 49), (25, 31)]:
        bits = metadata[row // 16, group // 16, row % 8 * 4 + group % 16 // 4]
        places = bits >> (row % 16 // 8 * 16 + group % 4 * 4) & 15
        two = np.flatnonzero(cases.pruned(w[row : row + 1])[0, group * 4 : group * 4 + 4])
        assert places == two[0] | two[1] << 2


def test_save_and_load(tmp_path: Path) -> None:
    path = str(tmp_path / "w.safetensors")
    packed = gp.quantize(gp.from_numpy(cases.weights((20, 136), "bfloat16")), "2:4")
    packed.save(path)
    loaded = gp.PackedWeight.load(path)
    assert repr(loaded) == repr(packed)
    np.testing.assert_array_equal(host(loaded.dequantize()), host(packed.dequantize()))


def test_nbytes_and_repr() -> None:
    packed = gp.quantize(gp.ones((256, 1024), dtype="bfloat16"), "2:4")
    assert packed.nbytes == 256 * 1024 + 256 * 1024 // 8
    assert repr(packed) == (
        "PackedWeight(2:4, shape=(256, 1024), dtype=bfloat16, nbytes=294912, device=cpu)"
    )


def test_parts_are_checked() -> None:
    good = gp.quantize(gp.ones((4, 64), dtype="bfloat16"), "2:4")
    options: dict[str, Any] = {"format": "2:4", "shape": (4, 64), "dtype": "bfloat16"}
    same = gp.PackedWeight(good.values, metadata=good.metadata, **options)
    np.testing.assert_array_equal(host(same.dequantize()), host(good.dequantize()))
    with pytest.raises(ValueError, match="metadata is None, expected an array for 2:4"):
        gp.PackedWeight(good.values, **options)
    with pytest.raises(ValueError, match=r"scales has shape \(4, 1\), expected None for 2:4"):
        gp.PackedWeight(good.values, gp.ones((4, 1)), metadata=good.metadata, **options)
    with pytest.raises(TypeError, match="values has dtype bfloat16, expected float16"):
        gp.PackedWeight(good.values, metadata=good.metadata, **{**options, "dtype": "float16"})
    with pytest.raises(TypeError, match="dtype is float32, expected float16 or bfloat16 for 2:4"):
        gp.PackedWeight(good.values, metadata=good.metadata, **{**options, "dtype": "float32"})
    values = gp.zeros((20, 32), "bfloat16")
    with pytest.raises(ValueError, match=r"metadata has shape \(1, 1, 32\), expected \(2, 1, 32\)"):
        gp.PackedWeight(values, metadata=good.metadata, **{**options, "shape": (20, 64)})
    int4 = gp.quantize(gp.ones((4, 64)), "int4")
    with pytest.raises(ValueError, match="scales is None, expected an array for int4"):
        gp.PackedWeight(int4.values, format="int4", shape=(4, 64), dtype="float32")


def test_parts_off_their_alignment() -> None:
    good = gp.quantize(gp.from_numpy(cases.weights((20, 64), "bfloat16")), "2:4")
    values = gp.concat([gp.zeros(3, "bfloat16"), good.values.reshape(-1)])[3:].reshape((20, 32))
    same = gp.PackedWeight(
        values, metadata=good.metadata, format="2:4", shape=(20, 64), dtype="bfloat16"
    )
    np.testing.assert_array_equal(host(same.dequantize()), host(good.dequantize()))
    x = gp.from_numpy(cases.weights((3, 64), "bfloat16", 3))
    np.testing.assert_array_equal(host(gp.linear(x, same)), host(gp.linear(x, good)))


def test_errors() -> None:
    with pytest.raises(TypeError, match="quantize: w has dtype float32, expected float16 or bfl"):
        gp.quantize(gp.ones((4, 64)), "2:4")
    with pytest.raises(ValueError, match=r"w has shape \(2, 4, 64\), expected \(n, k\)$"):
        gp.quantize(gp.ones((2, 4, 64), dtype="float16"), "2:4")
    with pytest.raises(ValueError, match="quantize_awq: format is '2:4', which rounds nothing"):
        gp.quantize_awq(gp.ones((4, 64)), gp.ones((4, 64)), "2:4")
    packed = gp.quantize(gp.ones((4, 64), dtype="float16"), "2:4")
    with pytest.raises(ValueError, match="linear: quantize_input is True, w is 2:4"):
        gp.linear(gp.ones((2, 64), dtype="float16"), packed, quantize_input=True)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_rows_of_another_dtype(dtype: str) -> None:
    packed = gp.quantize(gp.from_numpy(cases.weights((24, 64), "float16")), "2:4")
    x = gp.from_numpy(cases.weights((3, 64), dtype, 3))
    y = gp.linear(x, packed)
    assert str(y.dtype) == dtype
    want = host(x) @ host(packed.dequantize("float32")).T
    assert np.abs(host(y) - want).max() <= 2.0**-7 * np.abs(want).max()


def test_plan_is_explained() -> None:
    packed = gp.quantize(gp.ones((256, 512), dtype="bfloat16"), "2:4")
    for m in (1, 100):
        x = gp.ones((m, 512), dtype="bfloat16")
        text = str(gp.explain_matmul(lambda x=x: gp.linear(x, packed)))
        assert "sparse(" in text
        assert "dequantize(" in text
        assert "b=bfloat16 2:4 sparse" in text
    text = str(gp.explain_matmul(lambda: gp.linear(gp.ones((1, 512), dtype="float16"), packed)))
    assert "sparse(" not in text


def test_language_model() -> None:
    folder = Path(__file__).parents[1] / "data" / "tiny-qwen3-1m"
    model = gp.llm.load(folder, "bfloat16", max_length=64, max_batch=1, quantization="2:4")
    assert "2:4" in str(model.explain())
    assert len(model.generate([5, 6, 7], max_new_tokens=2, stop_tokens=[])) == 2
    with pytest.raises(TypeError, match="load: w has dtype float32, expected float16 or bfloat16"):
        gp.llm.load(folder, "float32", max_length=64, max_batch=1, quantization="2:4")

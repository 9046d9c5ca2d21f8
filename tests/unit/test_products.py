"""linear, addmm, scales, groups of rows and the names of 0.2 on CPU simulation."""

from __future__ import annotations

import inspect
from typing import Any

import hypothesis.extra.numpy as hnp
import ml_dtypes  # noqa: F401 - makes np.dtype("bfloat16") work
import numpy as np
import pytest
from cases import few_rows as few
from cases import matmul as matmul_cases
from cases import products as cases
from cases.must_raise import Refused
from cases.products_errors import MUST_RAISE
from conftest import RunPython
from hypothesis import given, settings
from hypothesis import strategies as st

import pygpukit as gp
from pygpukit import _native, _reference


@pytest.mark.parametrize("case", cases.LINEAR, ids=str)
def test_linear(case: cases.Linear) -> None:
    cases.run_linear(case)


@pytest.mark.parametrize("case", few.few_rows_cases(few.SMALL), ids=str)
def test_few_rows(case: few.FewRows) -> None:
    few.run_few_rows(case)


@pytest.mark.parametrize("case", cases.ADDMM, ids=str)
def test_addmm(case: cases.Addmm) -> None:
    cases.run_addmm(case)


@pytest.mark.parametrize(("operand", "dtype"), cases.DTYPES)
@pytest.mark.parametrize(("a", "b"), cases.DTYPE_SHAPES)
def test_dtype(operand: str, dtype: str, a: Any, b: Any) -> None:
    cases.run_dtype(operand, dtype, a, b)


@pytest.mark.parametrize("case", cases.SCALED, ids=str)
def test_scaled(case: cases.Scaled) -> None:
    cases.run_scaled(case)


@pytest.mark.parametrize("case", cases.GROUPED, ids=str)
def test_grouped(case: cases.Grouped) -> None:
    cases.run_grouped(case)


@pytest.mark.parametrize("case", MUST_RAISE, ids=lambda case: case.name)
def test_must_raise(case: Refused) -> None:
    matmul_cases.run_must_raise(case)


def values(array: gp.GPUArray) -> Any:
    return array.to_numpy()


def test_every_op_has_a_reference_and_a_function() -> None:
    listed = [name for name, family, _ in _native.op_list() if family == "matmul"]
    assert set(listed) >= {"matmul", "vecdot", "grouped_gemm"}
    for name in listed:
        assert callable(getattr(_reference, name))
        assert callable(getattr(gp, name))
        assert any(row[0] == name for row in _native.builtin_kernels())


# --- properties ---------------------------------------------------------------------------------

SMALL = st.integers(-3, 3)


@st.composite
def layers(draw: st.DrawFn) -> tuple[Any, ...]:
    """x, w, bias and residual of small whole numbers, so that all results are exact."""
    dtype = np.dtype(draw(st.sampled_from(cases.FLOATS)))
    lead = draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
    n, k = draw(st.integers(0, 6)), draw(st.integers(0, 6))

    def array(shape: tuple[int, ...]) -> Any:
        return draw(hnp.arrays(np.int8, shape, elements=SMALL)).astype(dtype)

    bias = array((n,)) if draw(st.booleans()) else None
    residual = None
    if draw(st.booleans()):
        shape = (*lead, n)
        shape = shape[draw(st.integers(0, len(shape))) :]
        residual = array(tuple(draw(st.sampled_from((s, 1))) for s in shape))
    return array((*lead, k)), array((n, k)), bias, residual


@settings(max_examples=150, deadline=None)
@given(layer=layers(), relu=st.booleans())
def test_linear_as_numpy(layer: tuple[Any, ...], relu: bool) -> None:
    x, w, bias, residual = layer
    want = x.astype(float) @ w.astype(float).T
    if bias is not None:
        want = want + bias.astype(float)
    if relu:
        want = np.maximum(want, 0)
    if residual is not None:
        want = want + residual.astype(float)
    arrays = [None if a is None else gp.from_numpy(a) for a in (bias, residual)]
    got = gp.linear(
        gp.from_numpy(x), gp.from_numpy(w), arrays[0], "relu" if relu else None, arrays[1]
    )
    assert got.dtype.name == x.dtype.name
    np.testing.assert_array_equal(values(got), want.astype(x.dtype))


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_grouped_is_the_same_by_sizes_and_by_ids(data: st.DataObject) -> None:
    experts = data.draw(st.integers(1, 6))
    sizes = data.draw(st.lists(st.integers(0, 5), min_size=experts, max_size=experts))
    m, k, n = sum(sizes), data.draw(st.integers(0, 5)), data.draw(st.integers(0, 5))
    x = data.draw(hnp.arrays(np.float32, (m, k), elements=SMALL))
    w = data.draw(hnp.arrays(np.float32, (experts, n, k), elements=SMALL))
    ids = np.repeat(np.arange(experts), sizes)
    want = np.einsum("ik,ink->in", x, w[ids])
    gx, gw = gp.from_numpy(x), gp.from_numpy(w)
    by_sizes = gp.from_numpy(np.array(sizes, np.int64))
    np.testing.assert_array_equal(values(gp.grouped_gemm(gx, gw, sizes)), want)
    np.testing.assert_array_equal(values(gp.grouped_gemm(gx, gw, by_sizes)), want)
    order = data.draw(st.permutations(range(m)))
    place = np.array(order, dtype=np.int64)
    got = gp.grouped_gemm(
        gp.from_numpy(x[place]), gw, expert_ids=gp.from_numpy(ids[place].astype(np.int32))
    )
    np.testing.assert_array_equal(values(got), want[place])


# --- single properties --------------------------------------------------------------------------


def test_grouped_rows_without_an_expert_are_zero() -> None:
    x, w = gp.ones((5, 3)), gp.ones((2, 4, 3))
    ids = gp.from_numpy(np.array([1, -1, 0, 2, 1], np.int32))
    got = values(gp.grouped_gemm(x, w, expert_ids=ids))
    np.testing.assert_array_equal(got[:, 0], [3, 0, 3, 0, 3])
    for sizes, want in (((1, 2), [3, 3, 3, 0, 0]), ((9, 9), [3] * 5), ((-4, 2), [3, 3, 0, 0, 0])):
        given_sizes = gp.from_numpy(np.array(sizes, np.int32))
        np.testing.assert_array_equal(values(gp.grouped_gemm(x, w, given_sizes))[:, 0], want)


def test_grouped_takes_numpy_sizes_and_out() -> None:
    x, w = gp.ones((4, 3)), gp.ones((2, 5, 3))
    out = gp.zeros((4, 5))
    assert gp.grouped_gemm(x, w, np.array([1, 3]), out=out) is out  # type: ignore[arg-type]
    np.testing.assert_array_equal(values(out), np.full((4, 5), 3.0))


@pytest.mark.parametrize("which", ["x", "w", "bias", "residual"])
@pytest.mark.parametrize("activation", [None, "swiglu"])
def test_out_may_be_any_array_of_linear(which: str, activation: str | None) -> None:
    n = 4
    rows = 2 * n if activation else n
    rng = np.random.default_rng(0)
    memory = gp.from_numpy(rng.normal(size=(8, 4)))
    arrays = {
        "x": gp.from_numpy(rng.normal(size=(4, 4))),
        "w": gp.from_numpy(rng.normal(size=(rows, 4))),
        "bias": gp.from_numpy(rng.normal(size=rows)),
        "residual": gp.from_numpy(rng.normal(size=(4, n))),
    }
    shape = arrays[which].shape
    arrays[which] = memory.reshape(-1)[: arrays[which].size].reshape(shape)
    out = memory.reshape(-1)[3 : 3 + 4 * n].reshape((4, n))
    want = values(gp.linear(**arrays, activation=activation))
    assert gp.linear(**arrays, activation=activation, out=out) is out
    np.testing.assert_array_equal(values(out), want)


def test_a_strided_out() -> None:
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(2, 5, 4)), rng.normal(size=(6, 4))
    memory = gp.zeros((2, 5, 12), "float64")
    for activation, n in ((None, 6), ("swiglu", 3)):
        out = memory[:, ::-1, : 2 * n : 2]
        gp.linear(gp.from_numpy(x), gp.from_numpy(w), activation=activation, out=out)
        want = gp.linear(gp.from_numpy(x), gp.from_numpy(w), activation=activation)
        np.testing.assert_array_equal(values(out), values(want))


def test_beta_zero_does_not_read_c() -> None:
    nan = gp.full((2, 2), float("nan"))
    np.testing.assert_array_equal(
        values(gp.addmm(nan, gp.ones((2, 3)), gp.ones((3, 2)), beta=0.0)), np.full((2, 2), 3.0)
    )


def test_alpha_of_matmul() -> None:
    x = gp.ones((2, 3))
    np.testing.assert_array_equal(values(gp.matmul(x, x.T, alpha=0.5)), np.full((2, 2), 1.5))
    i = gp.ones((2, 3), "int8")
    np.testing.assert_array_equal(values(gp.matmul(i, i.T, alpha=-2)), np.full((2, 2), -6))


def test_float64_keeps_its_precision() -> None:
    one = gp.ones((1, 1), "float64")
    assert values(gp.matmul(one, one, alpha=0.1))[0, 0] == 0.1
    assert values(gp.addmm(one, one, one, alpha=0.1, beta=0.3))[0, 0] == 0.1 + 0.3


def test_int8_wraps_unless_told_otherwise() -> None:
    x = gp.full((1, 10), 100, "int8")
    assert values(gp.matmul(x, x.T)).item() == np.int64(100_000).astype(np.int8)
    assert values(gp.matmul(x, x.T, dtype="int32")).item() == 100_000
    assert gp.matmul(x, x.T, dtype=gp.int32).dtype == gp.int32


def test_float16_sums_beyond_its_range_with_dtype_float32() -> None:
    x = gp.full((1, 100), 100, "float16")
    assert values(gp.matmul(x, x.T)).item() == np.inf
    assert values(gp.matmul(x, x.T, dtype="float32")).item() == 1e6


def test_linear_bias_gelu_and_gemv() -> None:
    rng = np.random.default_rng(1)
    x, w, b = (rng.normal(size=s).astype(np.float32) for s in ((3, 5), (4, 5), (4,)))
    got = gp.linear_bias_gelu(*(gp.from_numpy(a) for a in (x, w, b)))
    v = x.astype(float) @ w.astype(float).T + b
    np.testing.assert_allclose(values(got), cases.activated("gelu", v), rtol=1e-5, atol=1e-6)
    a, m = gp.from_numpy(x[0].astype("bfloat16")), gp.from_numpy(w.astype("bfloat16"))
    out = gp.zeros(4, "bfloat16")
    assert gp.gemv_bf16(a, m, out=out) is out
    np.testing.assert_array_equal(values(out), values(gp.matmul(m, a)))
    assert gp.gemv_bf16_bf16_sm120 is gp.gemv_bf16


# --- FP8 ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(3, 4, 5), (33, 100, 40), (1, 64, 1), (2, 0, 3), (0, 4, 2)])
def test_matmul_fp8(shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(m, k)).astype(np.float32), rng.normal(size=(k, n)).astype(np.float32)
    got = gp.matmul_fp8(gp.from_numpy(a), gp.from_numpy(b))
    assert got.dtype == gp.float32
    size = np.abs(a).astype(float) @ np.abs(b).astype(float)
    # Half a step of e4m3 per operand, relative and, below its smallest normal number, absolute.
    least = 2.0**-10 / 448 * k * (np.abs(a).max(initial=0) * np.abs(b).max(initial=0)) * 4
    assert (np.abs(values(got) - a.astype(float) @ b) <= size * 0.13 + least).all()


def test_matmul_fp8_is_exact_where_e4m3_is() -> None:
    a = gp.from_numpy(np.array([[448, 1.5, -32], [0, 2, -448]], np.float32))
    b = gp.from_numpy(np.array([[1], [448], [-0.25]], np.float32))
    np.testing.assert_array_equal(values(gp.matmul_fp8(a, b)), [[1128.0], [1008.0]])
    zeros = gp.zeros((2, 3))
    np.testing.assert_array_equal(values(gp.matmul_fp8(zeros, b)), np.zeros((2, 1)))
    for name in ("sm90", "sm100", "sm120"):
        assert getattr(gp, f"matmul_fp8_{name}") is gp.matmul_fp8
        assert getattr(gp, f"gemm_fp8_f32_{name}") is gp.matmul_fp8


def test_fp8_in_uint8() -> None:
    one, two = 0x38, 0x40
    a = gp.from_numpy(np.full((2, 3), two, np.uint8))
    b = gp.from_numpy(np.full((3, 4), one, np.uint8))
    got = values(gp.matmul_fp8_fp8_sm120(a, b))
    assert got.dtype == np.uint8
    np.testing.assert_array_equal(got.view("float8_e4m3fn").astype(float), np.full((2, 4), 6.0))
    big = gp.from_numpy(np.full((1, 64), 0x78, np.uint8))  # 256
    out = gp.zeros((1, 1), "uint8")
    assert gp.matmul_fp8_fp8_sm120(big, big.T, out=out) is out
    assert values(out).item() == 0x7E  # 448
    with pytest.raises(ValueError, match="out has shape"):
        gp.matmul_fp8_fp8_sm120(a, b, out=out)
    with pytest.raises(TypeError, match="out has dtype float32"):
        gp.matmul_fp8_fp8_sm120(a, b, out=gp.zeros((2, 4)))


def test_names_of_0_2() -> None:
    for name in (
        "fp8_available",
        "fp8_sm90_available",
        "fp8_sm100_available",
        "fp8_sm120_available",
        "fp8_fp8_sm120_available",
        "nvf4_bf16_sm120_available",
        "gemv_nvf4_available",
        "gemm_fp8_f32_sm90_available",
        "gemm_fp8_f32_sm100_available",
        "gemm_fp8_f32_sm120_available",
        "gemm_fp8_fp8_sm120_available",
        "gemm_nvf4_bf16_sm120_available",
    ):
        assert getattr(gp, name)() is False
        assert getattr(gp.ops.matmul, name, None) is None  # ops.matmul is the function
    assert gp.fp8_get_sizes(300, 128) == (3, 1, 6)
    assert gp.nvf4_get_sizes(100, 3) == gp.gemv_nvf4_get_sizes(100, 3) == (150, 12)
    assert gp.fp8_fp8_get_scale_sizes(100, 300, 200) == (200, 6)
    for name in ("fp8_init_lut", "w8a16_gemm_init_lut", "grouped_gemm_init_lut"):
        getattr(gp, name)()


def test_the_module_of_0_2_has_all_names() -> None:
    import importlib

    module = importlib.import_module("pygpukit.ops.matmul")
    for name in (
        "gemv_fp8_bf16",
        "quantize_bf16_to_nvf4",
        "matmul",
        "transpose",
        "batched_matmul",
        "matmul_fp8",
        "einsum",
    ):
        assert callable(getattr(module, name))


# --- precision and explanation ------------------------------------------------------------------


def test_precision_of_the_process() -> None:
    assert gp.get_matmul_precision() == "float32"
    try:
        gp.set_matmul_precision("tf32")
        assert gp.get_matmul_precision() == "tf32"
        np.testing.assert_array_equal(values(gp.ones((2, 3)) @ gp.ones((3, 2))), np.full((2, 2), 3))
        f64 = gp.ones((2, 2), "float64")
        np.testing.assert_array_equal(values(f64 @ f64), np.full((2, 2), 2.0))
    finally:
        gp.set_matmul_precision("float32")


@pytest.mark.parametrize(("value", "want"), [("1", "tf32"), ("0", "float32"), ("", "float32")])
def test_precision_from_the_environment(run_python: RunPython, value: str, want: str) -> None:
    code = "import pygpukit as gp; print(gp.get_matmul_precision())"
    done = run_python(code, PYGPUKIT_ALLOW_TF32=value)
    assert done.stdout.strip() == want, done.stderr


def test_explain_takes_the_keywords_of_linear() -> None:
    x, w = gp.ones((2, 3), "bfloat16"), gp.ones((3, 4), "bfloat16")
    residual = gp.full((2, 4), 7, "bfloat16")
    told = gp.explain_matmul(x, w, bias=w[0], activation="gelu", residual=residual, out=residual)
    assert "gelu" in str(told)
    assert (values(residual) == 7).all()
    assert gp.explain_matmul(x, w, alpha=2.0, dtype="float32", batch_invariant=True).candidates


def test_signatures() -> None:
    assert str(inspect.signature(gp.matmul)) == (
        "(x1, x2, /, out=None, *, use_tf32=None, alpha=1.0, dtype=None, batch_invariant=False, "
        "precision=None)"
    )
    assert list(inspect.signature(gp.linear).parameters) == [
        "x",
        "w",
        "bias",
        "activation",
        "residual",
        "out",
        "use_tf32",
        "batch_invariant",
        "norm",
        "eps",
        "few_rows",
        "quantize_input",
        "precision",
    ]


def test_in_a_graph() -> None:
    x, w, out = gp.ones((2, 3)), gp.ones((8, 3)), gp.zeros((2, 4))
    graph = gp.CudaGraph()
    with graph:
        gp.linear(x, w, activation="swiglu", out=out)
    assert not values(out).any()
    graph.replay()
    np.testing.assert_allclose(values(out), np.full((2, 4), 9 / (1 + np.exp(-3.0))), rtol=1e-6)

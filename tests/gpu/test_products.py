"""linear, addmm, scales and groups of rows on the GPU: the case tables, and what only it shows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from cases import few_rows as few
from cases import matmul as matmul_cases
from cases import products as cases
from cases.must_raise import Refused
from cases.products_errors import MUST_RAISE

import pygpukit as gp

# FP8 tensor cores add up with fewer bits than float32 has.
FP8_SUMS = 2.0**-12
FLOATS = ("float16", "bfloat16", "float32")


@pytest.mark.parametrize("case", [case for case in cases.LINEAR if case.gpu], ids=str)
def test_linear(case: cases.Linear) -> None:
    cases.run_linear(case, "cuda")


@pytest.mark.parametrize("case", few.few_rows_cases(few.SMALL + few.LARGE), ids=str)
def test_few_rows(case: few.FewRows) -> None:
    few.run_few_rows(case, "cuda")


@pytest.mark.parametrize(("n", "k"), [(4096, 1024), (1536, 1024), (512, 4096), (9000, 520)])
@pytest.mark.parametrize("activation", [None, "swiglu"])
def test_few_rows_do_not_depend_on_each_other(n: int, k: int, activation: str | None) -> None:
    case = few.FewRows("bfloat16", 64, n, k, activation, activation is None, True)
    few.rows_do_not_depend_on_each_other(case, "cuda")


@pytest.mark.parametrize("case", cases.ADDMM, ids=str)
def test_addmm(case: cases.Addmm) -> None:
    cases.run_addmm(case, "cuda")


@pytest.mark.parametrize(("operand", "dtype"), cases.DTYPES)
@pytest.mark.parametrize(("a", "b"), cases.DTYPE_SHAPES)
def test_dtype(operand: str, dtype: str, a: Any, b: Any) -> None:
    cases.run_dtype(operand, dtype, a, b, device="cuda")


@pytest.mark.parametrize("case", cases.SCALED, ids=str)
def test_scaled(case: cases.Scaled) -> None:
    cases.run_scaled(case, "cuda", FP8_SUMS)


@pytest.mark.parametrize("case", cases.GROUPED, ids=str)
def test_grouped(case: cases.Grouped) -> None:
    cases.run_grouped(case, "cuda")


@pytest.mark.parametrize("case", MUST_RAISE, ids=lambda case: case.name)
def test_must_raise(case: Refused) -> None:
    matmul_cases.run_must_raise(case, "cuda")


# --- all layouts at odd sizes -------------------------------------------------------------------

LAYOUTS = ("cc", "ct", "tc", "tt", "uu")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("operand", "dtype"), [(x, "float32") for x in FLOATS] + [("int8", "int32")]
)
def test_layouts(operand: str, dtype: str, layout: str) -> None:
    cases.run_dtype(operand, dtype, (257, 515), (515, 263), layout, "cuda")
    cases.run_dtype(operand, dtype, (256, 512), (512, 384), layout, "cuda")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("a", cases.FP8)
def test_fp8_layouts(a: str, layout: str) -> None:
    for x, n in (((257, 515), 263), ((256, 512), 384)):
        case = cases.Scaled(a, "float8_e4m3fn", x, n, "vv", True, "bfloat16", layout)
        cases.run_scaled(case, "cuda", FP8_SUMS)


@pytest.mark.parametrize("dtype", FLOATS)
def test_batches_broadcast(dtype: str) -> None:
    for a, b in (((3, 1, 70, 65), (4, 65, 80)), ((70, 65), (5, 65, 80)), ((5, 70, 65), (65, 80))):
        cases.run_dtype(dtype, "float32", a, b, "cc", "cuda")
        cases.run_dtype(dtype, "float32", a, b, "tt", "cuda")


# --- grouped ------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["sizes", "ids"])
def test_rows_without_an_expert(by: str) -> None:
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(300, 33)), rng.normal(size=(3, 70, 33))
    if by == "sizes":
        ids = np.repeat([0, 1, 2, -1], [100, 1, 70, 129])
        argument = {"group_sizes": gp.from_numpy(np.array([100, 1, 70], np.int32), device="cuda")}
    else:
        ids = rng.integers(-1, 3, 300)
        given = np.where((ids < 0) & (np.arange(300) % 2 == 0), 7, ids).astype(np.int32)
        argument = {"expert_ids": gp.from_numpy(given, device="cuda")}
    arrays = [gp.from_numpy(a, device="cuda") for a in (x, w)]
    out = gp.full((300, 70), 5.0, "float64", device="cuda")
    gp.grouped_gemm(*arrays, **argument, out=out)
    cases.check_grouped(out.to_numpy(), x, w, ids)


def test_sizes_beyond_the_rows() -> None:
    x, w = gp.ones((70, 8), device="cuda"), gp.ones((4, 5, 8), device="cuda") * 2.0
    w[1] = 1.0
    sizes = gp.from_numpy(np.array([-3, 66, 1000, 9], np.int32), device="cuda")
    got = gp.grouped_gemm(x, w, sizes).to_numpy()
    np.testing.assert_array_equal(got[:, 0], [8.0] * 66 + [16.0] * 4)


def test_grouped_in_a_graph_follows_the_sizes() -> None:
    """Sizes are read by the kernels, so a replay uses the current ones."""
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(130, 40)), rng.normal(size=(3, 20, 40))
    gx, gw = (gp.from_numpy(a, device="cuda") for a in (x, w))
    sizes = gp.from_numpy(np.array([130, 0, 0], np.int32), device="cuda")
    ids = gp.zeros(130, "int32", device="cuda")
    out, out2 = (gp.zeros((130, 20), "float64", device="cuda") for _ in range(2))
    gp.grouped_gemm(gx, gw, sizes, out=out)
    gp.grouped_gemm(gx, gw, expert_ids=ids, out=out2)
    graph = gp.CudaGraph()
    with graph:
        gp.grouped_gemm(gx, gw, sizes, out=out)
        gp.grouped_gemm(gx, gw, expert_ids=ids, out=out2)
    sizes[:] = gp.from_numpy(np.array([1, 65, 64], np.int32), device="cuda")
    host = rng.integers(0, 3, 130).astype(np.int32)
    ids[:] = gp.from_numpy(host, device="cuda")
    graph.replay()
    cases.check_grouped(out.to_numpy(), x, w, np.repeat(np.arange(3), [1, 65, 64]))
    cases.check_grouped(out2.to_numpy(), x, w, host)


def test_grouped_gives_the_same_bits_again() -> None:
    case = cases.Grouped("bfloat16", 200, 130, (500, 3, 1000, 77), "ids")
    first = cases.run_grouped(case, "cuda")
    for _ in range(3):
        np.testing.assert_array_equal(cases.run_grouped(case, "cuda"), first)


# --- precision ----------------------------------------------------------------------------------


@pytest.fixture
def tf32_by_default() -> Iterator[None]:
    gp.set_matmul_precision("tf32")
    yield
    gp.set_matmul_precision("float32")


def _errors(**options: Any) -> Any:
    """Errors of a float32 GEMM relative to the sum of magnitudes."""
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=(512, 512)).astype(np.float32) for _ in range(2))
    got = gp.matmul(gp.from_numpy(a, device="cuda"), gp.from_numpy(b, device="cuda"), **options)
    want = a.astype(float) @ b.astype(float)
    return np.abs(got.to_numpy() - want) / (np.abs(a).astype(float) @ np.abs(b).astype(float))


@pytest.mark.parametrize("n", [129, 131, 136])
@pytest.mark.parametrize("along_rows", [True, False])
def test_a_view_of_c_has_no_other_columns_written(n: int, along_rows: bool) -> None:
    """C has a pitch of whole lines, but not so many columns."""
    rng = np.random.default_rng(n)
    a, b = (
        gp.astype(gp.from_numpy(rng.integers(-3, 4, s).astype("f4"), device="cuda"), "bfloat16")
        for s in ((512, 256), (256, n))
    )
    wide = gp.full(
        (512, 144) if along_rows else (144, 512), float("nan"), "bfloat16", device="cuda"
    )
    out = wide[:, :n] if along_rows else wide[:n].T
    gp.matmul(a, b, out=out)
    host = wide.to_numpy().astype(np.float32)
    host = host if along_rows else host.T
    want = a.to_numpy().astype("f4") @ b.to_numpy().astype("f4")
    np.testing.assert_allclose(host[:, :n], want, rtol=1e-2, atol=1e-2)
    assert np.isnan(host[:, n:]).all()


def test_float32_stays_float32() -> None:
    assert _errors().max() < 1e-6
    assert _errors(use_tf32=False).max() < 1e-6


def test_tf32_when_asked() -> None:
    assert _errors(use_tf32=True).max() < 2.0**-10


def test_tf32_by_default(tf32_by_default: None) -> None:
    assert _errors().max() < 2.0**-10
    assert _errors(use_tf32=False).max() < 1e-6


@pytest.mark.parametrize("dtype", FLOATS)
def test_batch_invariant(dtype: str) -> None:
    """A row's bits are the same whatever the number of rows."""
    x, w = cases.normal((64, 300), dtype, 1), cases.normal((200, 300), dtype, 2)
    gx, gw = (gp.from_numpy(a, device="cuda") for a in (x, w))
    whole = gp.linear(gx, gw, batch_invariant=True).to_numpy()
    for m in (*range(1, 17), 33):
        part = gp.linear(gx[:m], gw, batch_invariant=True).to_numpy()
        np.testing.assert_array_equal(part, whole[:m])


@pytest.mark.parametrize("shape", [(1, 64), (65, 130), (300, 1024)])
def test_linear_in_a_graph_and_the_same_bits_again(shape: Any) -> None:
    x, w = cases.normal(shape, "bfloat16", 1), cases.normal((256, shape[1]), "bfloat16", 2)
    gx, gw = (gp.from_numpy(a, device="cuda") for a in (x, w))
    for activation, n in (("gelu", 256), ("swiglu", 128)):
        out = gp.zeros((shape[0], n), "bfloat16", device="cuda")
        want = gp.linear(gx, gw, activation=activation).to_numpy()
        graph = gp.CudaGraph()
        with graph:
            gp.linear(gx, gw, activation=activation, out=out)
        for _ in range(3):
            graph.replay()
            np.testing.assert_array_equal(out.to_numpy(), want)


def test_explain_names_a_choice() -> None:
    x = gp.ones((512, 512), "bfloat16", device="cuda")
    text = str(gp.explain_matmul(x, x, bias=x[0], activation="silu"))
    assert "512" in text
    assert "bfloat16" in text


def test_fp8_is_what_the_device_says() -> None:
    sm = gp.get_sm_version()
    assert gp.fp8_available() == (sm >= 89)
    assert gp.fp8_sm90_available() == (90 <= sm < 100)


def test_fp8_sums_are_float32() -> None:
    """Tensor cores accumulate 8-bit products with less precision than float32."""
    rng = np.random.default_rng(5)
    a, b = (rng.normal(size=(512, 8192)).astype("float8_e4m3fn") for _ in range(2))
    x, y = (gp.from_numpy(h, device="cuda") for h in (a, b))
    want = a.astype(np.float64) @ b.astype(np.float64).T
    for fast, bound in ((False, 6e-4), (True, 1e-2)):
        got = gp.scaled_matmul(x, y.T, 1.0, 1.0, dtype="float32", fast_accum=fast).to_numpy()
        assert np.linalg.norm(got - want) / np.linalg.norm(want) < bound

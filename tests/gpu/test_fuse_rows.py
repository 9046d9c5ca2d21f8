"""gp.fuse with ops over rows on the GPU: float64, the bits of the ops one by one, layouts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cases.fuse import CASES, DTYPES, LARGE, SHAPES, STEPS, TOLERANCE, Case, chain
from cases.run_fuse import to_device
from cases.views import VIEWS
from hypothesis import given, settings
from hypothesis import strategies as st

import pygpukit as gp
from pygpukit import _native
from pygpukit.ops import nn

pytestmark = pytest.mark.nvrtc
LAST = {"axis": -1, "keepdims": True}
FUSED = {case.name: gp.fuse(case.ours) for case in CASES}


def check(case: Case, shape: tuple[int, int], dtype: str) -> None:
    host = case.draw(shape, dtype)
    arrays = to_device(host, "cuda")
    got = FUSED[case.name](*arrays)
    assert isinstance(FUSED[case.name]._last, _native.FusedRows)
    separate = case.ours(*arrays)
    assert (got.shape, got.dtype) == (separate.shape, separate.dtype)
    if case.exact:
        np.testing.assert_array_equal(got.to_numpy(), separate.to_numpy())
    wide, want = got.to_numpy().astype(np.float64), case.want(*host)
    off = np.abs(wide - want) / (1 + np.abs(want))
    assert np.max(off) <= TOLERANCE[dtype]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case, dtype: str) -> None:
    for shape in SHAPES:
        check(case, shape, dtype)


@pytest.mark.parametrize("shape", LARGE, ids=str)
@pytest.mark.parametrize("name", ["add_rmsnorm", "layernorm", "softmax", "two_rows", "extremes"])
def test_large(name: str, shape: tuple[int, int]) -> None:
    case = next(case for case in CASES if case.name == name)
    for dtype in DTYPES:
        check(case, shape, dtype)


@pytest.mark.parametrize("width", [8, 1000, 4096, 4099, 20000, 70000])
@pytest.mark.parametrize("dtype", DTYPES)
def test_sums_are_close_to_those_of_the_op(width: int, dtype: str) -> None:
    x = gp.from_numpy(
        np.random.default_rng(width).normal(size=(5, width)).astype(dtype), device="cuda"
    )
    for op in (gp.sum, gp.mean):
        got = gp.fuse(lambda x, op=op: op(x, **LAST) + 0)(x).to_numpy().astype(np.float64)
        want = op(x, **LAST).to_numpy().astype(np.float64)
        spread = np.finfo(np.float32).eps * np.abs(x.to_numpy().astype(np.float64)).max() * 8
        scale = spread * (np.sqrt(width) if op is gp.sum else 1)
        step = np.abs(want) * float({"float32": 2e-7, "float16": 1e-3, "bfloat16": 8e-3}[dtype])
        assert np.all(np.abs(got - want) <= step + scale)


@pytest.mark.parametrize("width", [64, 1000, 4096, 40000])
def test_a_row_has_the_same_bits_alone_and_among_others(width: int) -> None:
    rng = np.random.default_rng(width)
    x, r = (
        gp.from_numpy(rng.normal(size=(37, width)).astype("f4"), device="cuda") for _ in range(2)
    )
    function = gp.fuse(lambda x, r: nn.layernorm(x + r) * x.sum(**LAST))
    together = function(x, r).to_numpy()
    for i in (0, 5, 36):
        alone = function(x[i : i + 1], r[i : i + 1]).to_numpy()[0]
        np.testing.assert_array_equal(alone, together[i])


# --- layouts ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("view", VIEWS)
def test_views(view: str, dtype: str) -> None:
    rng = np.random.default_rng(0)
    for shape in ((3, 40), (2, 3, 264)):
        base = rng.normal(size=VIEWS[view].base(shape)).astype(dtype)
        y = gp.from_numpy(rng.normal(size=shape).astype(dtype), device="cuda")
        x = VIEWS[view].take(gp.from_numpy(base, device="cuda"))
        function = gp.fuse(lambda x, y: nn.rmsnorm(x + y) * y)
        want = function(x.copy(), y).to_numpy()
        if view in ("whole", "reversed rows") or (view == "rows" and dtype == "float32"):
            np.testing.assert_array_equal(function(x, y).to_numpy(), want)
        np.testing.assert_allclose(
            function(x, y).to_numpy().astype("f8"),
            want.astype("f8"),
            rtol=TOLERANCE[dtype],
            atol=TOLERANCE[dtype],
        )
        out = VIEWS[view].take(gp.zeros(VIEWS[view].base(shape), dtype, device="cuda"))
        assert function(x, y, out=out) is out
        np.testing.assert_allclose(
            out.to_numpy().astype("f8"),
            want.astype("f8"),
            rtol=TOLERANCE[dtype],
            atol=TOLERANCE[dtype],
        )


@pytest.mark.parametrize(
    "shapes",
    [
        ((4, 3, 16), (16,), (3, 1)),
        ((4, 3, 16), (3, 16), (4, 1, 1)),
        ((3, 16), (4, 1, 16), (1,)),
        ((16,), (16,), ()),
        ((1, 4096), (5, 4096), (5, 1)),
        ((2, 1, 3, 1, 2, 1, 3, 1, 2, 5), (2, 1, 3, 1, 2, 1, 3, 1, 5), (2, 3, 1, 1, 2, 1, 1, 1, 1)),
    ],
)
def test_broadcast(shapes: tuple[tuple[int, ...], ...]) -> None:
    rng = np.random.default_rng(1)
    x, y, c = (gp.from_numpy(rng.normal(size=s).astype("f4"), device="cuda") for s in shapes)

    def function(x: Any, y: Any, c: Any) -> Any:
        return nn.softmax(x * 2) * y + x.max(**LAST) * c

    got, want = gp.fuse(function)(x, y, c), function(x, y, c)
    assert got.shape == want.shape
    np.testing.assert_array_equal(got.to_numpy(), want.to_numpy())


def test_in_place_and_overlapping() -> None:
    rng = np.random.default_rng(2)
    for width in (40, 4096, 40000):
        function = gp.fuse(lambda x, y: nn.rmsnorm(x + y) * y)
        host = rng.normal(size=(6, width)).astype("f4")
        x, y = gp.from_numpy(host, device="cuda"), gp.from_numpy(host[::-1].copy(), device="cuda")
        want = function(x, y).to_numpy()
        assert function(x, y, out=x) is x
        np.testing.assert_array_equal(x.to_numpy(), want)
        z = gp.from_numpy(host, device="cuda")
        want = function(z[1:], z[:-1]).to_numpy()
        function(z[1:], z[:-1], out=z[1:])
        np.testing.assert_array_equal(z[1:].to_numpy(), want)
        many = gp.empty((2, 6, width), device="cuda")
        function(y, y, out=many)
        np.testing.assert_array_equal(many[1].to_numpy(), function(y, y).to_numpy())


def test_empty() -> None:
    def empty(*shape: int) -> Any:
        return gp.empty(shape, device="cuda")

    assert gp.fuse(lambda x: nn.softmax(x) * 2)(empty(0, 8)).shape == (0, 8)
    assert gp.fuse(lambda x: nn.rmsnorm(x) + x)(empty(3, 0)).shape == (3, 0)
    total = gp.fuse(lambda x, c: x.sum(**LAST) + c * 2)(empty(3, 0), gp.ones((3, 1), device="cuda"))
    np.testing.assert_array_equal(total.to_numpy(), np.full((3, 1), 2))
    mean = gp.fuse(lambda x: x.mean(**LAST) + 1)(empty(3, 0))
    assert np.isnan(mean.to_numpy()).all()


def test_special_values() -> None:
    host = np.array([[np.nan, 1, 2], [-np.inf, 0, 5], [-np.inf] * 3, [0.0, -0.0, -0.0]], "f4")
    for width in (3, 1500, 40000):
        x = gp.from_numpy(np.tile(host, (1, width // 3)), device="cuda")

        def function(x: Any) -> Any:
            return nn.softmax(x) + x.max(**LAST) * 0.5 - x.min(**LAST) * 0.25

        got, want = gp.fuse(function)(x).to_numpy(), function(x).to_numpy()
        np.testing.assert_array_equal(got, want)
        number = ~np.isnan(want)
        np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(want[number]))


def test_mixed_dtypes() -> None:
    rng = np.random.default_rng(3)
    x = gp.from_numpy(rng.normal(size=(5, 512)).astype("bfloat16"), device="cuda")
    r = gp.from_numpy(rng.normal(size=(5, 512)).astype("f4"), device="cuda")
    flags = gp.from_numpy(rng.random((5, 512)) < 0.5, device="cuda")
    big = gp.from_numpy(rng.normal(size=(5, 512)), device="cuda")
    counts = gp.from_numpy(rng.integers(0, 9, 512).astype(np.int8), device="cuda")

    def function(x: Any, r: Any, flags: Any, big: Any, counts: Any, n: Any) -> Any:
        y = nn.rmsnorm(x.astype("float32") + r * n)
        return gp.where(flags, y * counts, big.astype("float32")).astype("float16")

    got = gp.fuse(function)(x, r, flags, big, counts, 3)
    want = gp.astype(
        gp.where(
            flags,
            nn.rmsnorm(gp.astype(x, "float32") + r * 3) * counts,
            gp.astype(big, "float32"),
        ),
        "float16",
    )
    assert got.dtype == gp.float16
    np.testing.assert_array_equal(got.to_numpy(), want.to_numpy())


def test_graph() -> None:
    rng = np.random.default_rng(4)
    x, r = (gp.from_numpy(rng.normal(size=(4, 512)).astype("f4"), device="cuda") for _ in range(2))
    w, out = gp.ones(512, device="cuda"), gp.empty((4, 512), device="cuda")
    function = gp.fuse(lambda x, r, w: nn.rmsnorm(x + r, w) * 2)
    want = function(x, r, w).to_numpy()
    graph = gp.CudaGraph()
    with graph:
        function(x, r, w, out=out)
    graph.replay()
    np.testing.assert_array_equal(out.to_numpy(), want)


def test_one_launch() -> None:
    x = gp.ones((64, 512), device="cuda")
    function = gp.fuse(lambda x: nn.layernorm(nn.softmax(x) * 3) + x.max(**LAST))
    out = gp.empty_like(x)
    function(x, out=out)
    graph = gp.CudaGraph()
    with graph:
        function(x, out=out)
    assert graph.num_nodes == 1


# --- random functions ---------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(sorted(STEPS)), st.integers(0, 8), st.integers(0, 8)),
        min_size=1,
        max_size=5,
    ),
    st.sampled_from(DTYPES),
    st.sampled_from([(5, 8), (3, 77), (2, 1000), (2, 4096), (1, 20000)]),
)
def test_random_functions(
    steps: list[tuple[str, int, int]], dtype: str, shape: tuple[int, int]
) -> None:
    case = chain(steps)
    arrays = to_device(case.draw(shape, dtype), "cuda")
    got, want = gp.fuse(case.ours)(*arrays), case.ours(*arrays)
    np.testing.assert_array_equal(got.to_numpy(), want.to_numpy())

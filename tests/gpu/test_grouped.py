"""Groups of rows on tensor cores: every plan over sizes that end anywhere, sizes on the device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes  # noqa: F401 - makes np.dtype("bfloat16") work
import numpy as np
import pytest

import pygpukit as gp
from pygpukit.ops.matmul_plan import explain_matmul, with_matmul_plan

GUARD = 8  # rows before and after the result that nobody may write
EDGES = (1, 63, 64, 65, 0, 127, 128, 129, 255, 256, 257, 2)
SIZES: dict[str, tuple[int, ...]] = {
    "one group": (300,),
    "edges": EDGES,
    "even": (128,) * 8,
    "one row each": (1,) * 40,
    "one row in all": (0, 0, 1, 0),
    "empty first and last": (0, 200, 0, 0, 77, 0),
    "skewed": (1500, 3, 0, 1, 40, 0, 0, 2),
    "many": tuple(int(s) for s in np.random.default_rng(2).integers(0, 40, 200)),
}
SHAPES = ((64, 64), (200, 264), (128, 520))  # k, n: below, beside and above whole tiles

# SIMT and tensor cores; without NVRTC only the variants of the PTX bundle.
MIN_PLANS = 3 if gp.is_nvrtc_available() else 2


@pytest.fixture(autouse=True)
def tf32() -> Iterator[None]:
    """Small integers are exact in every type."""
    gp.set_matmul_precision("tf32")
    yield
    gp.set_matmul_precision("float32")


class Operands:
    """Rows, matrices and a poisoned result with guard rows, of small integers."""

    def __init__(self, dtype: str, sizes: tuple[int, ...], k: int, n: int, **options: Any) -> None:
        rng = np.random.default_rng(k + n)
        self.sizes, self.n = sizes, n
        self.m = sum(sizes) + int(options.get("spare", 0))
        x = rng.integers(-1, 2, (self.m, k)).astype(np.float32)
        w = rng.integers(-1, 2, (len(sizes), n, k)).astype(np.float32)
        self.ids = np.repeat(np.arange(len(sizes)), sizes)
        self.want = np.zeros((self.m, n), np.float32)
        for g in range(len(sizes)):
            rows = np.flatnonzero(self.ids == g)
            self.want[rows] = x[rows] @ w[g].T
        self.x = gp.from_numpy(x.astype(dtype), device="cuda")
        host = np.ascontiguousarray(w.transpose(0, 2, 1)) if options.get("n_major") else w
        stored = gp.from_numpy(host.astype(dtype), device="cuda")
        self.w = gp.permute_dims(stored, (0, 2, 1)) if options.get("n_major") else stored
        self.device_sizes = gp.from_numpy(np.array(sizes, np.int32), device="cuda")
        self.whole = gp.empty((self.m + 2 * GUARD, n), dtype, device="cuda")
        self.out = self.whole[GUARD : GUARD + self.m]

    def run(self) -> None:
        gp.grouped_gemm(self.x, self.w, self.device_sizes, out=self.out)

    def plans(self) -> list[str]:
        return [plan["text"] for plan in explain_matmul(self.run).candidates]

    def check(self, plan: str) -> None:
        """Group by group, so that a failure says where."""
        self.whole[...] = float("nan")
        with_matmul_plan(self.run, plan)
        whole = self.whole.to_numpy().astype(np.float32)
        got = whole[GUARD : GUARD + self.m]
        wrong = []
        begin = 0
        for g, size in enumerate([*self.sizes, self.m - sum(self.sizes)]):
            rows = slice(begin, begin + size)
            bad = got[rows] != self.want[rows]
            if bad.any():
                r, c = (int(i) for i in np.argwhere(bad)[0])
                name = f"group {g}" if g < len(self.sizes) else "rows of no group"
                wrong.append(
                    f"{name}, rows {begin} to {begin + size}: {int(bad.sum())} of {bad.size} "
                    f"wrong, {int(np.isnan(got[rows]).sum())} not written; first at its row {r}, "
                    f"column {c}: {got[rows][r, c]}, expected {self.want[rows][r, c]}; wrong rows "
                    f"{np.flatnonzero(bad.any(1))[:8].tolist()}, columns "
                    f"{np.flatnonzero(bad.any(0))[:8].tolist()}"
                )
            begin += size
        assert not wrong, f"{plan}:\n" + "\n".join(wrong[:6])
        guards = np.concatenate([whole[:GUARD], whole[GUARD + self.m :]])
        assert np.isnan(guards).all(), f"{plan}: wrote outside of the result"


@pytest.mark.parametrize(("k", "n"), SHAPES)
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("n_major", [False, True], ids=["k-major", "n-major"])
def test_every_plan(sizes: str, k: int, n: int, n_major: bool) -> None:
    operands = Operands("bfloat16", SIZES[sizes], k, n, n_major=n_major)
    plans = operands.plans()
    assert len(plans) >= MIN_PLANS
    for plan in plans:
        operands.check(plan)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("n_major", [False, True], ids=["k-major", "n-major"])
def test_dtypes(dtype: str, n_major: bool) -> None:
    for k, n in SHAPES:
        operands = Operands(dtype, EDGES, k, n, n_major=n_major)
        for plan in operands.plans():
            operands.check(plan)


def test_rows_of_no_group_are_zero() -> None:
    for spare in (1, 64, 500):
        operands = Operands("bfloat16", (100, 0, 29), 128, 264, spare=spare)
        for plan in operands.plans():
            operands.check(plan)


def test_columns_that_end_inside_a_vector() -> None:
    """C has a pitch of whole lines, but not so many columns."""
    operands = Operands("bfloat16", EDGES, 64, 136)
    wide = gp.full((operands.m, 136), float("nan"), "bfloat16", device="cuda")
    for n in (129, 131):

        def run(n: int = n) -> None:
            gp.grouped_gemm(operands.x, operands.w[:, :n], operands.device_sizes, out=wide[:, :n])

        for plan in explain_matmul(run).candidates:
            wide[...] = float("nan")
            with_matmul_plan(run, plan["text"])
            got = wide.to_numpy().astype(np.float32)
            np.testing.assert_array_equal(got[:, :n], operands.want[:, :n], err_msg=plan["text"])
            assert np.isnan(got[:, n:]).all(), plan["text"]


@pytest.mark.parametrize("experts", [8, 64, 300])
def test_larger_products(experts: int) -> None:
    """Many steps of k and several tiles per block, with sizes drawn by a skewed router."""
    rng = np.random.default_rng(experts)
    share = rng.dirichlet(np.full(experts, 0.3))
    sizes = tuple(int(s) for s in rng.multinomial(3000, share))
    operands = Operands("bfloat16", sizes, 256, 1024)
    assert np.abs(operands.want).max() <= 256  # exact in bfloat16
    for plan in operands.plans():
        for _ in range(3):
            operands.check(plan)


def test_a_broadcast_matrix() -> None:
    operands = Operands("bfloat16", (70, 60), 64, 64)
    operands.w = gp.broadcast_to(operands.w[:1], operands.w.shape)
    host = operands.x.to_numpy().astype(np.float32)
    operands.want = host @ operands.w.to_numpy()[0].astype(np.float32).T
    for plan in operands.plans():
        operands.check(plan)


@pytest.mark.parametrize("index", ["int32", "int64"])
def test_expert_ids(index: str) -> None:
    rng = np.random.default_rng(0)
    x, w = rng.integers(-1, 2, (700, 64)), rng.integers(-1, 2, (9, 72, 64))
    ids = rng.integers(-1, 10, 700)
    want = np.einsum("ik,ink->in", x, w[np.clip(ids, 0, 8)]) * ((ids >= 0) & (ids < 9))[:, None]
    gx, gw = (gp.from_numpy(a.astype("bfloat16"), device="cuda") for a in (x, w))
    gids = gp.from_numpy(ids.astype(index), device="cuda")
    out = gp.empty((700, 72), "bfloat16", device="cuda")

    def run() -> None:
        gp.grouped_gemm(gx, gw, expert_ids=gids, out=out)

    plans = explain_matmul(run).candidates
    assert len(plans) >= MIN_PLANS
    for plan in plans:
        out[...] = float("nan")
        with_matmul_plan(run, plan["text"])
        np.testing.assert_array_equal(out.to_numpy().astype(int), want, err_msg=plan["text"])


def test_a_graph_follows_the_sizes() -> None:
    operands = Operands("bfloat16", (300, 200, 0, 12), 192, 256)
    for plan in operands.plans():
        with_matmul_plan(operands.run, plan)
        graph = gp.CudaGraph()
        with graph:
            with_matmul_plan(operands.run, plan)
        for sizes in ((0, 1, 511, 0), (128, 128, 128, 128), (512, 0, 0, 0)):
            changed = Operands("bfloat16", sizes, 192, 256)
            operands.device_sizes[:] = changed.device_sizes
            operands.whole[...] = float("nan")
            graph.replay()
            got = operands.out.to_numpy().astype(np.float32)
            np.testing.assert_array_equal(got, changed.want, err_msg=f"{plan}, {sizes}")


def test_the_same_bits_again() -> None:
    rng = np.random.default_rng(5)
    x = gp.from_numpy(rng.normal(size=(900, 512)).astype("f4"), device="cuda").astype("bfloat16")
    w = gp.from_numpy(rng.normal(size=(6, 384, 512)).astype("f4"), device="cuda").astype("bfloat16")
    sizes = gp.from_numpy(np.array([100, 0, 500, 1, 64, 235], np.int32), device="cuda")
    plans = explain_matmul(lambda: gp.grouped_gemm(x, w, sizes)).candidates
    for plan in plans:
        first = with_matmul_plan(lambda: gp.grouped_gemm(x, w, sizes), plan["text"])
        for _ in range(20):
            again = with_matmul_plan(lambda: gp.grouped_gemm(x, w, sizes), plan["text"])
            assert bool((again == first).all()), plan["text"]

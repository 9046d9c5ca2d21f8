"""Runs the cases of the moe family on a device. Shared by tests/unit and tests/gpu."""

from __future__ import annotations

from typing import Any

import numpy as np

import pygpukit as gp
from cases import moe as cases
from cases.run_nn import to_device
from pygpukit.ops import moe


def run_route(case: cases.Route, device: str | None = None, view: str = "whole") -> None:
    logits, bias = case.draw()
    want_weights, want_experts = cases.route(logits, case.top_k, bias=bias, **case.options)
    options = {**case.options, "bias": to_device(bias, device)}
    weights, experts = moe.moe_route(to_device(logits, device, view), case.top_k, **options)
    assert (weights.dtype.name, experts.dtype.name) == ("float32", "int32")
    np.testing.assert_array_equal(experts.to_numpy(), want_experts)
    np.testing.assert_allclose(weights.to_numpy(), want_weights, rtol=2e-5, atol=1e-9)


def run_permute(case: cases.Permute, device: str | None = None, view: str = "whole") -> None:
    x, ids = case.x(), case.ids()
    want = cases.permute(x, ids, case.experts)
    arrays = to_device(x, device, view), to_device(ids, device)
    got = moe.moe_permute(*arrays, case.experts)
    assert [a.dtype.name for a in got] == [case.dtype, "int32", "int32"]
    for ours, theirs in zip(got[1:], want[1:], strict=True):
        np.testing.assert_array_equal(ours.to_numpy(), theirs)
    np.testing.assert_array_equal(bits(got[0]), bits(want[0]))
    for _ in range(2):
        again = moe.moe_permute(*arrays, case.experts)
        np.testing.assert_array_equal(again[2].to_numpy(), want[2])
    if case.dtype in cases.DTYPES:
        run_unpermute(case, got[2], device)


def bits(array: Any) -> Any:
    host = np.ascontiguousarray(array if isinstance(array, np.ndarray) else array.to_numpy())
    return host.view(f"u{host.dtype.itemsize}")


def run_unpermute(case: cases.Permute, row_map: gp.GPUArray, device: str | None) -> None:
    """Other rows at the same places, with weights and without."""
    rng = cases.rng_of(f"{case} rows")
    rows = rng.normal(size=(case.tokens * case.top_k, case.width)).astype(case.dtype)
    weights = rng.random((case.tokens, case.top_k)).astype(np.float32)
    places = row_map.to_numpy()
    ours = to_device(rows, device)
    for given in (None, weights, weights.astype(case.dtype)):
        want, size = cases.unpermute(rows, places, given)
        got = moe.moe_unpermute(ours, row_map, to_device(given, device))
        assert got.dtype.name == case.dtype
        error = np.abs(got.to_numpy().astype(np.float64) - want)
        assert (error <= cases.ROUNDING[case.dtype] * size + 1e-7).all()
        again = moe.moe_unpermute(ours, row_map, to_device(given, device))
        np.testing.assert_array_equal(again.to_numpy(), got.to_numpy())


def run_out(device: str | None = None) -> None:
    """out= given, of another dtype, strided, overlapping the rows."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(12, 16)).astype(np.float32)
    ids = rng.integers(0, 5, (12, 2)).astype(np.int32)
    gx, gids = (gp.from_numpy(a, device=device) for a in (x, ids))
    rows, sizes, row_map = moe.moe_permute(gx, gids, 5)
    out = gp.empty((24, 16), "float32", device=device)
    given = moe.moe_permute(gx, gids, 5, out=out)
    assert given[0] is out
    np.testing.assert_array_equal(out.to_numpy(), rows.to_numpy())
    np.testing.assert_array_equal(given[1].to_numpy(), sizes.to_numpy())
    want = moe.moe_unpermute(rows, row_map).to_numpy()
    wide = gp.zeros((12, 20), "float32", device=device)
    moe.moe_unpermute(rows, row_map, out=wide[:, 2:18])
    np.testing.assert_array_equal(wide.to_numpy()[:, 2:18], want)
    assert not wide.to_numpy()[:, :2].any()
    double = gp.zeros((12, 16), "float64", device=device)
    assert moe.moe_unpermute(rows, row_map, out=double) is double
    np.testing.assert_array_equal(double.to_numpy(), want)
    moe.moe_unpermute(rows, row_map, out=rows[:12])
    np.testing.assert_array_equal(rows.to_numpy()[:12], want)


def run_mlp(tokens: int, dtype: str, device: str | None = None, **options: Any) -> gp.GPUArray:
    rng = np.random.default_rng(tokens)
    n, hidden, experts, top_k = 64, 48, 8, 2
    x = rng.normal(size=(tokens, n)).astype(dtype)
    logits = rng.normal(size=(tokens, experts)).astype(np.float32)
    gate_up = (rng.normal(size=(experts, 2 * hidden, n)) / 8).astype(dtype)
    down = (rng.normal(size=(experts, n, hidden)) / 7).astype(dtype)
    arrays = [gp.from_numpy(a, device=device) for a in (x, logits, gate_up, down)]
    out = gp.full((tokens, n), float("nan"), dtype, device=device)
    assert moe.moe_mlp(*arrays, top_k, renormalize=True, out=out, **options) is out
    weights, chosen = cases.route(logits, top_k, renormalize=True, **options)
    want, error = cases.mlp(x, gate_up, down, weights, chosen, dtype)
    np.testing.assert_allclose(out.to_numpy().astype(np.float64), want, rtol=0, atol=error)
    np.testing.assert_array_equal(
        moe.moe_mlp(*arrays, top_k, renormalize=True, **options).to_numpy(), out.to_numpy()
    )
    return out


def run_steps(dtype: str, device: str | None = None) -> None:
    """0.2's steps do what route, permute and unpermute do."""
    native: Any = gp.core.backend.get_native_module()
    rng = np.random.default_rng(5)
    tokens, experts, k, n = 40, 16, 3, 24
    host = rng.normal(size=(tokens, experts)).astype(dtype)
    logits = gp.from_numpy(host, device=device)
    x = gp.from_numpy(rng.normal(size=(tokens, n)).astype(dtype), device=device)

    def zeros(*shape: int, kind: str = "int32") -> gp.GPUArray:
        return gp.zeros(shape, kind, device=device)

    values, indices = zeros(tokens, k, kind=dtype), zeros(tokens, k)
    native.moe_topk_with_indices(logits, values, indices, k)
    order = np.argsort(-host.astype(np.float64), axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(indices.to_numpy(), order)
    np.testing.assert_array_equal(values.to_numpy(), np.take_along_axis(host, order, 1))
    native.moe_softmax_topk(values, k)
    weights, _ = moe.moe_route(logits, k, renormalize=True)
    np.testing.assert_allclose(
        values.to_numpy().astype(np.float64), weights.to_numpy(), rtol=0, atol=8e-3
    )
    counts, offsets = zeros(experts), zeros(experts + 1)
    slots, places = zeros(tokens * k), zeros(tokens * k)
    native.moe_compute_permutation(indices, counts, offsets, slots, places, experts, k)
    rows, sizes, row_map = moe.moe_permute(x, indices, experts)
    np.testing.assert_array_equal(counts.to_numpy(), sizes.to_numpy())
    np.testing.assert_array_equal(offsets.to_numpy()[1:], np.cumsum(sizes.to_numpy()))
    np.testing.assert_array_equal(places.to_numpy(), row_map.to_numpy().ravel())
    np.testing.assert_array_equal(slots.to_numpy()[places.to_numpy()], np.arange(tokens * k))
    gathered = zeros(tokens * k, n, kind=dtype)
    native.moe_gather(x, slots, gathered, k)
    np.testing.assert_array_equal(gathered.to_numpy(), rows.to_numpy())
    output = zeros(tokens, n, kind=dtype)
    native.moe_scatter(gathered, values, places, output, k)
    np.testing.assert_array_equal(
        output.to_numpy(), moe.moe_unpermute(rows, row_map, values).to_numpy()
    )
    ids = zeros(tokens * k + 2)
    native.moe_expand_expert_offsets(offsets, ids, experts)
    np.testing.assert_array_equal(
        ids.to_numpy(), [*np.repeat(np.arange(experts), sizes.to_numpy()), experts, experts]
    )

"""Mixture of experts: routing, rows sorted by expert and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Arrays = tuple[NDArray[Any], ...]


def _scores(x: NDArray[Any], scoring: str) -> NDArray[Any]:
    with np.errstate(over="ignore", invalid="ignore"):
        if scoring == "softmax":
            e = np.exp(x - np.max(x, axis=-1, keepdims=True))
            result: NDArray[Any] = e / np.sum(e, axis=-1, keepdims=True)
            return result
        return 1 / (1 + np.exp(-x)) if scoring == "sigmoid" else x


def _ranked(x: NDArray[Any]) -> NDArray[Any]:
    """Positions along the last axis, largest first, then by position; NaN last."""
    return np.lexsort((-x, np.isnan(x)), axis=-1)


def _in_best_groups(
    value: NDArray[Any], num_groups: int, top_groups: int, best: int
) -> NDArray[Any]:
    """Where experts belong to the top_groups groups with the largest sum of `best` values."""
    tokens, experts = value.shape
    groups = value.reshape(tokens, num_groups, experts // num_groups)
    top = np.take_along_axis(groups, _ranked(groups)[..., :best], -1).sum(-1)
    kept = np.zeros((tokens, num_groups), bool)
    np.put_along_axis(kept, _ranked(top)[:, :top_groups], True, -1)
    return np.repeat(kept, experts // num_groups, axis=-1)


def moe_route(
    logits: NDArray[Any],
    bias: NDArray[Any] | None,
    *,
    scoring: str,
    renormalize: bool,
    num_groups: int,
    top_groups: int,
    scale: float,
    out: Arrays,
) -> None:
    """The best experts of each row and their weights"""
    weights, experts = out
    x = logits.astype(np.float32)
    scores = _scores(x, scoring)
    value = x if bias is None else scores + bias
    order = _ranked(value)
    if num_groups > 1:
        kept = _in_best_groups(value, num_groups, top_groups, 1 if bias is None else 2)
        outside = ~np.take_along_axis(kept, order, -1)
        order = np.take_along_axis(order, np.argsort(outside, axis=-1, kind="stable"), -1)
    chosen = order[:, : experts.shape[1]]
    result = np.take_along_axis(scores, chosen, -1)
    if renormalize:
        result = result / (result.sum(-1, keepdims=True) + np.float32(1e-20))
    weights[...] = result * np.float32(scale)
    experts[...] = chosen


def moe_order(experts: NDArray[Any], *, out: Arrays) -> None:
    """Sizes of experts, the place of each choice by expert, and the choice at each place"""
    sizes, row_map, slots = out
    ids = experts.reshape(-1).astype(np.int64)
    ids = np.where((ids >= 0) & (ids < len(sizes)), ids, len(sizes))
    order = np.argsort(ids, kind="stable")
    sizes[...] = np.bincount(ids, minlength=len(sizes) + 1)[:-1]
    places = np.empty(ids.size, np.int32)
    places[order] = np.arange(ids.size)
    row_map[...] = places.reshape(row_map.shape)
    slots[...] = order


def moe_permute(x: NDArray[Any], experts: NDArray[Any], *, out: Arrays) -> None:
    """Rows in the order of their experts"""
    rows, sizes, row_map = out
    slots = np.empty(experts.size, np.int32)
    moe_order(experts, out=(sizes, row_map, slots))
    rows[...] = x[slots // (experts.size // max(len(x), 1) or 1)]


def moe_unpermute(
    rows: NDArray[Any], row_map: NDArray[Any], weights: NDArray[Any] | None, *, out: NDArray[Any]
) -> None:
    """Weighted sums of the rows of each token"""
    places = row_map.reshape(len(row_map), -1)
    factors: NDArray[Any] = np.ones(places.shape, np.float32)
    if weights is not None:
        factors = weights.astype(np.float32).reshape(places.shape)
    total = np.zeros(out.shape, np.float32)
    for j in range(places.shape[1]):
        known = (places[:, j] >= 0) & (places[:, j] < len(rows))
        total[known] += factors[known, j, None] * rows[places[known, j]].astype(np.float32)
    out[...] = total


__all__ = ["moe_order", "moe_permute", "moe_route", "moe_unpermute"]

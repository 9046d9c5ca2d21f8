"""dask.array with our arrays as chunks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dask
import dask.array as da
import numpy as np

from clients.uses import Use

RNG = np.random.default_rng(35)
X = RNG.normal(size=(6, 4, 3))
M = X[:, :, 0].copy()
K = RNG.integers(0, 5, 20)

DaskCall = Callable[[Any], Any]


def _computed(call: DaskCall, host: Any = X, chunks: Any = (3, 2, 3), **options: Any) -> Use:
    def use(a: Any) -> Any:
        with dask.config.set(scheduler="synchronous"):
            return dask.compute(call(da.from_array(a(host), chunks=chunks, asarray=False)))[0]

    return Use(use, **options)


def _assigned(d: Any) -> Any:
    d = d.copy()
    d[d > 0] = 0
    d[1] = 5.0
    return d


def _moved(a: Any) -> Any:
    """Blocks that become ours on the way."""
    with dask.config.set(scheduler="synchronous"):
        return da.from_array(X, chunks=3).map_blocks(a).mean(axis=0).compute()


def _in_threads(a: Any) -> Any:
    return da.from_array(a(X), chunks=2, asarray=False).std(axis=0).compute(scheduler="threads")


CALLS: dict[str, DaskCall] = {
    "arithmetic": lambda d: d * 2 + d**2 - da.exp(d) / 3,
    "comparison": lambda d: da.where((d > 0) & (d < 1), d, -d),
    "sum": lambda d: (d.sum(), d.sum(axis=0), d.sum(axis=(0, 2), keepdims=True)),
    "mean": lambda d: (d.mean(), d.mean(axis=1), da.average(d, axis=0)),
    "spread": lambda d: (d.std(axis=(0, 1)), d.var(axis=0, ddof=1)),
    "extremes": lambda d: (d.max(axis=2), d.argmax(axis=1), d.argmin(), da.nanmax(d)),
    "any and all": lambda d: ((d > 0).any(axis=0), (d > -9).all()),
    "scans": lambda d: (d.cumsum(axis=0), d.cumprod(axis=1)),
    "slices": lambda d: (d[1:5, ::-1, 0], d[..., None, 2], d[[3, 1, 2]], d[d > 0]),
    "vindex": lambda d: d.vindex[[0, 1], [1, 2]],
    "shapes": lambda d: (d.reshape(6, 12), d.T, d.rechunk((2, 4, 1)), da.squeeze(d[:1])),
    "joins": lambda d: (da.concatenate([d, d], axis=1), da.stack([d, d]), da.block([d, d])),
    "tensordot": lambda d: da.tensordot(d, d, axes=([0, 2], [0, 2])),
    "einsum": lambda d: da.einsum("abc,adc->abd", d, d),
    "map_blocks": lambda d: d.map_blocks(lambda block: block * 2),
    "map_overlap": lambda d: d.map_overlap(lambda block: block + 1, depth=1, boundary="reflect"),
    "astype": lambda d: d.astype("float32").round(1).clip(-1, 1),
    "order": lambda d: (da.median(d, axis=0), d.topk(2, axis=0)),
    "percentile": lambda d: da.percentile(d.ravel(), [10, 50, 90]),
    "fft": lambda d: da.fft.fft(d, axis=2),
    "histogram": lambda d: da.histogram(d, bins=4, range=(-2, 2))[0],
    "diff": lambda d: (da.diff(d, axis=0), da.roll(d, 1, 0), da.pad(d, 1)),
    "nan": lambda d: (da.nanmean(d, axis=0), da.nansum(d), da.isnan(d)),
    "setitem": _assigned,
    "like": lambda d: (da.ones_like(d), da.zeros_like(d), da.full_like(d, 3)),
    "digitize": lambda d: da.digitize(d, np.array([-1.0, 0.0, 1.0])),
    "apply_along_axis": lambda d: da.apply_along_axis(lambda row: row.sum(), 0, d),
    "coarsen": lambda d: da.coarsen(np.sum, d, {0: 3}),
    "ufuncs of NumPy": lambda d: np.maximum(np.sin(d), 0.5),
}
MATRIX: dict[str, DaskCall] = {
    "matmul": lambda d: d.T @ d,
    "norm": da.linalg.norm,
    "svd": lambda d: da.linalg.svd(d.rechunk((3, 4)))[1],
    "cov": da.cov,
    "triangles": lambda d: (da.tril(d), da.triu(d, 1)),
    "outer": lambda d: da.outer(d[0], d[1]),
}
COUNTS: dict[str, DaskCall] = {
    "bincount": lambda d: da.bincount(d, minlength=6),
    "unique": da.unique,
    "searchsorted": lambda d: da.searchsorted(d.map_blocks(np.sort), d),
}

USES: dict[str, Use] = {
    **{name: _computed(call, close=1e-6) for name, call in CALLS.items()},
    **{name: _computed(call, M, 3) for name, call in MATRIX.items()},
    **{name: _computed(call, K, 20) for name, call in COUNTS.items()},
    "blocks moved to the device": Use(_moved),
    "threads": Use(_in_threads),
}

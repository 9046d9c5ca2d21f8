"""xarray with our arrays as data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr

from clients.uses import Use

RNG = np.random.default_rng(36)
X = RNG.normal(size=(6, 4, 3))
COORDINATES = {"t": np.arange(6), "x": [10.0, 20.0, 30.0]}


def _data(call: Callable[[Any], Any], **options: Any) -> Use:
    def use(a: Any) -> Any:
        result = call(xr.DataArray(a(X), dims=("t", "y", "x"), coords=COORDINATES, name="a"))
        results = result if isinstance(result, tuple) else (result,)
        return [r.data if hasattr(r, "data") else r for r in results]

    return Use(use, **options)


def _assigned(d: Any) -> Any:
    d = d.copy()
    d[{"t": 0}] = 7.0
    d.loc[{"x": 20.0}] = 1.0
    return d


def _equal(d: Any) -> Any:
    xr.testing.assert_allclose(d, d.copy())
    return float(d.equals(d.copy())), float(d.identical(d + 1))


CALLS: dict[str, Callable[[Any], Any]] = {
    "arithmetic": lambda d: (d * 2 + d**2 - 1) / 3,
    "ufuncs of NumPy": lambda d: np.exp(np.sin(d)),
    "alignment": lambda d: (d + d.mean("t"), d - d.isel(t=slice(2, 5))),
    "reductions": lambda d: (d.sum("t"), d.mean(["y", "x"]), d.std("t"), d.var("t", ddof=1)),
    "extremes": lambda d: (d.max("t"), d.min(), d.argmax("t"), d.median("y")),
    "counts": lambda d: (d.count("t"), (d > 0).any("t"), (d > -9).all()),
    "scans": lambda d: (d.cumsum("t"), d.cumprod("x"), d.diff("t")),
    "quantile": lambda d: d.quantile(0.3, "t"),
    "isel": lambda d: (d.isel(t=2), d.isel(t=slice(None, None, -1), x=-1), d.isel(t=[3, 1])),
    "sel": lambda d: (d.sel(x=20.0), d.sel(t=slice(1, 3)), d.sel(x=19, method="nearest")),
    "masks": lambda d: (d[d.t > 2], d.where(d > 0, 0.0), xr.where(d > 0, d, -d)),
    "shapes": lambda d: (d.transpose("x", "t", "y"), d.stack(z=("t", "y")), d.expand_dims("b")),
    "joins": lambda d: (xr.concat([d, d], "t"), xr.concat([d, d], "n")),
    "dot": lambda d: (xr.dot(d, d, dim="t"), d.isel(t=0) @ d.isel(t=1)),
    "rolls": lambda d: (d.roll(t=2), d.pad(t=1, mode="edge"), d.pad(t=1, constant_values=0.0)),
    "calculus": lambda d: (d.differentiate("x"), d.integrate("x")),
    "coarsen": lambda d: d.coarsen(t=2).mean(),
    "groupby": lambda d: (d.groupby(d.t % 2).mean(), d.groupby(d.t % 3).sum()),
    "sortby": lambda d: (d.sortby("x", ascending=False), d.reindex(t=[5, 1])),
    "assignment": _assigned,
    "apply_ufunc": lambda d: xr.apply_ufunc(lambda v: v.mean(-1), d, input_core_dims=[["t"]]),
    "like": lambda d: (xr.zeros_like(d), xr.full_like(d, 2.0), d.astype("float32")),
    "clip": lambda d: (d.clip(-1, 1), d.round(1)),
    "Dataset": lambda d: xr.Dataset({"a": d, "b": d.mean("t")}).mean("x").a,
    "Dataset to array": lambda d: (xr.Dataset({"a": d, "b": d}) * 2).to_dataarray(),
    "merge": lambda d: xr.merge([d, d.rename("b")]).b,
}

USES: dict[str, Use] = {
    **{name: _data(call, close=1e-6) for name, call in CALLS.items()},
    "comparison": _data(_equal),
    "numbers": _data(lambda d: (float(d.sum()), d.mean().item(), d.nbytes), converts=True),
    "values": _data(lambda d: (d.values, d.to_numpy()), converts=True, ours=False),
    "pandas": _data(lambda d: d.isel(t=0).to_pandas().to_numpy(), converts=True, ours=False),
    "interp": _data(lambda d: d.interp(x=15.0), converts=True, ours=False),
}

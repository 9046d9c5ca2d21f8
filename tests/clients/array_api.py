"""array-api-compat and array-api-extra."""

from __future__ import annotations

import array_api_compat as compat
import array_api_extra as xpx
import numpy as np

from clients.uses import Use

RNG = np.random.default_rng(33)
V = RNG.normal(size=30)
K = RNG.integers(0, 6, 30)
M = RNG.normal(size=(6, 6))


def normalised(x):  # type: ignore[no-untyped-def]
    """As a library writes it: for arrays of any library."""
    xp = compat.array_namespace(x)
    size = compat.size(x)
    assert compat.is_array_api_obj(x)
    assert compat.device(x) == compat.device(compat.to_device(x, compat.device(x)))
    x = xp.astype(x, xp.float64)
    return (x - xp.mean(x)) / (xp.std(x) + 1 / size)


USES: dict[str, Use] = {
    "array_namespace": Use(lambda a: (normalised(a(V)), normalised(a(K)))),
    "apply_where": Use(
        lambda a: xpx.apply_where(a(V) > 0, a(V), lambda x: x**0.5, fill_value=-1.0)
    ),
    "apply_where of two": Use(
        lambda a: xpx.apply_where(a(V) > 0, (a(V), a(K)), lambda x, y: x * y, lambda x, y: x - y)
    ),
    "at": Use(
        lambda a: (
            xpx.at(a(V.copy()), 3).set(9.0),
            xpx.at(a(V.copy()))[a(V) > 0].multiply(2.0),
            xpx.at(a(V.copy()), slice(2, 9)).add(1.0),
            xpx.at(a(V.copy()), a(K) > 2).max(0.0),
            xpx.at(a(V), 0).set(5.0, copy=True),
        )
    ),
    "atleast_nd": Use(lambda a: xpx.atleast_nd(a(V), ndim=3)),
    "cov": Use(lambda a: xpx.cov(a(M))),
    "create_diagonal": Use(lambda a: xpx.create_diagonal(a(V), offset=-2)),
    "isclose": Use(lambda a: xpx.isclose(a(V), a(V + 1e-12))),
    "isin": Use(lambda a: xpx.isin(a(K), a([1, 3]))),
    "kron": Use(lambda a: xpx.kron(a(M[:2]), a(M))),
    "nan_to_num": Use(lambda a: xpx.nan_to_num(a(np.where(V > 1, np.nan, V)))),
    "nunique": Use(lambda a: xpx.nunique(a(K))),
    "one_hot": Use(lambda a: xpx.one_hot(a(K), 6)),
    "pad": Use(lambda a: xpx.pad(a(M), ((1, 0), (0, 2)), constant_values=7)),
    "partition": Use(lambda a: xpx.partition(a(V), 4)[4]),
    "argpartition": Use(lambda a: xpx.argpartition(a(V), 4)[4]),
    "setdiff1d": Use(lambda a: (xpx.setdiff1d(a(K), a([1, 2])), xpx.union1d(a(K), a([9])))),
    "sinc": Use(lambda a: xpx.sinc(a(V))),
    "nan reductions": Use(lambda a: (xpx.nanmax(a(M)), xpx.nansum(a(M)), xpx.nanmean(a(M)))),
    "lazy_apply": Use(lambda a: xpx.lazy_apply(lambda x: x * 2, a(V), as_numpy=False)),
    "lazy_apply on the host": Use(
        lambda a: xpx.lazy_apply(np.sort, a(V), as_numpy=True), converts=True
    ),
    "unravel_index": Use(lambda a: xpx.unravel_index(a(K), (2, 3))),
}

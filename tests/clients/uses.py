"""A use: the same call of another library with NumPy's arrays and with ours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import pygpukit as gp

Call = Callable[[Callable[[Any], Any]], Any]


@dataclass(frozen=True)
class Use:
    """`call` is given a function that makes arrays of NumPy's. `converts`: the library asks for
    NumPy arrays on the way, which a GPU refuses. `ours`: results are arrays of ours. `signs`: the
    results, by place, whose columns are axes: each is unique up to its sign."""

    call: Call
    converts: bool = False
    ours: bool = True
    close: float = 1e-9
    signs: tuple[int, ...] = ()


def _is_array(value: Any) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype")


def _compare(name: str, got: Any, want: Any, use: Use, device: str) -> None:
    if isinstance(want, dict):
        want, got = list(want.values()), [got[key] for key in want]
    if isinstance(want, (tuple, list)):
        assert len(got) == len(want), name
        for g, w in zip(got, want, strict=True):
            _compare(name, g, w, use, device)
        return
    if use.ours and _is_array(want) and np.ndim(want) > 0:
        assert isinstance(got, gp.GPUArray), f"{name}: {type(got)}"
        assert got.device == device
    ours = gp.asnumpy(got)
    assert ours.shape == np.shape(want), name
    np.testing.assert_allclose(ours, want, rtol=use.close, atol=use.close, err_msg=name)


def _with_signs_of(got: Any, want: Any) -> Any:
    """The columns of `got` with the signs of `want`'s."""
    products = (gp.asnumpy(got) * want).sum(axis=0)
    return got * gp.from_numpy(np.where(products < 0, -1.0, 1.0), device=got.device)


def run(name: str, use: Use, device: str) -> None:
    """With our arrays on a device as with NumPy's."""
    want = use.call(np.asarray)
    got = use.call(lambda host: gp.from_numpy(np.asarray(host), device=device))
    at = gp.empty(0, device=device).device
    for place in use.signs:
        got[place] = _with_signs_of(got[place], want[place])
    _compare(name, got, want, use, at)

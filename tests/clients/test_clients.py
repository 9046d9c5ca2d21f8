"""Every use of every library, on CPU simulation: the results of NumPy's arrays, on ours.

A library that is not installed is skipped; `make clients` makes an environment with all of them.
"""

from __future__ import annotations

import importlib

import pytest

from clients.uses import Use, run
from pygpukit.core import implicit, numpy_dispatch

MODULES = {
    "array_api": "array_api_extra",
    "contractions": "opt_einsum",
    "dask_arrays": "dask.array",
    "scikit_learn": "sklearn",
    "scipy_functions": "scipy",
    "xarray_arrays": "xarray",
}


def uses() -> list[object]:
    found: list[object] = []
    for module, library in MODULES.items():
        try:
            importlib.import_module(library)
        except ImportError as error:
            reason = pytest.mark.skip(reason=f"{library} is not installed: {error}")
            found.append(pytest.param("", None, id=module, marks=reason))
            continue
        table: dict[str, Use] = importlib.import_module(f"clients.{module}").USES
        found += [pytest.param(name, use, id=f"{module}-{name}") for name, use in table.items()]
    return found


@pytest.mark.parametrize(("name", "use"), uses())
def test_use(name: str, use: Use, monkeypatch: pytest.MonkeyPatch) -> None:
    run(name, use, "cpu")
    # As on a GPU, where nothing becomes a NumPy array by itself.
    monkeypatch.setattr(implicit, "may_convert", lambda x: False)
    monkeypatch.setattr(numpy_dispatch, "may_convert", lambda x: False)
    if not use.converts:
        run(name, use, "cpu")
        return
    with pytest.raises((TypeError, ValueError, RuntimeError)) as caught:
        run(name, use, "cpu")
    assert "NumPy array" in str(caught.value) or "to_numpy" in str(caught.value)

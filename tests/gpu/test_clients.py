"""Other libraries on arrays in GPU memory: every use that needs no array on the host.

A library that is not installed is skipped; tests/clients has the uses.
"""

from __future__ import annotations

import importlib

import pytest
from clients.uses import Use, run

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
            table: dict[str, Use] = importlib.import_module(f"clients.{module}").USES
        except ImportError as error:
            reason = pytest.mark.skip(reason=f"{module}: {error}")
            found.append(pytest.param("", None, id=module, marks=reason))
            continue
        found += [
            pytest.param(name, use, id=f"{module}-{name}")
            for name, use in table.items()
            if not use.converts
        ]
    return found


@pytest.mark.parametrize(("name", "use"), uses())
def test_use(name: str, use: Use) -> None:
    run(name, use, "cuda")

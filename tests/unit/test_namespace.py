"""The public namespace: its names and the inspection; test_standard.py has the signatures."""

from __future__ import annotations

import ast
import importlib
import math
import subprocess
import sys
from pathlib import Path

import pytest

import pygpukit as gp
from pygpukit._names import OPS

ROOT = Path(__file__).resolve().parents[2]


def test_calls_of_the_standard_by_keyword() -> None:
    for name in ("zeros", "ones", "empty"):
        x = getattr(gp, name)(shape=(2,), dtype=gp.int8, device=gp.zeros(1).device)
        assert (x.shape, x.dtype) == ((2,), gp.int8)
    assert gp.full(shape=(2,), fill_value=1, dtype=gp.int8, device=None).dtype is gp.int8


def test_constants() -> None:
    assert (gp.e, gp.pi) == (math.e, math.pi)
    assert gp.inf == math.inf
    assert math.isnan(gp.nan)
    assert gp.newaxis is None
    assert gp.bool.name == "bool"
    assert gp.__array_api_version__ == "2024.12"


def test_array_namespace() -> None:
    x = gp.ones(2)
    for version in (None, "2021.12", "2022.12", "2023.12", "2024.12"):
        assert x.__array_namespace__(api_version=version) is gp
    with pytest.raises(ValueError, match="'1999'"):
        x.__array_namespace__(api_version="1999")


def test_inspection() -> None:
    info = gp.__array_namespace_info__()
    assert info.capabilities() == {
        "boolean indexing": True,
        "data-dependent shapes": True,
        "max dimensions": 32,
    }
    assert info.default_device() == gp.zeros(1).device == "cpu"
    assert "cpu" in info.devices()
    assert (
        info.default_dtypes()
        == info.default_dtypes(device="cpu")
        == {
            "real floating": gp.float32,
            "complex floating": gp.complex64,
            "integral": gp.int64,
            "indexing": gp.int64,
        }
    )
    every = info.dtypes(device="cpu")
    assert len(every) == 13
    assert all(getattr(gp, name) is dtype for name, dtype in every.items())
    assert set(info.dtypes(kind="bool")) == {"bool"}
    assert set(info.dtypes(kind="signed integer")) == {"int8", "int16", "int32", "int64"}
    assert set(info.dtypes(kind=("unsigned integer", "bool"))) == {
        "bool",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
    }
    assert set(info.dtypes(kind="real floating")) == {"float32", "float64"}
    assert set(info.dtypes(kind="complex floating")) == {"complex64", "complex128"}
    assert set(info.dtypes(kind="numeric")) == set(every) - {"bool"}
    assert info.dtypes(kind=()) == {}
    with pytest.raises(ValueError, match="kind"):
        info.dtypes(kind="nothing")
    with pytest.raises(TypeError, match="device"):
        info.dtypes(device="nowhere")


def test_the_list_of_names_is_that_of_the_modules() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "generate.py"), "--check", "--sources"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_function_is_in_all_three_places() -> None:
    for module, names in OPS.items():
        home = importlib.import_module(module)
        for name in names:
            function = getattr(home, name)
            for place in (gp, gp.ops, gp.ops.basic):
                assert getattr(place, name) is function, f"{place.__name__}.{name}"
                assert name in place.__all__


def test_type_checkers_see_every_module() -> None:
    """basic.py imports each module's names for them."""
    tree = ast.parse(Path(gp.ops.basic.__file__).read_text(encoding="utf-8"))
    seen = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert set(OPS) <= seen


def test_every_function_says_what_it_does() -> None:
    for names in OPS.values():
        for name in names:
            assert (getattr(gp, name).__doc__ or "").strip(), name


def test_methods_say_what_they_do() -> None:
    for name, member in vars(gp.GPUArray).items():
        if not name.startswith("_"):
            assert (getattr(member, "__doc__", "") or "").strip(), name

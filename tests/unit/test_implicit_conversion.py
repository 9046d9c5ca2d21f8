"""Conversions that NumPy, matplotlib and pandas do by themselves: quiet on the CPU, an error on a
GPU unless they are allowed."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pygpukit as gp
from pygpukit.core import implicit

HOST = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_numpy_converts_arrays_of_the_cpu() -> None:
    x = gp.from_numpy(HOST)
    for made in (np.asarray(x), np.array(x), np.asanyarray(x), np.ma.asarray(x)):
        np.testing.assert_array_equal(made, HOST)
        assert made.dtype == np.float32
    assert np.asarray(x, dtype="int8").dtype == np.int8
    assert np.array([x, x]).shape == (2, 2, 3)
    copy = np.asarray(x)
    copy[0, 0] = 9
    assert x[0, 0].item() == 0  # a copy, as on a GPU
    with pytest.raises(ValueError, match=r"^GPUArray: .*copy is False"):
        np.array(x, copy=False)
    half = gp.ones(3, "bfloat16")
    assert np.asarray(half).dtype == half.to_numpy().dtype


def test_numpy_testing_and_files() -> None:
    x = gp.from_numpy(HOST)
    np.testing.assert_allclose(x, HOST)
    np.testing.assert_array_equal(HOST, x)
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(x, HOST + 1)
    file = io.BytesIO()
    np.save(file, x)
    file.seek(0)
    np.testing.assert_array_equal(np.load(file), HOST)


def test_functions_that_only_numpy_has() -> None:
    """They raise, as on a GPU; allowed, they run on the host."""
    x = gp.from_numpy(HOST)
    with pytest.raises(TypeError, match=r"^numpy.common_type: .*gp.allow_implicit_conversion\(\)"):
        np.common_type(x)
    with gp.allow_implicit_conversion():
        assert np.common_type(x) is np.common_type(HOST)


def test_mixing_still_raises() -> None:
    """Which side the result would be on is not for us to guess."""
    with pytest.raises(TypeError, match=r"cannot be mixed"):
        gp.from_numpy(HOST) + HOST


def test_matplotlib() -> None:
    pytest.importorskip("matplotlib").use("Agg")
    from matplotlib import pyplot

    x = gp.from_numpy(HOST)
    figure, axes = pyplot.subplots()
    image = axes.imshow(x)
    np.testing.assert_array_equal(np.asarray(image.get_array()), HOST)
    points = axes.scatter(x[0], x[1])
    np.testing.assert_array_equal(np.asarray(points.get_offsets()), HOST.T)
    axes.plot(x[0], x[1])
    pyplot.close(figure)


def test_pandas() -> None:
    pandas = pytest.importorskip("pandas")
    x = gp.from_numpy(HOST)
    np.testing.assert_array_equal(pandas.DataFrame(np.asarray(x)).to_numpy(), HOST)
    np.testing.assert_array_equal(pandas.Series(x[0]).to_numpy(), HOST[0])


# --- the switch -----------------------------------------------------------------------------------


class OnGpu:
    """As the switch sees an array: a stand-in whose data is said to be on a GPU."""

    on_gpu = True
    device = "cuda:0"


def test_the_switch_and_its_message() -> None:
    x: Any = OnGpu()
    assert not implicit.may_convert(x)
    with pytest.raises(gp.ImplicitConversionError) as caught:
        implicit.to_host(x, None, None)
    assert "cuda:0" in str(caught.value)
    assert "to_numpy()" in str(caught.value)
    assert "gp.allow_implicit_conversion()" in str(caught.value)
    with gp.allow_implicit_conversion():
        assert implicit.may_convert(x)
        with gp.allow_implicit_conversion(False):
            assert not implicit.may_convert(x)
        assert implicit.may_convert(x)
    assert not implicit.may_convert(x)
    try:
        gp.allow_implicit_conversion()
        assert implicit.may_convert(x)
    finally:
        gp.allow_implicit_conversion(False)
    assert not implicit.may_convert(x)


def test_on_a_gpu(run_on_fake: Callable[..., str]) -> None:
    """The CUDA driver in software has arrays in GPU memory."""
    program = """
x = gp.from_numpy(np.arange(3.0))
assert x.on_gpu
for call in (np.asarray, np.common_type, np.testing.assert_array_equal):
    try:
        call(x) if call is not np.testing.assert_array_equal else call(x, x.to_numpy())
    except TypeError as error:
        print("to_numpy()" in str(error), "allow_implicit_conversion()" in str(error))
with gp.allow_implicit_conversion():
    print(np.asarray(x).tolist())
    np.testing.assert_array_equal(x, np.arange(3.0))
"""
    assert run_on_fake(program).split("\n")[:4] == ["True True"] * 3 + ["[0.0, 1.0, 2.0]"]

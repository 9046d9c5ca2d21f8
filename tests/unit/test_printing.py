"""str() and repr() of arrays: NumPy's text, also where only edge items are read."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pygpukit as gp
from pygpukit import _native

SHAPES = [
    (),
    (0,),
    (1,),
    (7,),
    (1000,),
    (1001,),
    (5000,),
    (3, 0, 5),
    (2, 3),
    (40, 40),
    (1, 5000),
    (5000, 1),
    (600, 2),
    (2, 600),
    (7, 200),
    (6, 7, 30),
    (8, 9, 10, 11),
    (1, 1, 1200),
    (7,) * 4,
]
DTYPES = [
    "bool",
    "int8",
    "int64",
    "uint16",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
    "bfloat16",
    "float8_e4m3fn",
    "int4",
    "uint4",
    "float4_e2m1fn",
]


def values(shape: tuple[int, ...], dtype: str) -> Any:
    count = int(np.prod(shape))
    numbers = np.random.default_rng(count).normal(0, 100, count)
    if dtype in ("int4", "uint4", "float4_e2m1fn", "float8_e4m3fn"):
        numbers = np.abs(np.rint(numbers)) % 6
    elif dtype.startswith("uint") or dtype == "bool":
        numbers = np.abs(numbers)
    elif dtype == "int8":
        numbers = np.clip(numbers, -128, 127)
    return numbers.reshape(shape).astype(np.dtype(getattr(ml_dtypes, dtype, dtype)))


def expected_repr(host: Any, dtype: str) -> str:
    text = np.array2string(host, separator=", ", prefix="GPUArray(", suffix=",")
    return f"GPUArray({text},", f"shape={host.shape}, dtype={dtype}, device='cpu')"  # type: ignore[return-value]


def check(host: Any, dtype: str) -> None:
    x = gp.from_numpy(host)
    assert str(x) == str(host)
    head, tail = expected_repr(host, dtype)
    for space in (" ", "\n         "):
        if repr(x) == head + space + tail:
            break
    else:
        pytest.fail(f"{x!r}\ninstead of\n{head} {tail}")
    lines = repr(x).splitlines()
    width = np.get_printoptions()["linewidth"]
    assert space == " " or len(head.splitlines()[-1]) + 1 + len(tail) > width
    assert space != " " or len(lines[-1]) <= width or "\n" not in repr(x)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_text_is_numpys(shape: tuple[int, ...], dtype: str) -> None:
    check(values(shape, dtype), dtype)


@pytest.mark.parametrize(
    "options",
    [
        {"threshold": 0},
        {"threshold": 5, "edgeitems": 1},
        {"threshold": 10, "edgeitems": 2},
        {"edgeitems": 5},
        {"edgeitems": 600},
        {"threshold": 10**9},
        {"precision": 2, "suppress": True},
        {"linewidth": 30},
        {"floatmode": "fixed", "sign": "+"},
        {"formatter": {"float_kind": lambda number: f"<{number:.1f}>"}},
        {"nanstr": "no", "infstr": "much"},
    ],
    ids=str,
)
@pytest.mark.parametrize("shape", [(), (3,), (7,), (1200,), (30, 50), (4, 9, 40)], ids=str)
def test_print_options(options: dict[str, Any], shape: tuple[int, ...]) -> None:
    host = values(shape, "float64")
    if host.size > 5:
        host.flat[0], host.flat[-1] = np.nan, np.inf
    with np.printoptions(**options):
        check(host, "float64")


@settings(max_examples=60, deadline=None)
@given(
    shape=st.lists(st.integers(0, 12), max_size=4).map(tuple),
    edge=st.integers(1, 4),
    threshold=st.integers(0, 200),
    dtype=st.sampled_from(["int32", "float32", "int4"]),
)
def test_any_summary(shape: tuple[int, ...], edge: int, threshold: int, dtype: str) -> None:
    with np.printoptions(edgeitems=edge, threshold=threshold):
        check(values(shape, dtype), dtype)


def test_no_edge_items() -> None:
    """NumPy aligns with the widest of all items here, which would have to be read for it."""
    host = values((30, 50), "int64")
    with np.printoptions(edgeitems=0):
        assert str(gp.from_numpy(host)).split() == str(host).split()


def test_views() -> None:
    host = values((90, 80), "float32")
    for view in (host.T, host[::-1, ::3], np.asfortranarray(host), host[5:5]):
        assert str(gp.from_dlpack(view)) == str(view)


@pytest.mark.parametrize("dtype", ["float32", "int4"])
def test_a_large_array_stays_where_it_is(monkeypatch: pytest.MonkeyPatch, dtype: str) -> None:
    x = gp.zeros((300, 200, 100), dtype)
    pulled: list[int] = []
    original = _native.to_numpy

    def counted(array: gp.GPUArray, *args: Any) -> Any:
        pulled.append(array.nbytes)
        return original(array, *args)

    monkeypatch.setattr(_native, "to_numpy", counted)
    assert "..." in repr(x)
    assert "..." in str(x)
    assert 0 < sum(pulled) < 4000


def test_words_of_0_2() -> None:
    text = repr(gp.zeros((2, 3)))
    for word in ("GPUArray", "(2, 3)", "float32"):
        assert word in text
    assert text == (
        "GPUArray([[0., 0., 0.],\n"
        "          [0., 0., 0.]], shape=(2, 3), dtype=float32, device='cpu')"
    )
    assert repr(gp.zeros(())) == "GPUArray(0., shape=(), dtype=float32, device='cpu')"


@pytest.mark.parametrize("shape", [(3,), (5000,)])
def test_during_a_capture(shape: tuple[int, ...]) -> None:
    x = gp.ones(shape)
    graph = gp.CudaGraph()
    with graph:
        y = x + x
        texts = [repr(x), repr(y), str(y), f"{y}"]
    assert texts == [f"GPUArray(shape={shape}, dtype=float32, device='cpu')"] * 4
    assert graph.num_nodes == 1


def test_format() -> None:
    assert f"{gp.full((), 2.5):.3f}" == "2.500"
    assert f"{gp.full((), 7, 'int32'):04d}" == "0007"
    assert f"{gp.full((), 1.5, 'bfloat16'):.2f}" == "1.50"
    assert f"{gp.zeros(2)}" == "[0. 0.]"
    with pytest.raises(TypeError, match="format"):
        format(gp.zeros(2), ".2f")

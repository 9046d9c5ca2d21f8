"""The fft family on CPU simulation: case tables, out=, round trips, plans."""

from __future__ import annotations

import inspect

import pytest
from cases.fft import CASES, MUST_RAISE, Case, MustRaise
from cases.must_raise import run_must_raise
from cases.run_fft import run_case, run_helpers, run_out, run_round_trips

import pygpukit as gp

# The standard's functions, and their parameters after x.
STANDARD = {
    **dict.fromkeys(("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"), ("n", "axis", "norm")),
    **dict.fromkeys(("fftn", "ifftn", "rfftn", "irfftn"), ("s", "axes", "norm")),
    **dict.fromkeys(("fftfreq", "rfftfreq"), ("d", "dtype", "device")),
    **dict.fromkeys(("fftshift", "ifftshift"), ("axes",)),
}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    run_case(case)


@pytest.mark.parametrize("case", MUST_RAISE, ids=str)
def test_must_raise(case: MustRaise) -> None:
    run_must_raise(case)


def test_out() -> None:
    run_out()


def test_round_trips() -> None:
    run_round_trips()


def test_helpers() -> None:
    run_helpers()


@pytest.mark.parametrize("name", STANDARD)
def test_the_extension_of_the_standard(name: str) -> None:
    x = gp.ones((4, 4), "complex64")
    function = getattr(x.__array_namespace__().fft, name)
    parameters = list(inspect.signature(function).parameters.values())
    assert all(parameter.default is not inspect.Parameter.empty for parameter in parameters[1:])
    assert tuple(p.name for p in parameters if p.name in STANDARD[name]) == STANDARD[name]


@pytest.mark.parametrize(
    ("n", "dtype", "kind", "words"),
    [
        (4096, "complex64", "fft", ("transforms of 4096", "block 16x16x16")),
        (4096, "float32", "rfft", ("transforms of 2048", "block 16x16x8")),
        (400, "complex64", "fft", ("block 10x10x4",)),
        (12000, "complex64", "fft", ("block 15x10x10x8",)),
        (6006, "complex64", "fft", ("general 13x11x7x3x2",)),
        (
            2**20,
            "complex64",
            "fft",
            ("block 16x8x8", "column to column, twiddles", "row to column"),
        ),
        (2**24, "complex128", "ifft", ("block 16x16",)),
        (2**20, "float64", "rfft", ("transforms of 524288", "merge")),
        (1009, "complex64", "fft", ("Bluestein by convolutions of 2048", "block 16x16x8")),
        (1, "complex64", "fft", ("transforms of 1",)),
    ],
)
def test_plans(n: int, dtype: str, kind: str, words: tuple[str, ...]) -> None:
    text = gp.fft.explain(n, dtype=dtype, kind=kind)
    for word in words:
        assert word in text

"""Calls whose arguments do not match: the message names function, argument, what was given and what
was expected, and never shows pybind11's signatures."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

import pygpukit as gp
from pygpukit import _native, _runtime
from pygpukit._runtime import Scheduler, launch_function

X = gp.ones((2, 3))


class Unprintable:
    def __init__(self, error: type[BaseException]) -> None:
        self.error = error

    def __repr__(self) -> str:
        raise self.error


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda: _native.real_part("abc"),
            "real_part: argument 'x' is str 'abc', expected GPUArray",
        ),
        (lambda: _native.real_part(None), "real_part: argument 'x' is None, expected GPUArray"),
        (lambda: _native.real_part(), "real_part: missing argument 'x'"),
        (lambda: _native.real_part(X, foo=1), "real_part: unexpected keyword 'foo'"),
        (
            lambda: _native.to_device(X, "cpu", device="cpu"),
            "to_device: argument 'device' was given twice",
        ),
        (
            lambda: _native.to_device(X, 1, 2, 3),
            "to_device: takes at most 2 arguments by position (4 given)",
        ),
        (lambda: _native.synchronize(1), "synchronize: takes at most 0 arguments by position"),
        (
            lambda: _native.real_part([0] * 10**6),
            "real_part: argument 'x' is list of length 1000000, expec",
        ),
        (
            lambda: _native.real_part("a" * 10**6),
            "real_part: argument 'x' is str of length 1000000, expec",
        ),
        (
            lambda: _native.real_part(Unprintable(ValueError)),
            "real_part: argument 'x' is Unprintable <",
        ),
        (
            lambda: _native.can_cast(1, "int8", X),
            "can_cast: argument 'casting' is a GPUArray of shape (2, 3) and dtype float32, e",
        ),
        (
            lambda: _native.can_cast("int8", "int8", "\udcff"),
            r"can_cast: argument 'casting' is str '\udcff', expected str",
        ),
        (lambda: gp.Stream(foo=1), "Stream: unexpected keyword 'foo'"),
        (lambda: gp.Stream().wait(), "Stream.wait: missing argument 'other'"),
        (lambda: gp.Stream.wait(5, 6), "Stream.wait: argument 'self' is int 5, expected Stream"),
        (lambda: gp.CudaEvent(1, 2), "CudaEvent: takes at most 1 argument by position (2 given)"),
        (lambda: gp.DataType.from_string(), "DataType.from_string: missing argument 'name'"),
        (
            lambda: launch_function(1, 1, "a", 0, []),
            "launch_function: argument 'block' is str 'a', expected int | ",
        ),
        (
            lambda: launch_function(2**64, 1, 1, 0, []),
            "launch_function: argument 'function' is int 18446744073709551616, expected int within",
        ),
        (
            lambda: launch_function(1.5, 1, 1, 0, []),
            "launch_function: argument 'function' is float 1.5, expected int",
        ),
        (lambda: Scheduler.__init__(5), "Scheduler: __init__ was called without"),
    ],
)
def test_the_argument_is_named(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(TypeError, match=f"^{re.escape(words)}") as caught:
        call()
    assert isinstance(caught.value, gp.InvalidArgument)
    assert len(str(caught.value)) < 400


def classes(*modules: ModuleType) -> Iterator[type]:
    for module in modules:
        for member in vars(module).values():
            if isinstance(member, type) and member.__module__.startswith("pygpukit._native"):
                yield member


def callables() -> Iterator[tuple[str, Any]]:
    """All that pybind11 has bound."""
    bound = ("builtin_function_or_method", "instancemethod")
    for module in (_native, _runtime):
        yield from ((n, m) for n, m in vars(module).items() if type(m).__name__ in bound)
    for owner in classes(_native, _runtime):
        for name, member in vars(owner).items():
            found = [member]
            if isinstance(member, property):
                found = [member.fget, member.fset]
            elif isinstance(member, staticmethod):
                found = [member.__func__]
            for function in found:
                if type(function).__name__ in bound and "pybind11" not in name:
                    yield f"{owner.__name__}.{name}", function


def error_of(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    try:
        function(*args, **kwargs)
    except (TypeError, AttributeError, gp.PyGPUkitError) as error:
        return str(error)
    return ""


def test_no_signature_of_pybind11_is_left() -> None:
    """Every bound function, with too much of everything and with nothing."""
    count = 0
    for name, function in callables():
        for args, kwargs in (((object(),) * 40, {}), ((), {"no_such_name": 1}), ((object(),), {})):
            text = error_of(function, args, kwargs)
            count += text != ""
            for raw in ("incompatible", "Invoked with", "supported:\n", "std::", "SupportsInt"):
                assert raw not in text, (name, text)
    assert count > 1500


def test_an_interrupt_while_the_message_is_made_is_not_swallowed() -> None:
    with pytest.raises(KeyboardInterrupt):
        _native.real_part(Unprintable(KeyboardInterrupt))  # type: ignore[arg-type]


class Broken:
    """A sequence whose length cannot be had."""

    def __len__(self) -> int:
        raise ZeroDivisionError

    def __getitem__(self, index: int) -> int:
        return index


def test_an_error_of_a_sequence_comes_through() -> None:
    for function in (gp.partition, gp.argpartition):
        with pytest.raises(ZeroDivisionError):
            function(X, Broken())  # type: ignore[arg-type]
    with pytest.raises(ZeroDivisionError):
        launch_function(1, Broken(), 1, 0, [])  # type: ignore[arg-type]


def test_names_and_texts_are_kept() -> None:
    assert _native.real_part.__name__ == "real_part"
    assert (_native.real_part.__doc__ or "").startswith("real_part(x: GPUArray) -> GPUArray")

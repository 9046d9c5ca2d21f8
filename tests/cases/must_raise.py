"""Calls that are refused. Shared by the case tables of many families."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import pygpukit as gp


@dataclass(frozen=True)
class MustRaise:
    op: str
    name: str
    call: Callable[[Any], object]  # gets a function from a NumPy array to an array
    error: type[Exception]
    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.op}: {self.name}"


@dataclass(frozen=True)
class Refused:
    """A call of a table whose runner knows what it gets."""

    name: str
    call: Callable[..., object]
    error: type[Exception]
    words: tuple[str, ...]  # in the message

    def __str__(self) -> str:
        return self.name


def run_must_raise(case: MustRaise, device: str | None = None) -> None:
    """The error's class, and a message of the op that has the words."""
    with pytest.raises(case.error) as caught:
        case.call(lambda x: gp.from_numpy(np.asarray(x), device=device))
    assert isinstance(caught.value, gp.InvalidArgument)
    message = str(caught.value)
    assert message.startswith(f"{case.op}: ")
    for word in case.words:
        assert word in message

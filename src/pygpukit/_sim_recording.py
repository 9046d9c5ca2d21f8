"""What the simulator records, for blocks that may be in each other or on several threads."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pygpukit import _native

__all__ = ["Living", "Recording", "made", "recorded"]

Living = Callable[[list[_native.GPUArray]], list[tuple[str, int]]]

_CHOICES = ("check", "races", "counts")


@dataclass(eq=False)
class Recording:
    """Where the launches of a block go, as the simulator's rows, and what is asked of them."""

    rows: list[dict[str, Any]]
    check: bool
    races: bool
    counts: bool
    seed: int
    trace: dict[str, Any]


_lock = threading.Lock()
_open: list[Recording] = []
_options_before: dict[str, Any] = {}  # the first of them
_num_watching = 0  # made() blocks


@contextmanager
def recorded(own: Recording) -> Iterator[None]:
    """Adds the rows of the block's launches, on every thread, to all recordings that are open."""
    _native.synchronize()
    with _lock:
        _hand_out()
        if not _open:
            _options_before.update(_native.sim_options())
        _open.append(own)
        _set_options()
    try:
        yield
        _native.synchronize()
    finally:
        with _lock:
            _hand_out()
            _open.remove(own)
            _set_options()


def _hand_out() -> None:
    rows = json.loads(_native.sim_take_report())
    for one in _open:
        one.rows.extend(rows)


def _set_options() -> None:
    """What any of them asks for; the seed of the last one, and the last trace."""
    options = dict(_options_before)
    if _open:
        asked = {name: any(getattr(one, name) for one in _open) for name in _CHOICES}
        trace = next((one.trace for one in reversed(_open) if one.trace), {})
        options |= {**asked, **trace, "seed": _open[-1].seed, "record": True, "log": False}
    _native.sim_set_options(**options)


@contextmanager
def made() -> Iterator[Living]:
    """Gives a function: kind and bytes of what was made in the block and lives, but for arrays."""
    global _num_watching
    with _lock:
        _num_watching += 1
        if _num_watching == 1:
            _native.sim_record_made(True)
    before = Counter(_native.sim_living([]))  # made in a block around this one

    def living(kept: list[_native.GPUArray]) -> list[tuple[str, int]]:
        return list((Counter(_native.sim_living(kept)) - before).elements())

    try:
        yield living
    finally:
        with _lock:
            _num_watching -= 1
            if _num_watching == 0:
                _native.sim_record_made(False)

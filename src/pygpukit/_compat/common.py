"""What the adapters share: checks of fields, forwarded attributes, figures and a lock."""

from __future__ import annotations

import functools
import inspect
import operator
import threading
from abc import ABC
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from pygpukit.core.arguments import amount, whole

T = TypeVar("T")


def check_fields(config: object, **lows: float) -> None:
    """Checks attributes against their lowest values: whole numbers for an int, else amounts."""
    for name, low in lows.items():
        check: Any = whole if isinstance(low, int) else amount
        check(type(config).__name__, name, getattr(config, name), low)


def sum_shares(shares: Iterable[float]) -> float:
    """To nine digits, so that tenths add up to one and shares that are returned leave zero."""
    return round(sum(shares), 9)


def forward(path: str) -> property:
    """A read-only property: the attribute at `path`."""
    return property(operator.attrgetter(path))


def figures(kind: type[T], source: object, **others: Any) -> T:
    """A `kind` made of the attributes of `source` that have the names of its fields."""
    names = inspect.signature(kind).parameters
    return kind(**{name: getattr(source, name) for name in names if name not in others}, **others)


def old_state(state: str) -> str:
    """The state of a task as 0.2 knew them: with none between pending and running."""
    return "pending" if state in ("queued", "admitted") else state


def _locked(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def run(self: Locked, *args: Any, **options: Any) -> Any:
        with self._lock:
            return method(self, *args, **options)

    return run


class Locked(ABC):
    """Public methods of subclasses hold the object's lock, apart from those named `unlocked`."""

    _lock: threading.RLock

    def __new__(cls, *_: Any, **__: Any) -> Any:
        made = super().__new__(cls)
        made._lock = threading.RLock()
        return made

    def __init_subclass__(cls, unlocked: tuple[str, ...] = ()) -> None:
        super().__init_subclass__()
        for name, method in list(vars(cls).items()):
            if inspect.isfunction(method) and not name.startswith("_") and name not in unlocked:
                setattr(cls, name, _locked(method))

"""Strings that end a streamed text."""

from __future__ import annotations

from collections.abc import Sequence

from pygpukit.core.arguments import items
from pygpukit.core.errors import InvalidTypeError, InvalidValueError


class StopStrings:
    """Passes text on up to the first stop string, which may arrive in pieces.

    >>> stops = StopStrings(["END"])
    >>> stops.push("one E"), stops.push("D, two EN"), stops.push("D three"), stops.matched
    ('one ', 'ED, two ', '', 'END')

    The first is the one whose last character comes first; of several that end there, the longest.
    """

    def __init__(self, stops: str | Sequence[str]) -> None:
        given = (stops,) if isinstance(stops, str) else stops
        self._stops = tuple(items("StopStrings", "stops", given, "a str or several"))
        for stop in self._stops:
            if not isinstance(stop, str):
                raise InvalidTypeError(
                    f"StopStrings: stops has an element of type {type(stop).__name__}, expected str"
                )
            if not stop:
                raise InvalidValueError("StopStrings: stops has an empty string")
        self._longest = max(map(len, self._stops), default=1)
        self._held = ""
        self.matched: str | None = None  # the stop string that was found

    def push(self, text: str) -> str:
        """The text that cannot belong to a stop string any more; nothing after a match."""
        if self.matched is not None:
            return ""
        text = self._held + text
        found = [(text.find(stop), stop) for stop in self._stops if stop in text]
        if found:
            start, self.matched = min(found, key=lambda one: (one[0] + len(one[1]), one[0]))
            self._held = ""
            return text[:start]
        start = self._first_that_may_match(text)
        self._held = text[start:]
        return text[:start]

    def finish(self) -> str:
        """The text held back, when no more comes."""
        held, self._held = self._held, ""
        return held

    def _first_that_may_match(self, text: str) -> int:
        """Where the longest end of the text starts that is the beginning of a stop string."""
        for start in range(max(0, len(text) - self._longest + 1), len(text)):
            if any(stop.startswith(text[start:]) for stop in self._stops):
                return start
        return len(text)

"""Colour and progress, only on a terminal."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from typing import TextIO

from pygpukit._cli.text import message_of


def is_terminal(stream: TextIO) -> bool:
    """True when the stream is a terminal."""
    try:
        return stream.isatty()
    except (AttributeError, ValueError):  # replaced or closed
        return False


def use_color(stream: TextIO) -> bool:
    """True on a terminal, unless NO_COLOR is set to anything but the empty string."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR")


class Style:
    """Wraps text in colour codes, or returns it unchanged."""

    def __init__(self, enabled: bool) -> None:
        self._enabled = enabled

    def _wrap(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._enabled else text

    def bold(self, text: str) -> str:
        """Headings."""
        return self._wrap("1", text)

    def good(self, text: str) -> str:
        """Green."""
        return self._wrap("32", text)

    def warn(self, text: str) -> str:
        """Yellow."""
        return self._wrap("33", text)

    def bad(self, text: str) -> str:
        """Red."""
        return self._wrap("31", text)

    def dim(self, text: str) -> str:
        """Less important."""
        return self._wrap("2", text)


class ProgressLine:
    """One line on stderr that is overwritten; nothing when stderr is not a terminal."""

    def __init__(self, stream: TextIO | None = None, *, quiet: bool = False) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._enabled = not quiet and is_terminal(self._stream)

    def show(self, text: str) -> None:
        """Replaces the line."""
        if self._enabled:
            width = shutil.get_terminal_size().columns - 1
            self._stream.write("\r\x1b[K" + text[:width])
            self._stream.flush()

    def steps(self, done: int, total: int, text: str) -> None:
        """Replaces the line with a bar, the count and a text."""
        filled = 20 * done // max(total, 1)
        self.show(f"[{'#' * filled}{'.' * (20 - filled)}] {done}/{total} {text}")

    def clear(self) -> None:
        """Clears the line for other output."""
        if self._enabled:
            self._stream.write("\r\x1b[K")
            self._stream.flush()


def run(main: Callable[[], int]) -> int:
    """Runs a command line; a closed pipe (``| head``) and Ctrl-C end it without a traceback."""
    _replace_closed_streams()
    try:
        code = main()
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_output()
        return 1
    except KeyboardInterrupt:
        print("pygpukit: interrupted", file=sys.stderr)
        return 130
    except OSError as error:
        print(f"pygpukit: {message_of(error)}", file=sys.stderr)
        try:
            sys.stdout.flush()
        except OSError:  # a full disk
            _drop_output()
        return 1
    return code


def _replace_closed_streams() -> None:
    """A stream that is closed from the start (``<&-``, ``>&-``) is empty, and takes all."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            nothing = open(os.devnull, mode, encoding="utf-8")  # noqa: SIM115 - until the end
            setattr(sys, name, nothing)


def _drop_output() -> None:
    """What could not be written is not tried again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def human_bytes(count: float) -> str:
    """1536 as "1.5 KiB"."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"

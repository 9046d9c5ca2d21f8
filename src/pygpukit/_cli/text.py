"""Texts that commands read, and what they say about errors."""

from __future__ import annotations

import sys
from pathlib import Path


def read_text(op: str, file: Path | None) -> str:
    """A file's text, or that of standard input."""
    if file is not None:
        data, name = file.read_bytes(), repr(str(file))
    else:
        stream = getattr(sys.stdin, "buffer", None)
        if stream is None:  # replaced by something that has text only
            return sys.stdin.read()
        data, name = stream.read(), "standard input"
    try:
        return data.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{op}: {name} is not UTF-8 from byte {error.start} on") from None


def message_of(error: BaseException) -> str:
    """One message without Python's numbers of errors."""
    if isinstance(error, OSError) and error.strerror is not None:
        name = "" if error.filename is None else str(error.filename)
        return error.strerror if name in error.strerror else f"{name}: {error.strerror}"
    return str(error)


__all__ = ["message_of", "read_text"]

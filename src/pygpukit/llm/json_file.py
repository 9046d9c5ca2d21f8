"""JSON files of a model folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pygpukit.core.errors import InvalidValueError


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file. OSError where it cannot be read."""
    data = path.read_bytes()
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InvalidValueError(f"{path.name}: is not JSON: {str(error)[:200]}") from None
    if not isinstance(value, dict):
        raise InvalidValueError(
            f"{path.name}: is JSON of type {type(value).__name__}, expected an object"
        )
    return value


def read_object_if_there(path: Path) -> dict[str, Any]:
    """The JSON object in a file, or an empty one where there is no such file."""
    try:
        return read_object(path)
    except FileNotFoundError:
        return {}

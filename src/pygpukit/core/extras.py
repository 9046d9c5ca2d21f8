"""Packages that are optional, by the extra of pyproject.toml that installs them."""

from __future__ import annotations

import importlib
from types import ModuleType

from pygpukit.core.errors import MissingPackageError


def import_extra(op: str, module: str, extra: str) -> ModuleType:
    """The module, or MissingPackageError with the pip command."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingPackageError(
            f"{op}: needs the package {module.partition('.')[0]}: pip install 'pygpukit[{extra}]'"
        ) from error

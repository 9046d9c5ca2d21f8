"""Print requirements from pyproject.toml, one per line: build, core, or the name of an extra.

usage: requirements.py <build|core|extra>...
"""

import sys
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    from pip._vendor import tomli as tomllib


def main() -> int:
    pyproject = Path(__file__).resolve().parent.parent / "pyproject.toml"
    data: dict[str, Any] = tomllib.loads(pyproject.read_text(encoding="utf-8"))
    groups: dict[str, list[str]] = {
        "build": [*data["build-system"]["requires"], "cmake", "ninja"],
        "core": data["project"]["dependencies"],
        **data["project"]["optional-dependencies"],
    }
    for group in sys.argv[1:]:
        print("\n".join(groups[group]))
    return 0


if __name__ == "__main__":
    sys.exit(main())

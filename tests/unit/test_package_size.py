"""The wheel stays below 10 MB (scripts/check_wheel.py, which only `make wheel` runs).

What `make test` installs differs from a wheel in two things: release code is up to 1.25 times as
large, and the whole PTX bundle has 1.5 MB where a sample of it is here.
"""

import zlib
from pathlib import Path

import pygpukit

MAX_BYTES = 6_500_000


def test_deflated_size_of_the_package() -> None:
    package = Path(pygpukit.__file__).parent
    sizes = {
        path.relative_to(package): len(zlib.compress(path.read_bytes(), 6))
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    largest = sorted(sizes.items(), key=lambda item: -item[1])[:5]
    assert sum(sizes.values()) < MAX_BYTES, f"{sum(sizes.values())} bytes, the largest: {largest}"

"""Every built-in kernel compiles for every supported architecture, without spills."""

from __future__ import annotations

import re

import pytest

from pygpukit import _native

ARCHS = [80, 86, 89, 90, 100, 120]
FILES = sorted({file for _, file, _, _ in _native.builtin_kernels()})

# "symbol fragment": "why it may use local memory". Keep it empty if you can.
ALLOWED_LOCAL_MEMORY: dict[str, str] = {}

pytestmark = pytest.mark.skipif(
    not _native.nvrtc_info()["available"], reason="NVRTC is not installed"
)


def expected_kernels(file: str, sm: int) -> int:
    return sum(
        1
        for _, name, _, exact in _native.builtin_kernels()
        if name == file and (not exact or sm in exact)
    )


@pytest.mark.parametrize("sm", ARCHS)
@pytest.mark.parametrize("file", FILES)
def test_compiles_without_spills(file: str, sm: int) -> None:
    image, log = _native.compile_builtin(file, sm, False, ["--ptxas-options=-v"])
    assert image[:4] == b"\x7fELF"
    functions = re.findall(
        r"Function properties for (\S+)\n[^\n]*?(\d+) bytes stack frame, "
        r"(\d+) bytes spill stores, (\d+) bytes spill loads",
        log,
    )
    assert len(functions) == expected_kernels(file, sm)
    for symbol, *figures in functions:
        if not any(fragment in symbol for fragment in ALLOWED_LOCAL_MEMORY):
            assert figures == ["0", "0", "0"], f"{symbol} uses local memory on sm_{sm}: {figures}"
    assert "serialized" not in log


@pytest.mark.parametrize("file", FILES)
def test_bundle_ptx_is_old_enough_for_old_drivers(file: str) -> None:
    """Kernels without special instructions are bundled as compute_80 PTX of ISA 7.0."""
    assert _native.bundle_info()["kernels"] > 0
    for _, name, expression, exact in _native.builtin_kernels():
        if name != file or exact:
            continue
        ptx = _native.bundle_ptx(name, expression, 90)
        assert re.search(r"^\.version 7\.0$", ptx, re.MULTILINE)
        assert re.search(r"^\.target sm_80$", ptx, re.MULTILINE)


def test_allowed_local_memory_gives_reasons() -> None:
    assert all(len(reason) > 20 for reason in ALLOWED_LOCAL_MEMORY.values())

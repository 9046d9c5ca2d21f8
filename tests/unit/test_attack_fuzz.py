"""Everything public called with hostile values, in a process that may die of it.

A fixed seed for a few seconds; GPK_FUZZ_SEED (a number, or "random") and GPK_FUZZ_SECONDS search
for more. The seed is part of every report.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pygpukit as gp

SEED = os.environ.get("GPK_FUZZ_SEED", "20240131")
SECONDS = float(os.environ.get("GPK_FUZZ_SECONDS", "20"))
HANG_SECONDS = 30  # with one call, on a busy machine


def watched(command: list[str], state: Path, **options: Any) -> tuple[int, str, str]:
    """(status, what was printed, the last call). A process that does not get on is aborted, which
    makes it print where it is."""
    last, since = "", time.monotonic()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options
    ) as child:
        printed: list[str] = []
        reader = threading.Thread(target=lambda: printed.append(child.stdout.read()))  # type: ignore[union-attr]
        reader.start()
        while child.poll() is None:
            time.sleep(0.1)
            now = state.read_bytes().split(b"\0")[0].decode() if state.exists() else ""
            if now != last:
                last, since = now, time.monotonic()
            elif time.monotonic() - since > HANG_SECONDS:
                child.send_signal(signal.SIGABRT)
                since = time.monotonic()
        reader.join()
    return child.returncode, printed[0], last


@pytest.mark.timeout(SECONDS + 120)
@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit of the address space")
def test_hostile_values_meet_errors_that_say_what_is_wrong(tmp_path: Path) -> None:
    seed = str(random.randrange(2**32)) if SEED == "random" else SEED
    state = tmp_path / "call"
    environment = {
        **os.environ,
        "HOME": str(tmp_path),
        "PYGPUKIT_CACHE_DIR": str(tmp_path / "cache"),
        "PYGPUKIT_NVRTC_PATH": str(tmp_path / "none"),  # hostile sources are not to be compiled
        "PYTHONPATH": str(Path(__file__).parents[1]),
    }
    command = [sys.executable, "-m", "cases.fuzz", seed, str(SECONDS), str(state)]
    status, printed, last = watched(command, state, cwd=tmp_path, env=environment)
    report = f"GPK_FUZZ_SEED={seed}, status {status}, last call {last}\n{printed[-4000:]}"
    assert status == 0, report
    result: dict[str, Any] = json.loads(printed.splitlines()[-1])
    print(f"GPK_FUZZ_SEED={seed}: {result['calls']} calls, {result['errors']}")
    assert not result["findings"], (seed, result["findings"])
    assert result["calls"] > 50 * SECONDS, report
    # Most values are refused, and by us.
    assert result["errors"]["InvalidTypeError"] > result["calls"] / 20, report


ARGUMENT_ERRORS = (TypeError, ValueError, LookupError, OverflowError)
FILES = {"load", "save", "savez", "savez_compressed"}  # of any name (test_files.py)
FILES |= {"fromfile", "loadtxt", "savetxt"}
SETTINGS = {"set_printoptions", "seterr"}  # NumPy's
NOT_CALLED = {"jit", "warmup", "set_matmul_precision", "with_matmul_plan", "tune_matmul"}
NOT_CALLED |= FILES | SETTINGS


def functions() -> list[str]:
    found = []
    for name in gp.__all__:
        member = getattr(gp, name)
        if callable(member) and not inspect.isclass(member) and name not in NOT_CALLED:
            found.append(name)
    return found


def num_arguments(function: Callable[..., Any]) -> int:
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # bound by pybind11
        return 2
    return sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters) or 2


@pytest.mark.parametrize("name", functions())
def test_functions_refuse_what_is_no_array(name: str) -> None:
    """With an error of ours or one of Python's for arguments: not by what they run into."""
    function = getattr(gp, name)
    x = gp.ones((2, 3))
    for count in range(1, num_arguments(function) + 1):
        for place in range(count):
            for value in ("abc", [1, 2], 5, None, object()):
                for others in (x, 1):
                    args: list[Any] = [others] * count
                    args[place] = value
                    with contextlib.suppress(gp.PyGPUkitError, *ARGUMENT_ERRORS):
                        function(*args)

"""Every built-in kernel in simulation, with all checks on: right numbers and no finding."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from cases.run_sim_families import runs_on
from cases.sim_families import CASES

import pygpukit as gp
from pygpukit import _native

pytestmark = pytest.mark.skipif(not gp.is_nvrtc_available(), reason="needs NVRTC")

ROOT = Path(__file__).resolve().parents[2]
DEVICES = ("sm_80", "sm_90a", "sm_120a")
PARTS = 2  # processes for a device; two run at a time

# "file": "why none of its kernels is among the cases". A file must exist, and not be covered.
EXCEPTIONS: dict[str, str] = {}


def run_part(job: tuple[str, int]) -> list[dict[str, Any]]:
    device, part = job
    env = dict(os.environ, PYGPUKIT_DEVICE=f"sim:{device}", PYGPUKIT_PREFETCH="0")
    env.pop("PYGPUKIT_SIM_DEVICE", None)
    env["PYTHONPATH"] = str(ROOT / "tests")
    command = [sys.executable, "-m", "cases.run_sim_families", str(part), str(PARTS)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def results() -> dict[str, list[dict[str, Any]]]:
    jobs = [(device, part) for device in DEVICES for part in range(PARTS)]
    with ThreadPoolExecutor(2) as pool:
        parts = list(pool.map(run_part, jobs))
    found: dict[str, list[dict[str, Any]]] = {device: [] for device in DEVICES}
    for (device, _), rows in zip(jobs, parts, strict=True):
        found[device] += rows
    return found


@pytest.mark.timeout(900)
@pytest.mark.parametrize("device", DEVICES)
def test_cases(results: dict[str, list[dict[str, Any]]], device: str) -> None:
    rows = results[device]
    sm = int(device[3:].rstrip("a"))
    assert len(rows) == sum(runs_on(case, sm) for case in CASES)
    assert all(row["kernels"] for row in rows)
    assert [f"{row['name']}: {row['problem']}" for row in rows if row["problem"]] == []


def test_every_family_has_a_case() -> None:
    text = (ROOT / "native" / "ops" / "families.def").read_text()
    families = set(re.findall(r"^GPK_FAMILY\((\w+)\)", text, re.MULTILINE))
    assert {case.family for case in CASES} == families


def plain_name(kernel: str) -> str:
    """Without namespaces and template arguments."""
    match = re.match(r"(?:\w+::)*(\w+)", kernel)
    assert match
    return match[1]


def test_every_kernel_file_is_run(results: dict[str, list[dict[str, Any]]]) -> None:
    launched = {
        plain_name(name) for rows in results.values() for row in rows for name in row["kernels"]
    }
    kernels: dict[str, set[str]] = {}
    for _, file, expression, _, _ in _native.builtin_kernels():
        kernels.setdefault(file, set()).add(plain_name(expression))
    covered = {file for file, names in kernels.items() if names & launched}
    assert set(kernels) - covered == set(EXCEPTIONS)
    assert all(len(reason) > 20 for reason in EXCEPTIONS.values())

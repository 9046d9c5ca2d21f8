"""All programs, and a file of the answers that a device gave to them."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from . import approximations, control, conversions, copies, floats, integers, matrices, warps
from .program import Bytes, Program

FAMILIES = (
    *(integers, floats, approximations, conversions, control),
    *(warps, matrices, copies),
)
# The upper halves of these sums are wrong on an H200 (driver 580.159): their exact sums count.
DIFFERENT = re.compile(r"atomic/(atom|red)\.shared\.add\.b?f16x2-1")
ANSWERS = Path(__file__).parents[2] / "data" / "sim-corpus" / "answers.json.gz"


def all_programs() -> Iterator[Program]:
    for family in FAMILIES:
        yield from family.programs()


def digest(*parts: bytes) -> str:
    hashed = hashlib.blake2b(digest_size=8)
    for part in parts:
        hashed.update(len(part).to_bytes(8, "little"))
        hashed.update(part)
    return hashed.hexdigest()


def key(program: Program) -> str:
    """Of what the answer depends on: another program or input is another key."""
    shape = repr((program.grid, program.block, program.shared_bytes, program.tensor_map))
    return digest(program.source.encode(), program.image().tobytes(), shape.encode())


def record(program: Program, out: Bytes) -> dict[str, str]:
    """A digest of exact results, all bytes of approximate ones."""
    answer = {"key": key(program)}
    if program.approximate:
        answer["bytes"] = base64.b64encode(out.tobytes()).decode()
    else:
        answer["digest"] = digest(out.tobytes())
    return answer


def difference(program: Program, out: Bytes, expected: Bytes) -> str | None:
    """What is wrong with `out`; None: nothing."""
    expected = np.ascontiguousarray(expected).view(np.uint8).ravel()
    if out.size != expected.size:
        return f"{out.size} bytes, expected {expected.size}"
    if program.approximate:
        dtype, tolerance = program.approximate
        a, b = (x.view(dtype).astype(np.float64) for x in (out, expected))
        near = np.isclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)
        return None if near.all() else f"{a[~near][0]}, expected {b[~near][0]}"
    wrong = np.flatnonzero(out != expected)
    if not wrong.size:
        return None
    at = int(wrong[0]) // 8 * 8
    got, wanted = (x[at : at + 8].tobytes().hex() for x in (out, expected))
    return f"at byte {at}: {got}, expected {wanted}"


def disagreement(program: Program, out: Bytes, answer: dict[str, str]) -> str | None:
    """What is wrong with `out` by a device's answer; None: nothing."""
    if answer["key"] != key(program):
        return "the answer is that of another program: run scripts/make_sim_corpus.py again"
    if "error" in answer or DIFFERENT.fullmatch(program.name):
        return None
    if program.approximate:
        expected = np.frombuffer(base64.b64decode(answer["bytes"]), np.uint8)
        return difference(program, out, expected)
    return None if digest(out.tobytes()) == answer["digest"] else "another memory image"


def write(path: Path, device: str, answers: dict[str, dict[str, str]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"device": device, "answers": answers}, separators=(",", ":"), sort_keys=True)
    path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def read(path: Path = ANSWERS) -> dict[str, Any] | None:
    """None: no such file."""
    if not path.exists():
        return None
    content: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    return content

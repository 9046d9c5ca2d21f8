#!/usr/bin/env python3
"""What a GPU answers to the programs of tests/cases/sim; the simulator is compared with it.

    python scripts/make_sim_corpus.py                                  # on a machine with a GPU
    python scripts/make_sim_corpus.py --device sim --output /tmp/a.gz  # the simulator's own answers

Programs run in batches, each in a process of its own: one that loses the context costs the rest of
its batch one more process, nothing else.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from cases.sim import corpus
from cases.sim.driver import Driver, DriverError

BATCH = 250
SECONDS = 120  # for a batch


def library(device: str) -> str | None:
    return None if device == "sim" else "libcuda.so.1"


def run_batch(device: str, names: list[str]) -> None:
    """Prints one line of JSON per program; stops after one that lost the context."""
    driver = Driver(library(device))
    wanted = set(names)
    for program in corpus.all_programs():
        if program.name not in wanted:
            continue
        if not driver.runs(program):
            continue
        print(json.dumps([program.name, None]), flush=True)  # begun
        try:
            answer = corpus.record(program, driver.run(program))
        except DriverError as error:
            answer = {"key": corpus.key(program), "error": str(error)[:200]}
            print(json.dumps([program.name, answer]), flush=True)
            if error.lost:
                return
            continue
        print(json.dumps([program.name, answer]), flush=True)


def answers_of(device: str, names: list[str]) -> dict[str, dict[str, str]]:
    answers: dict[str, dict[str, str]] = {}
    left = list(names)
    while left:
        batch, answered, begun = left[:BATCH], set(), None
        command = [sys.executable, __file__, "--device", device, "--batch", "-"]
        try:
            done = subprocess.run(
                command, input="\n".join(batch), capture_output=True, text=True, timeout=SECONDS
            )
            output, complete = done.stdout, done.returncode == 0
        except subprocess.TimeoutExpired as late:
            raw = late.stdout or b""
            output = raw.decode() if isinstance(raw, bytes) else raw
            complete = False
        lost = False
        for line in output.splitlines():
            name, answer = json.loads(line)
            begun = name
            if answer is not None:
                answers[name] = answer
                answered.add(name)
                begun = None
                lost = "cuCtxSynchronize" in answer.get("error", "")
        if begun is not None:
            answered.add(begun)
            print(f"{begun}: the process ended", file=sys.stderr)
        if complete and not lost:
            answered.update(batch)  # what the device cannot run
        if not answered:
            raise SystemExit("no program of a batch could be run")
        left = [name for name in left if name not in answered]
    return answers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", choices=("gpu", "sim"), default="gpu")
    parser.add_argument("--output", type=Path, default=corpus.ANSWERS)
    parser.add_argument("--only", default="", help="programs whose names contain this")
    parser.add_argument("--batch", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.batch:
        return run_batch(args.device, sys.stdin.read().split("\n"))
    names = [p.name for p in corpus.all_programs() if args.only in p.name]
    answers = answers_of(args.device, names)
    failed = {name: answer["error"] for name, answer in answers.items() if "error" in answer}
    for name, error in failed.items():
        print(f"{name}: {error}", file=sys.stderr)
    corpus.write(args.output, args.device, answers)
    size = args.output.stat().st_size
    print(f"{len(answers)} of {len(names)} programs, {len(failed)} refused, {size} bytes")
    return None


if __name__ == "__main__":
    main()

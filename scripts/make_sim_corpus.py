#!/usr/bin/env python3
"""What a GPU answers to the programs of tests/cases/sim; the simulator is compared with it.

    python scripts/make_sim_corpus.py                                  # on a machine with a GPU
    python scripts/make_sim_corpus.py --device sim --output /tmp/a.gz  # the simulator's own answers

Programs run in batches, each in a process of its own: one that loses the context costs the rest of
its batch one more process, nothing else. Answers that differ from a program's own oracle are named.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from cases.sim import corpus
from cases.sim.driver import Driver, DriverError

BATCH = 150
SECONDS = 90  # for a batch


@dataclass
class Answers:
    device: str = ""
    of: dict[str, dict[str, str]] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)


def run_batch(device: str, names: list[str]) -> None:
    """Prints JSON lines: a program's name, then its answer and problem; at the end the device."""
    driver = Driver(None if device == "sim" else "libcuda.so.1")
    wanted = set(names)
    for program in corpus.all_programs():
        if program.name not in wanted or not driver.runs(program):
            continue
        print(json.dumps([program.name]), flush=True)
        problem, lost = None, False
        try:
            out = driver.run(program)
            answer = corpus.record(program, out)
            if program.expect is not None:
                problem = corpus.difference(program, out, program.expect(program.image()))
        except DriverError as error:
            answer, lost = {"key": corpus.key(program), "error": str(error)[:200]}, error.lost
            problem = answer["error"]
        print(json.dumps([program.name, answer, problem]), flush=True)
        if lost:
            return
    print(json.dumps(["", driver.name]), flush=True)


def run_process(device: str, names: list[str]) -> tuple[str, str]:
    command = [sys.executable, __file__, "--device", device, "--batch"]
    child = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        return child.communicate("\n".join(names), timeout=SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        return child.communicate()


def run_all(device: str, names: list[str], answers: Answers) -> None:
    left = set(names)
    while left:
        before = len(left)
        output, errors = run_process(device, sorted(left))
        begun = None
        for line in output.splitlines():
            name, *rest = json.loads(line)
            if name == "":
                answers.device = rest[0]
                return  # what is left, the device cannot run
            left.discard(name)
            begun = name if not rest else None
            if rest:
                answers.of[name], problem = rest
                if problem is not None:
                    answers.problems[name] = problem
        if begun is not None:
            answers.problems[begun] = "the process ended or was stopped"
        if len(left) == before:
            raise SystemExit(f"no program of a batch could be run\n{errors}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", choices=("gpu", "sim"), default="gpu")
    parser.add_argument("--output", type=Path, default=corpus.ANSWERS)
    parser.add_argument("--only", default="", help="programs whose names contain this")
    parser.add_argument("--jobs", type=int, default=min(8, os.cpu_count() or 1))
    parser.add_argument("--batch", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.batch:
        return run_batch(args.device, sys.stdin.read().split("\n"))
    names = [p.name for p in corpus.all_programs() if args.only in p.name]
    answers = Answers()
    batches = [names[i : i + BATCH] for i in range(0, len(names), BATCH)]
    with ThreadPoolExecutor(max(args.jobs, 1)) as pool:
        for running in [pool.submit(run_all, args.device, batch, answers) for batch in batches]:
            running.result()
    for name, problem in sorted(answers.problems.items()):
        print(f"{name}: {problem}", file=sys.stderr)
    corpus.write(args.output, answers.device, answers.of)
    refused = sum("error" in answer for answer in answers.of.values())
    print(
        f"{answers.device}: {len(answers.of)} of {len(names)} programs, {refused} refused, "
        f"{len(answers.problems)} problems, {args.output.stat().st_size} bytes"
    )
    return None


if __name__ == "__main__":
    main()

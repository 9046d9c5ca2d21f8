"""``python -m pygpukit check script.py``: a program in the simulator, with all checks on."""

from __future__ import annotations

import argparse
import os
import runpy
import subprocess
import sys
import traceback
from typing import Any

COMMANDS = ("check",)


def add_parsers(commands: Any) -> None:
    """Adds the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "check",
        help="run a script with its kernels in the simulator and report their faults",
        description="Runs a Python script with its custom kernels in the simulator, also on a "
        "machine with a GPU, and reports faults, races and misused barriers by source line. The "
        "exit code is 1 where there are findings.",
    )
    parser.add_argument("--ops", action="store_true", help="simulate the built-in ops as well")
    parser.add_argument("--device", default="", metavar="sm_80", help="the GPU to simulate")
    parser.add_argument("--no-races", action="store_true", help="do not look for races")
    parser.add_argument("--seed", type=int, default=0, help="shuffles the order of warps; 0: none")
    parser.add_argument("script", help="the program")
    parser.add_argument("args", nargs=argparse.REMAINDER, help="its arguments")


def main(args: argparse.Namespace) -> int:
    """Runs the script in a process of its own, which must choose its device before it starts."""
    if args.seed < 0:
        raise ValueError(f"check: --seed is {args.seed}, expected at least 0")
    if not os.path.isfile(args.script):
        raise ValueError(f"check: there is no file {args.script!r}")
    env = dict(os.environ, PYGPUKIT_DEVICE="sim" if args.ops else "cpu")
    env.pop("PYGPUKIT_REQUIRE_GPU", None)
    if args.device:
        env["PYGPUKIT_SIM_DEVICE"] = args.device
    start = "import sys; from pygpukit._cli.check import child; sys.exit(child(*sys.argv[1:]))"
    command = [sys.executable, "-c", start, str(args.seed)]
    command += ["no" if args.no_races else "yes", args.script, *args.args]
    return subprocess.run(command, env=env, check=False).returncode


def child(seed: str, races: str, script: str, *args: str) -> int:
    """The other process."""
    from pygpukit.core.errors import GpuUnavailable

    try:
        return run_script(int(seed), races == "yes", script, list(args))
    except GpuUnavailable as error:
        print(f"pygpukit: check: {error}", file=sys.stderr)
        return 1


def run_script(seed: int, races: bool, script: str, args: list[str]) -> int:
    """Runs the script here; the report goes to stderr, the script's output stays its own."""
    from pygpukit import sim

    report = sim.Report()
    sys.argv = [script, *args]
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    code = 0
    with sim.watching_leaks() as leaks:
        with sim.recording(report.launches, check=True, races=races, seed=seed):
            try:
                runpy.run_path(script, run_name="__main__")
            except SystemExit as ended:
                code = ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
                if isinstance(ended.code, str):
                    print(ended.code, file=sys.stderr)
            except (Exception, KeyboardInterrupt) as error:  # what was found until then is shown
                _print_error(error, script)
                code = 1 if isinstance(error, Exception) else 130
        report.leaks = leaks(None)  # the script's own variables are gone
    sys.stdout.flush()
    print(report, file=sys.stderr)
    return code or (0 if report.ok else 1)


def _print_error(error: BaseException, script: str) -> None:
    """What Python would print, from the script's own frames on."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != script:
        trace = trace.tb_next
    traceback.print_exception(type(error), error, trace)

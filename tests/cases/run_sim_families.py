"""Runs rows of cases.sim_families in this process, on the simulated device, with all checks on.

    python -m cases.run_sim_families PART PARTS

Prints a line of JSON for each case: its name, seconds, kernels launched, and what went wrong.
"""

from __future__ import annotations

import json
import sys
import time
import traceback

import pygpukit as gp
from cases.sim_families import CASES, Case


def run_case(case: Case) -> dict[str, object]:
    start = time.perf_counter()
    launches: list[gp.sim.Launch] = []
    problem = ""
    try:
        with gp.sim.recording(launches, check=True, races=True):
            case.run()
    except Exception:
        problem = traceback.format_exc(limit=-4)
    report = gp.sim.Report(launches)
    return {
        "name": str(case),
        "family": case.family,
        "seconds": round(time.perf_counter() - start, 2),
        "lane_ops": sum(launch.lane_ops for launch in launches),
        "kernels": sorted({launch.kernel for launch in launches}),
        "problem": problem if report.ok else f"{report}\n{problem}",
    }


def runs_on(case: Case, sm: int) -> bool:
    """SM120 is for the cases that name it: it runs the code of SM80 otherwise."""
    return case.sm == sm or (case.sm == 0 and sm < 100)


def main() -> None:
    sm = gp.get_sm_version()
    wanted = [case for case in CASES if runs_on(case, sm)]
    if sys.argv[1] in {str(case) for case in wanted}:
        wanted = [case for case in wanted if str(case) in sys.argv[1:]]
    else:
        part, parts = map(int, sys.argv[1:3])
        wanted = wanted[part::parts]
    for case in wanted:
        print(json.dumps(run_case(case)), flush=True)


if __name__ == "__main__":
    main()

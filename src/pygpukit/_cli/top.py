"""``python -m pygpukit top``: a live view of processes that use the GPU."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from pygpukit._cli.terminal import Style, is_terminal, use_color
from pygpukit.scheduler.inspection import Snapshot
from pygpukit.scheduler.publishing import folder, published

_NOTHING = """no process publishes its state.
Set PYGPUKIT_TOP=1 in the environment of the process to watch (or call
pygpukit.scheduler.publish() in it), then run this again."""


def main(*, once: bool, interval: float, as_json: bool, pid: int | None) -> int:
    """Shows all published snapshots, once or until Ctrl-C. 1 when `once` finds none."""
    live = not once and is_terminal(sys.stdout)
    style = Style(use_color(sys.stdout))
    try:
        while True:
            found = [data for data in published() if pid is None or data["pid"] == pid]
            text = _json(found) if as_json else render(found, style)
            if live and not as_json:
                sys.stdout.write("\x1b[H\x1b[2J")  # home, clear
            print(text, flush=True)
            if once or (not live and not found):
                return 0 if found else 1
            time.sleep(interval)
    except KeyboardInterrupt:
        return 0


def _json(found: list[dict[str, Any]]) -> str:
    return json.dumps({"processes": found})


def render(found: list[dict[str, Any]], style: Style) -> str:
    """The processes as text."""
    if not found:
        return f"{folder()}: {_NOTHING}"
    parts = []
    for data in found:
        try:
            snapshot = Snapshot.from_dict(data["snapshot"])
        except (KeyError, TypeError):
            parts.append(f"{data['pid']}: written by another version of PyGPUkit")
            continue
        age = max(0.0, time.time() - snapshot.time)
        head = style.bold(f"process {data['pid']}") + f"  {data['command']}"
        parts.append(f"{head}  {style.dim(f'{age:.1f} s ago')}\n{snapshot}")
    return "\n\n".join(parts)

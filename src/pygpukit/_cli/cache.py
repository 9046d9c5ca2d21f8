"""``python -m pygpukit cache``: folder, statistics, clearing and warm-up."""

from __future__ import annotations

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor

from pygpukit import _native
from pygpukit._cli.terminal import ProgressLine, human_bytes

MIN_SM = 80


class UsageError(ValueError):
    """Invalid command-line arguments."""


def main(action: str, *, as_json: bool, sms: list[int], ops: list[str]) -> int:
    """Runs dir, stat, clear or warm."""
    if action == "dir":
        print(_native.config()["cache_dir"])
    elif action == "stat":
        _print_stat(as_json)
    elif action == "clear":
        _require_enabled()
        print(f"removed {_native.cache_clear()} kernels from {_native.config()['cache_dir']}")
    else:
        _warm(sms, ops)
    return 0


def _print_stat(as_json: bool) -> None:
    info = _native.cache_info()
    if as_json:
        print(json.dumps(info, indent=2))
    elif info["enabled"]:
        print(f"folder   {info['folder']}")
        print(f"kernels  {info['entries']}")
        print(f"size     {human_bytes(info['bytes'])}")
    else:
        print("disabled (PYGPUKIT_CACHE_DISABLE)")


def _require_enabled() -> None:
    if not _native.cache_info()["enabled"]:
        raise RuntimeError("the kernel cache is disabled (PYGPUKIT_CACHE_DISABLE)")


def _targets(sms: list[int]) -> list[int]:
    if not sms:
        device, reason = _native.default_device()
        if device == "cpu":
            raise UsageError(f"cache warm: pass --sm, there is no GPU to compile for. {reason}")
        sms = [_native.device_traits()["sm"]]
    for sm in sms:
        if sm < MIN_SM:
            raise UsageError(f"cache warm: --sm {sm}: PyGPUkit needs SM {MIN_SM} or newer")
    return sms


def _warm(sms: list[int], ops: list[str]) -> None:
    targets = _targets(sms)
    known = {row[0] for row in _native.builtin_kernels()}
    for op in ops:
        if op not in known:
            raise UsageError(f"cache warm: --op {op}: no built-in kernel has that name")
    _require_enabled()
    jobs = [
        (index, sm, op)
        for sm in targets
        for index, (op, _file, _expression, exact, _bundled) in enumerate(_native.builtin_kernels())
        if (not exact or sm in exact) and (not ops or op in ops)
    ]
    progress = ProgressLine()
    ready = 0
    start = time.perf_counter()
    pool = ThreadPoolExecutor(max_workers=min(8, os.cpu_count() or 1))
    try:
        futures = [pool.submit(_native.cache_warm, index, sm) for index, sm, _op in jobs]
        for done, ((_index, sm, op), future) in enumerate(zip(jobs, futures, strict=True)):
            progress.steps(done, len(jobs), f"{op} for SM {sm}")
            ready += future.result()
    finally:
        pool.shutdown(cancel_futures=True)
        progress.clear()
    info = _native.cache_info()
    spent = time.perf_counter() - start
    names = ", ".join(f"SM {sm}" for sm in targets)
    print(f"{ready} built-in kernels are ready for {names} ({spent:.1f} s)")
    if ready < len(jobs):
        print(
            f"{len(jobs) - ready} more are in the PTX bundle, assembled by the driver on first use"
        )
    print(f"{info['folder']}: {info['entries']} kernels, {human_bytes(info['bytes'])}")

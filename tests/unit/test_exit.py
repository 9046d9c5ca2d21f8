"""The interpreter exits while threads are inside ops, tasks and callbacks."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from pygpukit.scheduler import Scheduler

# GPK_TEST_EXITS=200 for a longer look.
EXITS = int(os.environ.get("GPK_TEST_EXITS", "12"))

BUSY = """
import random, threading, time
import numpy as np, pygpukit as gp
from pygpukit import transfer
from pygpukit.scheduler import Scheduler, service

service._EXIT_SECONDS = 0.05  # tasks that never end are not waited for

class Slow:  # Python code inside a call of ours
    def __index__(self):
        return sum(range(300)) % 7 + 9

def work():
    a = gp.ones((16, 16))
    host = np.ones((16, 16), np.float32)
    while True:
        ((a + a) * 2).sum(axis=0)
        gp.zeros(Slow())
        a[Slow():] @ a[:, 0]
        gp.from_numpy(host).to_numpy()
        transfer.submit_h2d(a, host)._native.add_done_callback(lambda: sum(range(300)))

for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
scheduler = Scheduler(workers=3)
for _ in range(3):
    scheduler.submit(work).add_done_callback(lambda _: None)
time.sleep(0.02 + 0.1 * random.random())
"""


def test_busy_threads_and_tasks_end_with_the_process(run_python) -> None:
    with ThreadPoolExecutor(4) as pool:
        ended = list(pool.map(lambda _: run_python(BUSY), range(EXITS)))
    assert [(e.returncode, e.stderr) for e in ended if e.returncode != 0 or e.stderr] == []


def test_exit_waits_for_a_compile(run_python) -> None:
    """NVRTC's static destructors must not run under one: 6 of 20 exits crashed."""
    code = """
import threading, time, pygpukit as gp
from pygpukit import _native
if not _native.nvrtc_info()["available"]:
    raise SystemExit("no NVRTC")
def work(n):
    while True:
        n += 2
        _native.compile_to_ptx("".join(
            f"__global__ void k{n}_{i}(float* a) {{ a[{i}] = powf(a[0], a[{n}]); }}"
            for i in range(30)))
for n in range(2):
    threading.Thread(target=work, args=(n,), daemon=True).start()
time.sleep(0.6)
"""
    for _ in range(3):
        done = run_python(code, PYGPUKIT_CACHE_DISABLE="1")
        if "no NVRTC" in done.stderr:
            pytest.skip("no NVRTC")
        assert (done.returncode, done.stderr) == (0, "")


def test_shutdown_takes_its_timeout_in_all() -> None:
    go = threading.Event()
    scheduler = Scheduler(workers=4)
    tasks = [scheduler.submit(go.wait) for _ in range(4)]
    while not all(task.running() for task in tasks):
        time.sleep(0.001)
    began = time.monotonic()
    assert not scheduler.shutdown(timeout=0.3)
    assert time.monotonic() - began < 0.8
    go.set()
    assert all(task.wait(5) for task in tasks)

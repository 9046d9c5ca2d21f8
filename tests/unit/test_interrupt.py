"""Ctrl-C at any moment is a KeyboardInterrupt: never lost, never another error."""

from __future__ import annotations

import os

import pytest

# GPK_TEST_INTERRUPTS=10000 for a longer look.
INTERRUPTS = int(os.environ.get("GPK_TEST_INTERRUPTS", "1500"))

COUNT = """
import random, signal
import numpy as np, pygpukit as gp

class Slow:  # Python code inside a call of ours, where most signals are seen
    dtype = property(lambda self: [np.float32 for _ in range(50)][0])
    shape = property(lambda self: tuple(range(50))[:0])
    def __index__(self):
        return sum(range(100)) % 3
    def __float__(self):
        return float(sum(range(100)))
    def item(self):
        return float(sum(range(100)))
    def __bool__(self):
        return sum(range(100)) > 0

class Items(list):
    def __getattribute__(self, name):
        sum(range(100))
        return super().__getattribute__(name)

a, slow = gp.ones((4, 4)), Slow()
calls = [
    lambda: gp.zeros((4, slow), dtype=np.float64),
    lambda: gp.zeros(slow, dtype=float),
    lambda: a.astype(np.float16),
    lambda: gp.result_type(slow, np.int32),
    lambda: a.sum(axis=slow if slow.__index__() < 2 else 0),
    lambda: a.reshape(slow.__index__() + 16 - slow.__index__()),
    lambda: a[slow],
    lambda: a[0:slow, [0, 1]],
    lambda: gp.stack([a, a], axis=slow),
    lambda: gp.roll(a, slow, axis=0),
    lambda: gp.sort(a, axis=slow.__index__() % 2),
    lambda: gp.full((2, 2), slow),
    lambda: a + slow,
    lambda: gp.matmul(a, a, alpha=slow),
    lambda: a.__setitem__(0, Items([1.0, 2.0, 3.0, 4.0])),
    lambda: a.sum(axis=0, keepdims=slow),
    lambda: gp.bincount(gp.ones(3, dtype="int32"), minlength=slow),
    lambda: gp.quantile(a, slow.__float__() / 5000),
    lambda: gp.from_numpy(np.ones((2, 2), np.float32)),
]

fired = 0
def handler(*_):
    global fired
    fired += 1
    raise KeyboardInterrupt
signal.signal(signal.SIGALRM, handler)

for call in calls:
    call()
random.seed(0)
caught, lost, changed = 0, [], []
while fired < {count}:
    before, call = fired, calls[random.randrange(len(calls))]
    try:
        signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-5, 2e-4))
        while fired == before:
            call()
        lost.append(calls.index(call))
    except KeyboardInterrupt:
        caught += 1
    except BaseException as error:
        changed.append((calls.index(call), repr(error)))
print(caught == fired, lost[:5], changed[:5])
"""


def test_no_interrupt_is_lost_or_changed(run_python) -> None:
    done = run_python(COUNT.replace("{count}", str(INTERRUPTS)))
    assert done.stdout.strip() == "True [] []", done.stderr
    assert done.stderr == ""


def test_ctrl_c_ends_a_task_that_runs_on_the_main_thread(run_python) -> None:
    code = """
import os, signal
from pygpukit.scheduler import Scheduler
ran = []
def interrupted():
    os.kill(os.getpid(), signal.SIGINT)
    while True: pass
scheduler = Scheduler(window_ms=10.0)
first = scheduler.submit(interrupted)
second = scheduler.submit(lambda: ran.append(2))
try:
    scheduler.step()
    for _ in range(100): pass
    print("lost")
except KeyboardInterrupt:
    print("KeyboardInterrupt", scheduler.get_task(first).state.value, ran)
scheduler.step()
print(ran)
"""
    done = run_python(code)
    assert done.stdout.split("\n")[:2] == ["KeyboardInterrupt failed []", "[2]"], done.stderr


def test_a_compile_can_be_interrupted(run_python, tmp_path) -> None:
    """The compile continues, and its result is in the cache afterwards."""
    code = """
import os, signal, sys, threading, time
import pygpukit as gp
from pygpukit import _native
if not _native.nvrtc_info()["available"]:
    sys.exit("no NVRTC")
def source(n):
    return "".join(
        f"__global__ void k{i}(float* a) {{ for (int j = 0; j < {i + n}; ++j) "
        "a[j] = powf(a[0], erff(a[j])) + tgammaf(a[j]); }" for i in range(n))
gp.RawModule(source(1))
text = source(40)
signalled = []
def signal_main():
    time.sleep(0.2)
    signalled.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=signal_main).start()
try:
    gp.RawModule(text)
    print("the compile was not interrupted")
except KeyboardInterrupt:
    print("interrupted", time.monotonic() - signalled[0] < 0.5, _native.cache_info()["entries"])
limit = time.monotonic() + 60
while _native.cache_info()["entries"] < 2 and time.monotonic() < limit:
    time.sleep(0.02)
print(_native.cache_info()["entries"], gp.RawModule(text).get_function("k3").is_compiled)
"""
    done = run_python(code, PYGPUKIT_CACHE_DIR=str(tmp_path / "cache"))
    if "no NVRTC" in done.stderr:
        pytest.skip("no NVRTC")
    assert done.stdout.split("\n")[:2] == ["interrupted True 1", "2 True"], done.stderr

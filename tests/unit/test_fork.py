"""Forked children on CPU simulation: nothing is tied to the parent."""

from __future__ import annotations

import os
import sys

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

USE = "x = gp.ones(1000) + 1; assert x.to_numpy().sum() == 2000"


@pytest.mark.parametrize(
    "before", ["pass", USE, "gp.is_nvrtc_available(); gp.Stream(); gp.CudaGraph()"]
)
def test_child_works(run_python, before: str) -> None:
    code = f"""
import os, sys, pygpukit as gp
{before}
pid = os.fork()
if pid == 0:
    {USE}
    gp.is_cuda_available()
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
{USE}
"""
    done = run_python(code)
    assert (done.returncode, done.stdout.strip()) == (0, "7"), done.stderr


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.skipif(sys.platform == "win32", reason="no fork")
def test_multiprocessing(run_python, tmp_path, method: str) -> None:
    (tmp_path / "worker.py").write_text(
        "import pygpukit as gp\ndef work(n):\n    return float((gp.ones(n) * 2).to_numpy().sum())\n"
    )
    code = f"""
import multiprocessing, worker
if __name__ == "__main__":
    worker.work(1)
    with multiprocessing.get_context("{method}").Pool(2) as pool:
        print(pool.map(worker.work, [1, 2, 3]))
"""
    done = run_python(code)
    assert done.stdout.strip() == "[2.0, 4.0, 6.0]", done.stderr


def test_child_forked_during_a_compile_does_not_hang(run_python) -> None:
    """A thread compiles without end, so that most forks hit a compile; none may hang."""
    code = """
import os, signal, sys, threading, time, pygpukit as gp
from pygpukit import _native
if not _native.nvrtc_info()["available"]:
    sys.exit("no NVRTC")
source = "".join(
    f"__global__ void k{i}(float* a) {{ for (int j = 0; j < {i}; ++j) a[j] = powf(a[0], a[j]); }}"
    for i in range(60))
forked = False
def work():
    while not forked:
        _native.compile_to_ptx(source)
thread = threading.Thread(target=work)
thread.start()

def child():
    signal.alarm(20)
    kernel = gp.jit("__global__ void f(float* a) {}", "f", reference=lambda a: None)
    kernel(gp.ones(4))
    try:
        _native.compile_to_ptx("__global__ void g() {}")
    except gp.NvrtcError as error:
        os._exit(7 if "forked while another thread was compiling" in str(error) else 8)
    os._exit(9)

codes = []
while len(codes) < 20 and (not codes or codes[-1] == 9):  # 9: it fell between two compiles
    time.sleep(0.1)
    pid = os.fork()
    if pid == 0:
        child()
    codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
forked = True
thread.join()
print(codes[-1])
"""
    done = run_python(code, PYGPUKIT_CACHE_DISABLE="1")
    if "no NVRTC" in done.stderr:
        pytest.skip("no NVRTC")
    assert (done.returncode, done.stdout.strip()) == (0, "7"), done.stderr

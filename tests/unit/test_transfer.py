"""The transfer engine on CPU simulation and on the fake driver."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import pygpukit as gp

COUNT = 700_001  # floats: above the engine's threshold, not a multiple of a chunk


def test_there_and_back() -> None:
    host = np.arange(COUNT, dtype=np.float32)
    x = gp.zeros(COUNT)
    future = gp.transfer.submit_h2d(x, host)
    future.wait()
    assert future.done()
    np.testing.assert_array_equal(x.to_numpy(), host)
    back = np.zeros_like(host)
    result = gp.transfer.submit_d2h(x, back, priority=3).result()
    np.testing.assert_array_equal(back, host)
    assert (result.type, result.state, result.bytes, result.priority) == (
        "d2h",
        "Completed",
        host.nbytes,
        3,
    )
    assert result.error == ""
    assert "Completed" in repr(future)


@pytest.mark.parametrize("end", ["wait", "done"])
def test_memory_is_free_when_the_end_was_seen(end: str) -> None:
    host = np.zeros(1 << 20, np.uint8)
    before = gp.memory.stats()["used"]
    for _ in range(300):
        future = gp.transfer.submit_h2d(gp.empty(host.shape, "uint8"), host)
        if end == "wait":
            future.wait()
        else:
            while not future.done():
                pass
        assert gp.memory.stats()["used"] == before


@pytest.mark.parametrize("dtype", ["bool", "int8", "bfloat16", "complex64", "float64"])
@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 0, 2), (31, 33)], ids=str)
def test_shapes_and_dtypes(shape: tuple[int, ...], dtype: str) -> None:
    x = gp.ones(shape, dtype=dtype)
    host = np.zeros_like(x.to_numpy())
    gp.transfer.submit_d2h(x, host).wait()
    np.testing.assert_array_equal(host, x.to_numpy())
    y = gp.zeros(shape, dtype=dtype)
    gp.transfer.submit_h2d(y, host).wait()
    np.testing.assert_array_equal(y.to_numpy(), host)


def test_it_can_be_awaited() -> None:
    async def copy() -> str:
        x = gp.zeros(COUNT)
        host = np.full(COUNT, 3, np.float32)
        first, second = await asyncio.gather(
            _await(gp.transfer.submit_h2d(x, host)), _await(gp.transfer.submit_h2d(x, host))
        )
        assert (x.to_numpy() == 3).all()
        done = gp.transfer.submit_h2d(x, host)
        done.wait()
        await done  # a future that is done already
        return str(first.state + second.state)

    async def _await(future: gp.transfer.TransferFuture) -> Any:
        return await future

    assert asyncio.run(copy()) == "CompletedCompleted"


def test_memory_is_kept_until_the_copy_is_done() -> None:
    host = np.zeros(COUNT, np.float32)
    seen = weakref.ref(host)
    x = gp.ones(COUNT)
    future = gp.transfer.submit_d2h(x, host)
    del x, host
    future.wait()
    for _ in range(1000):
        gc.collect()
        if seen() is None:
            break
    assert seen() is None


@pytest.mark.parametrize(
    ("array", "host", "error", "message"),
    [
        (gp.ones(4), [1, 2, 3, 4], TypeError, "submit_h2d: host is .* expected a numpy.ndarray"),
        (gp.ones(4), np.ones(5, np.float32), ValueError, r"host has shape \(5,\), the array has"),
        (gp.ones(4), np.ones(4), ValueError, "host has dtype float64, the array has float32"),
        (gp.ones((4, 4)).T, np.ones((4, 4), np.float32), ValueError, "array is not contiguous"),
        (gp.ones((4, 4)), np.ones((4, 4), np.float32).T, ValueError, "host is not C-contiguous"),
    ],
)
def test_errors(array: Any, host: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        gp.transfer.submit_h2d(array, host)


def test_destinations_that_cannot_be_written() -> None:
    host = np.ones(4, np.float32)
    host.flags.writeable = False
    with pytest.raises(ValueError, match="submit_d2h: host is read-only"):
        gp.transfer.submit_d2h(gp.ones(4), host)
    gp.transfer.submit_h2d(gp.ones(4), host).wait()  # reading is fine


def test_stats_count() -> None:
    before = gp.transfer.stats()
    x = gp.zeros(1000)
    host = np.ones(1000, np.float32)
    for _ in range(3):
        gp.transfer.submit_h2d(x, host).wait()
    after = gp.transfer.stats()
    assert after["h2d"].completed - before["h2d"].completed == 3
    assert after["h2d"].bytes - before["h2d"].bytes == 12000
    assert after["d2h"].submitted == before["d2h"].submitted
    assert set(after) == {"h2d", "d2h", "d2d"}


def test_settings_come_before_the_first_transfer(run_python: Any) -> None:
    code = """
import numpy as np, pygpukit as gp
gp.transfer.configure(chunk_bytes=4096, max_in_flight_bytes=8192, copy_threads=2)
x = gp.zeros(100_000, dtype="uint8")
gp.transfer.submit_h2d(x, np.ones(100_000, np.uint8)).wait()
print(gp.transfer.stats()["h2d"].chunks)
for chunk_bytes in (512, 1):
    try:
        gp.transfer.configure(chunk_bytes=chunk_bytes)
    except (RuntimeError, ValueError) as error:
        print(type(error).__mro__[1].__name__, str(error)[:9])
"""
    done = run_python(code)
    assert done.stdout.splitlines()[0] == "25", done.stderr
    assert len(done.stdout.splitlines()) == 3


def test_a_process_that_ends_in_the_middle(run_python: Any) -> None:
    code = """
import numpy as np, pygpukit as gp
x = gp.zeros(4_000_000)
futures = [gp.transfer.submit_h2d(x, np.ones(4_000_000, np.float32)) for _ in range(20)]
"""
    done = run_python(code)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_an_engine_of_its_own(run_python: Any) -> None:
    code = """
import os, numpy as np, pygpukit as gp
x = gp.zeros(1000)
kept = gp.transfer.submit_h2d(x, np.ones(1000, np.float32))
kept.wait()
pid = os.fork()
if pid == 0:
    gp.transfer.submit_h2d(x, np.full(1000, 2, np.float32)).wait()
    assert (x.to_numpy() == 2).all()
    raise SystemExit(7)  # a normal exit, with the parent's future alive
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    done = run_python(code)
    assert (done.returncode, done.stdout.strip()) == (0, "7"), done.stderr


def test_threads_at_once() -> None:
    errors: list[BaseException] = []

    def work(value: int) -> None:
        try:
            x = gp.zeros(COUNT)
            host = np.full(COUNT, value, np.float32)
            for _ in range(5):
                gp.transfer.submit_h2d(x, host, priority=value).wait()
                back = np.empty_like(host)
                gp.transfer.submit_d2h(x, back).wait()
                assert (back == value).all()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


# --- On the fake driver --------------------------------------------------------------------------


def test_large_arrays_go_through_the_engine(run_on_fake: Any) -> None:
    out = run_on_fake("""
host = np.arange(3_000_000, dtype=np.int64)
x = gp.from_numpy(host)
print((x.to_numpy() == host).all(), gp.transfer.stats()["h2d"].staged_bytes == host.nbytes)
view = host[::2]
print((gp.from_numpy(view).to_numpy() == view).all())
small = np.arange(1000)
print((gp.from_numpy(small).to_numpy() == small).all(), gp.transfer.stats()["d2h"].completed)
pinned = gp.pinned_empty(3_000_000, "int64")
x.to_numpy(out=pinned)
print((pinned == host).all(), gp.transfer.stats()["d2h"].completed)
""")
    assert out == "True True\nTrue\nTrue 2\nTrue 2\n"


def test_a_copy_starts_after_the_work_of_the_array(run_on_fake: Any) -> None:
    out = run_on_fake("""
import time
x = gp.zeros(1_000_000)
stream = gp.Stream()
fake.gpk_fake_set_busy(stream.handle, 1)
host = np.ones(1_000_000, np.float32)
future = gp.transfer.submit_h2d(x, host, stream=stream)
time.sleep(0.05)
print(future.done())
print(future.cancel(), future.cancel(), future.done())
try:
    future.wait()
except RuntimeError as error:
    print("cancelled" in str(error))
later = gp.transfer.submit_h2d(x, host, stream=stream)
fake.gpk_fake_set_busy(stream.handle, 0)
print(later.result().state)
""")
    assert out == "False\nTrue True True\nTrue\nCompleted\n"


def test_nothing_of_the_engine_is_left_at_exit(run_on_fake: Any) -> None:
    out = run_on_fake("""
import atexit
x = gp.from_numpy(np.ones(1_000_000, np.float32))
def check():
    print(fake.gpk_fake_live_objects(b"pinned"), fake.gpk_fake_live_objects(b"stream"))
atexit.unregister(gp._native.finish)
atexit.register(check)
atexit.register(gp._native.finish)
""")
    assert out == "0 0\n"


def test_not_during_a_capture(run_on_fake: Any) -> None:
    out = run_on_fake("""
x = gp.zeros(10)
host = np.ones(10, np.float32)
future = gp.transfer.submit_h2d(x, host)
graph = gp.CudaGraph()
try:
    with graph:
        gp.transfer.submit_h2d(x, host)
except gp.CaptureError as error:
    print("submit_h2d: cannot be captured" in str(error))
future.wait()
""")
    assert out == "True\n"

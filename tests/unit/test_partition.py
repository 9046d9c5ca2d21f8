"""Partitions on CPU simulation and on the fake driver."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import pygpukit as gp
from pygpukit.scheduler.partition import memory_bytes

MIB = 2**20


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, 0),
        (1, 1),
        (4096, 4096),
        (0.25, 250),
        (1.0, 1000),
        ("50%", 500),
        ("2KiB", 2048),
        ("8 GiB", 8 * 2**30),
        ("1.5GB", 1_500_000_000),
        ("100", 100),
        ("3k", 3000),
    ],
)
def test_memory_sizes(given: Any, expected: int) -> None:
    assert memory_bytes(given, 1000) == expected


@pytest.mark.parametrize("given", [0, -5, 0.0, 1.5, "", "many", "5 XB", "-1GiB", float("nan")])
def test_bad_memory_sizes(given: Any) -> None:
    with pytest.raises(ValueError, match="partition: memory is"):
        memory_bytes(given, 1000)


def test_arguments_of_the_wrong_type() -> None:
    assert memory_bytes(np.float32(0.5), 1000) == 500
    for options, named in (
        ({"memory": [1]}, "memory is list"),
        ({"memory": {}}, "memory is dict"),
        ({"compute": "a"}, "compute of 'wrong' is 'a'"),
        ({"bandwidth": None, "compute": [0.5]}, r"compute of 'wrong' is \[0.5\]"),
    ):
        with pytest.raises(gp.InvalidArgument, match=f"partition: {named}.* expected a number"):
            gp.scheduler.partition("wrong", **options)
    for share in (0, 1.5, -1.0, float("nan")):
        with pytest.raises(gp.InvalidArgument, match="partition: compute"):
            gp.scheduler.partition("wrong", compute=share)


def test_a_limit_is_refused_and_the_neighbour_goes_on() -> None:
    small = gp.scheduler.partition("small", memory=MIB)
    other = gp.scheduler.partition("other", memory=64 * MIB)
    with small:
        x = gp.zeros(100_000)
        with pytest.raises(MemoryError, match=r"asked 3.81 MiB \(4000000 bytes") as caught:
            gp.zeros(1_000_000)
        assert caught.value.account_limit == MIB  # type: ignore[attr-defined]
        with other:
            y = gp.ones(1_000_000)
    assert float(y.sum()) == 1e6
    report = small.report()
    assert report.memory_refused == 1
    assert x.nbytes <= report.memory.used <= MIB
    assert report.memory.hard
    assert other.report().memory.used >= y.nbytes
    del x
    assert small.report().memory.used == 0
    assert report.memory_peak >= 400_000
    small.close()
    with pytest.raises(RuntimeError, match="'other' is in use: its arrays and tasks hold"):
        other.close()
    del y
    other.close()
    assert other.closed


def test_what_is_made_outside_costs_nothing() -> None:
    with gp.scheduler.partition("a", memory=1000) as p:
        pass
    x = gp.zeros(1_000_000)
    with p:
        x += 1  # in place: no new memory
    assert float(x.sum()) == 1e6
    p.close()


def test_the_stream_inside_is_one_of_the_partition() -> None:
    p = gp.scheduler.partition("streams", max_streams=2)
    outside = gp.current_stream()
    with p:
        inside = gp.current_stream()
        assert inside.handle != outside.handle
        with p:  # the same thread again
            assert gp.current_stream().handle == inside.handle
        assert gp.current_stream().handle == inside.handle
    assert gp.current_stream().handle == outside.handle
    assert p.report().streams.used == 1
    del inside
    p.close()


def test_threads_have_streams_of_their_own() -> None:
    p = gp.scheduler.partition("threads", max_streams=2)
    handles = []
    both = threading.Barrier(3)
    leave = threading.Event()

    def work() -> None:
        with p:
            handles.append(gp.current_stream().handle)
            both.wait()
            leave.wait()

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    both.wait()
    with pytest.raises(RuntimeError, match="all 2 streams of 'threads' are in use"), p:
        pass
    with pytest.raises(RuntimeError, match="'threads' is in use: 2 of its streams"):
        p.close()
    leave.set()
    for thread in threads:
        thread.join()
    assert len(set(handles)) == 2
    with p:
        assert gp.current_stream().handle in handles
    p.close()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"name": ""}, ValueError, "name is empty"),
        ({"compute": 0.0}, ValueError, "compute of 'a' is 0.0, expected a share"),
        ({"compute": 1.1}, ValueError, "compute of 'a' is 1.1"),
        ({"bandwidth": float("nan")}, ValueError, "bandwidth of 'a' is nan"),
        ({"qos": "gold"}, ValueError, "qos is 'gold', expected 'guaranteed', 'burstable'"),
        ({"max_streams": 0}, ValueError, "max_streams of 'a' is 0"),
        ({"memory": 2**60}, RuntimeError, "memory of 'a' is"),
        ({"device": "gpu"}, TypeError, "device is .gpu."),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        gp.scheduler.partition(**{"name": "a", **arguments})


def test_names_and_shares_are_kept_until_closing() -> None:
    a = gp.scheduler.partition("a", compute=0.7, bandwidth=0.5)
    with pytest.raises(ValueError, match="'a' already exists"):
        gp.scheduler.partition("a")
    with pytest.raises(RuntimeError, match=r"compute is 0\.4, only 0\.3"):
        gp.scheduler.partition("b", compute=0.4)
    with pytest.raises(RuntimeError, match=r"bandwidth is 0\.6"):
        gp.scheduler.partition("b", bandwidth=0.6)
    a.close()
    a.close()
    with pytest.raises(RuntimeError, match="'a' is closed"), a:
        pass
    gp.scheduler.partition("a", compute=1.0, bandwidth=1.0).close()


def test_a_dropped_partition_gives_everything_back() -> None:
    for _ in range(3):
        p = gp.scheduler.partition("dropped", compute=1.0)
        with p:
            x = gp.ones(10)
        del p
        assert float(x.sum()) == 10
        del x


def test_report_says_what_holds() -> None:
    with gp.scheduler.partition("told", compute=0.25, memory="1MiB", qos="best_effort") as p:
        report = p.report()
    assert (report.qos, report.device, report.eviction_rank) == ("best_effort", "cpu", 0)
    assert report.compute.how == "simulated"
    assert not report.compute.hard
    assert report.bandwidth.asked is None
    text = str(report)
    assert "partition told on cpu, best_effort" in text
    assert "memory     asked 1.04858e+06" in text
    assert "bandwidth  not limited" in text
    p.close()
    assert "closed" in repr(p)


def test_results_are_the_same_inside() -> None:
    x = gp.from_numpy(np.linspace(0, 1, 10_000, dtype=np.float32))
    expected = (gp.exp(x) @ gp.sin(x)).to_numpy()
    with gp.scheduler.partition("same", compute=0.1, qos="best_effort") as p:
        result = (gp.exp(x) @ gp.sin(x)).to_numpy()
    np.testing.assert_array_equal(result, expected)
    p.close()


# --- On the fake driver --------------------------------------------------------------------------


@pytest.fixture
def run(run_on_fake: Any) -> Any:
    return lambda program: run_on_fake("partition = gp.scheduler.partition\n" + program)


def test_green_contexts(run: Any) -> None:
    out = run("""
a = partition("a", compute=0.75, qos="guaranteed")
b = partition("b", compute=0.25)
for p in (a, b):
    with p:
        handle = gp.current_stream().handle
        print(fake.gpk_fake_stream_sms(handle), fake.gpk_fake_stream_priority(handle))
    limit = p.report().compute
    print(limit.how, limit.hard, round(limit.given, 3), round(limit.granule, 3))
print(fake.gpk_fake_live_objects(b"green_context"))
a.close(); b.close()
print(fake.gpk_fake_live_objects(b"green_context"))
""")
    assert out.splitlines() == [
        "100 -5",
        "green context True 0.758 0.061",
        "32 -2",
        "green context True 0.242 0.061",
        "2",
        "0",
    ]


def test_an_old_driver_paces(run: Any) -> None:
    out = run("""
fake.gpk_fake_set_driver_version(12030)
p = partition("p", compute=0.5)
with p:
    x = gp.zeros(1000)
limit = p.report().compute
print(limit.how, limit.hard, limit.given, "12.5" in limit.note)
""")
    assert out == "pacing False 0.5 True\n"


def test_ctrl_c_ends_a_wait_at_a_gate(run: Any) -> None:
    out = run("""
import signal, time
p = partition("p", qos="best_effort")
with p:
    x = gp.zeros(1000)
    fake.gpk_fake_set_busy(gp.current_stream().handle, 1)
    def stop(*_):
        raise KeyboardInterrupt
    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    start = time.time()
    try:
        for _ in range(100):
            gp.zeros(1000)
    except KeyboardInterrupt:
        print("interrupted", 0.1 < time.time() - start < 5)
    fake.gpk_fake_set_busy(gp.current_stream().handle, 0)
    print((gp.zeros(10).to_numpy() == 0).all())
""")
    assert out == "interrupted True\nTrue\n"


def test_other_threads_run_while_one_waits_at_a_gate(run: Any) -> None:
    out = run("""
import threading, time
p = partition("p", qos="best_effort")
inside = threading.Event()
handle = []
def work():
    with p:
        gp.zeros(1000)
        handle.append(gp.current_stream().handle)
        fake.gpk_fake_set_busy(handle[0], 1)
        inside.set()
        for _ in range(20):
            gp.zeros(1000)
thread = threading.Thread(target=work)
thread.start()
inside.wait()
time.sleep(0.1)
print(thread.is_alive(), (gp.zeros(10).to_numpy() == 0).all())
fake.gpk_fake_set_busy(handle[0], 0)
thread.join(20)
print(thread.is_alive())
""")
    assert out == "True True\nFalse\n"


def test_nothing_is_left_when_partitions_go(run: Any) -> None:
    out = run("""
import gc
x = gp.zeros(10)
def live():
    return [fake.gpk_fake_live_objects(kind) for kind in (b"stream", b"green_context")]
before = live()
for _ in range(3):
    a = partition("a", compute=0.5, qos="guaranteed", bandwidth=0.5, memory=0.5)
    b = partition("b", compute=0.5, qos="best_effort")
    for p in (a, b):
        with p:
            gp.zeros(1000)
    del a, b, p
    gc.collect()
after = live()
print(before == after, before, after)
""")
    assert out.startswith("True"), out

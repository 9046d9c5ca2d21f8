"""CUDA graphs on CPU simulation: capture, replay, what cannot be captured, life times."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest

import pygpukit as gp

HOST = np.ones(2, np.float32)


def values(x: gp.GPUArray) -> list[float]:
    return list(x.to_numpy().reshape(-1).tolist())


def test_capture_and_replay() -> None:
    x, y = gp.ones(3), gp.full(3, 2.0)
    graph = gp.CudaGraph()
    assert (repr(graph), graph.num_nodes, graph.is_ready()) == ("CudaGraph(not ready)", 0, False)
    graph.begin_capture()
    assert graph.is_capturing()
    assert gp.current_stream() is graph.stream
    gp.add(x, y, out=x)
    gp.mul(x, 2.0, out=x)
    graph.end_capture()
    assert gp.current_stream() is gp.default_stream()
    assert values(x) == [1, 1, 1]  # recorded, not run
    assert (graph.is_ready(), graph.is_capturing(), graph.num_nodes) == (True, False, 2)
    assert repr(graph) == "CudaGraph(ready, nodes=2)"
    graph.replay()
    graph.synchronize()
    assert values(x) == [6, 6, 6]
    graph.replay(gp.Stream())
    assert values(x) == [16, 16, 16]


def test_context_manager_with_new_arrays() -> None:
    x = gp.ones(3)
    graph = gp.CudaGraph()
    with graph as same:
        assert same is graph
        y = x + 1
        z = gp.zeros(3) + y
        z = z.clone() * 10
    graph.replay()
    assert values(z) == [20, 20, 20]
    gp.add(x, 1.0, out=x)
    graph.replay()
    assert values(z) == [30, 30, 30]


def test_graph_keeps_its_arrays_alive() -> None:
    out = gp.zeros(1 << 16)
    graph = gp.CudaGraph()
    with graph:
        a = gp.full(1 << 16, 3.0)
        gp.add(a + 1.0, a, out=out)
    del a
    gc.collect()
    junk = [gp.full(1 << 16, 9.0) for _ in range(8)]
    graph.replay()
    assert set(values(out)) == {7.0}
    assert len(junk) == 8


def test_copies_are_captured() -> None:
    src, dst = gp.ones(4), gp.zeros(4)
    graph = gp.CudaGraph()
    with graph:
        gp.core.copy_device_to_device_async(dst, src)
    assert values(dst) == [0] * 4
    gp.mul(src, 5.0, out=src)
    graph.replay()
    assert values(dst) == [5] * 4


def test_host_to_device_copy_is_not_run_while_capturing() -> None:
    host, dst = np.ones(4, np.float32), gp.zeros(4)
    graph = gp.CudaGraph()
    with graph:
        gp.core.copy_to_device_async(dst, host.ctypes.data, host.nbytes)
        gp.add(dst, 1.0, out=dst)
    assert values(dst) == [0] * 4
    host[:] = 5  # memory the caller keeps, read at each replay
    graph.replay()
    assert values(dst) == [6] * 4


def test_recapture_and_reset() -> None:
    x = gp.ones(2)
    graph = gp.CudaGraph()
    with graph:
        gp.add(x, 1.0, out=x)
    with graph:
        gp.mul(x, 3.0, out=x)
    assert graph.num_nodes == 1
    graph.replay()
    assert values(x) == [3, 3]
    graph.reset()
    assert (graph.is_ready(), graph.num_nodes) == (False, 0)
    with pytest.raises(gp.CaptureError, match="replay: the graph is empty"):
        graph.replay()
    graph.reset()  # twice is fine


def test_capture_errors() -> None:
    graph, other = gp.CudaGraph(), gp.CudaGraph()
    with pytest.raises(RuntimeError, match="end_capture: this thread is not capturing"):
        graph.end_capture()
    graph.begin_capture()
    with pytest.raises(
        RuntimeError, match="begin_capture: this thread is capturing a graph already"
    ):
        graph.begin_capture()
    with pytest.raises(RuntimeError, match="begin_capture"):
        other.begin_capture()
    with pytest.raises(gp.CaptureError, match="end_capture"):
        other.end_capture()
    with pytest.raises(gp.CaptureError, match="reset: the graph is being captured"):
        graph.reset()
    with pytest.raises(RuntimeError, match="nothing was captured"):
        graph.end_capture()
    assert gp.current_stream() is gp.default_stream()
    assert not graph.is_ready()


def test_exception_inside_the_block_drops_the_capture() -> None:
    x = gp.ones(2)
    graph = gp.CudaGraph()

    def fail() -> None:
        with graph:
            gp.add(x, 1.0, out=x)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert (graph.is_ready(), graph.is_capturing()) == (False, False)
    assert gp.current_stream() is gp.default_stream()
    gp.add(x, 1.0, out=x)  # runs again
    assert values(x) == [2, 2]


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("to_numpy", lambda x, g: x.to_numpy()),
        ("from_numpy", lambda x, g: gp.from_numpy(np.ones(2))),
        (
            "copy_to_device",
            lambda x, g: gp.core.copy_to_device(x, np.ones(2, np.float32).ctypes.data, 8),
        ),
        ("replay", lambda x, g: g.replay()),
    ],
)
def test_what_cannot_be_captured(name: str, call: Any) -> None:
    x = gp.ones(2)
    ready = gp.CudaGraph()
    with ready:
        gp.add(x, 0.0, out=x)
    with pytest.raises(gp.CaptureError, match=f"^{name}: cannot be captured"), gp.CudaGraph():
        call(x, ready)


def test_bad_calls_are_refused_while_capturing() -> None:
    graph = gp.CudaGraph()
    with pytest.raises(ValueError, match="could not be broadcast"), graph:
        gp.add(gp.ones(2), gp.ones(3))
    assert not graph.is_ready()


def test_capture_is_per_thread() -> None:
    x, y = gp.ones(2), gp.ones(2)
    graph = gp.CudaGraph()
    errors: list[Exception] = []

    def work() -> None:
        gp.add(y, 1.0, out=y)  # not part of the capture
        try:
            graph.end_capture()
        except gp.CaptureError as error:
            errors.append(error)

    with graph:
        gp.add(x, 1.0, out=x)
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert (values(x), values(y), graph.num_nodes, len(errors)) == ([1, 1], [2, 2], 1, 1)


def test_graph_dropped_while_capturing() -> None:
    gp.CudaGraph().begin_capture()
    gc.collect()
    x = gp.ones(2) + 1
    assert values(x) == [2, 2]
    assert gp.current_stream() is gp.default_stream()


def test_graph_dropped_by_another_thread_while_capturing(run_python) -> None:
    code = """
import threading, pygpukit as gp
box = [gp.CudaGraph()]
go, done = threading.Event(), threading.Event()
def work():
    box[0].begin_capture()
    done.set(); go.wait()
    x = gp.ones(2) + 1
    print(x.to_numpy().tolist())
t = threading.Thread(target=work); t.start(); done.wait()
box.clear(); go.set(); t.join()
"""
    done = run_python(code)
    assert (done.returncode, done.stdout.strip()) == (0, "[2.0, 2.0]"), done.stderr


def test_set_args() -> None:
    scale = gp.jit(
        "__global__ void scale(float* x, float f) { x[threadIdx.x] *= f; }",
        "scale",
        reference=lambda x, f: np.multiply(x, f, out=x),
    )
    x, y = gp.ones(2), gp.ones(2)
    graph = gp.CudaGraph()
    with graph:
        scale(x, 2.0)
    assert [launch["name"] for launch in graph.launches] == ["scale"]
    graph.set_args(0, y, f=5.0)
    graph.replay()
    assert (values(x), values(y)) == ([1, 1], [5, 5])
    with pytest.raises(IndexError, match="launch 1 does not exist"):
        graph.set_args(1, y, 5.0)


def test_handle_and_stream() -> None:
    graph = gp.CudaGraph()
    assert graph.get_stream_handle() == graph.stream.handle != 0

"""CUDA graphs: capture, replay, changed arguments, private memory, what cannot be captured."""

from __future__ import annotations

import numpy as np
import pytest

import pygpukit as gp
from pygpukit import _native

SCALE = """
__global__ void scale(float* x, float factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= factor;
}
"""


def test_capture_records_and_replay_runs() -> None:
    x = gp.zeros(100)
    graph = gp.CudaGraph()
    with graph:
        for _ in range(5):
            gp.add(x, 1.0, out=x)
    assert graph.is_ready()
    assert graph.num_nodes == 5
    assert (x.to_numpy() == 0).all()
    for _ in range(3):
        graph.replay()
    graph.synchronize()
    assert (x.to_numpy() == 15).all()
    assert repr(graph) == "CudaGraph(ready, nodes=5)"


def test_old_names() -> None:
    x = gp.ones(10)
    graph = gp.CudaGraph()
    assert graph.num_nodes == 0
    graph.begin_capture()
    assert graph.is_capturing()
    gp.mul(x, 2.0, out=x)
    graph.end_capture()
    graph.replay()
    graph.synchronize()
    assert (x.to_numpy() == 2).all()
    graph.reset()
    assert repr(graph) == "CudaGraph(not ready)"
    with pytest.raises(RuntimeError, match="capture first"):
        graph.replay()


def test_temporaries_live_in_the_graph() -> None:
    """Arrays made and dropped during the capture keep their addresses for all replays."""
    x = gp.ones(1 << 16)
    out = gp.zeros(1 << 16)
    graph = gp.CudaGraph()
    with graph:
        t = x + x
        u = t * t
        del t
        v = u + 1.0
        gp.add(v, x, out=out)
        del u, v
    # What others allocate meanwhile must not land in the graph's memory.
    noise = [gp.full(1 << 16, 7.0) for _ in range(16)]
    for _ in range(3):
        graph.replay()
    graph.synchronize()
    assert (out.to_numpy() == 6).all()
    assert all((n.to_numpy() == 7).all() for n in noise)


def test_graph_keeps_its_arrays_alive() -> None:
    kept = gp.zeros(1000)
    out = gp.zeros(1000)
    graph = gp.CudaGraph()
    with graph:
        gp.add(kept, 2.0, out=out)
    del kept
    noise = gp.full(1000, 50.0)
    graph.replay()
    graph.synchronize()
    assert (out.to_numpy() == 2).all()
    assert (noise.to_numpy() == 50).all()


def test_changed_kernel_arguments() -> None:
    kernel = gp.jit(SCALE, "scale")
    x = gp.ones(100)
    y = gp.ones(100)
    graph = gp.CudaGraph()
    with graph:
        kernel(x, factor=2.0, n=100)
        kernel(x, factor=3.0, n=100)
    assert [launch["name"] for launch in graph.launches] == ["scale", "scale"]
    graph.replay()
    graph.synchronize()
    assert (x.to_numpy() == 6).all()
    graph.set_args(0, y, factor=5.0, n=100)
    graph.replay()
    graph.synchronize()
    assert (x.to_numpy() == 18).all()
    assert (y.to_numpy() == 5).all()
    with pytest.raises(IndexError, match="2 kernel launches"):
        graph.set_args(2, y, factor=5.0, n=100)
    with pytest.raises(TypeError, match="missing arguments"):
        graph.set_args(0, y)


def test_builtin_launches_cannot_be_changed() -> None:
    x = gp.ones(10)
    graph = gp.CudaGraph()
    with graph:
        gp.add(x, x, out=x)
    with pytest.raises(ValueError, match="built-in kernel 'add'"):
        graph.set_args(0, x)


def test_programmatic_launches_in_a_graph() -> None:
    source = """
    __global__ void step(int* x) {
        asm volatile("griddepcontrol.wait;" ::: "memory");
        if (threadIdx.x == 0) *x += 1;
        asm volatile("griddepcontrol.launch_dependents;");
    }
    """
    kernel = gp.jit(source, "step")
    x = gp.zeros(1, "int32")
    graph = gp.CudaGraph()
    with graph:
        for _ in range(50):
            kernel(x, grid=1, block=32, programmatic=True)
    graph.replay()
    graph.replay()
    graph.synchronize()
    assert x.to_numpy().tolist() == [100]


def test_what_cannot_be_captured_says_so() -> None:
    x = gp.ones(10)
    host = np.ones(10, np.float32)
    for call in (
        x.to_numpy,
        lambda: gp.from_numpy(host),
        lambda: gp.current_stream().synchronize(),
    ):
        graph = gp.CudaGraph()
        with pytest.raises(gp.CaptureError, match=r"captur"), graph:  # noqa: PT012
            gp.add(x, 1.0, out=x)
            call()
        assert not graph.is_ready()
        assert not graph.is_capturing()
    assert (x.to_numpy() == 1).all()
    with pytest.raises(gp.CaptureError, match="nothing was captured"), gp.CudaGraph():
        pass


def test_nested_capture_is_refused() -> None:
    outer = gp.CudaGraph()
    x = gp.ones(3)
    with outer:
        gp.add(x, 1.0, out=x)
        with pytest.raises(gp.CaptureError, match="already"):
            gp.CudaGraph().begin_capture()
    assert outer.is_ready()


def test_first_use_of_a_kernel_may_fall_into_a_capture() -> None:
    kernel = gp.jit(SCALE.replace("scale", "scale_capture"), "scale_capture")
    x = gp.ones(33, "complex128")
    y = gp.ones(100)
    graph = gp.CudaGraph()
    with graph:
        gp.mul(x, x, out=x)
        kernel(y, 4.0, 100)
    graph.replay()
    graph.synchronize()
    assert (y.to_numpy() == 4).all()


@pytest.mark.alone
def test_private_memory_is_freed_with_the_graph() -> None:
    gp.synchronize()
    _native.trim()
    before = _native.memory_info()[0]
    graph = gp.CudaGraph()
    x = gp.ones(1 << 10)
    with graph:
        big = gp.empty(1 << 28, "uint8")
        gp.add(x, 1.0, out=x)
        del big
    held = _native.memory_info()[0]
    assert before - held >= 1 << 28
    del graph  # the pool caches released memory until it is trimmed
    _native.trim()
    assert _native.memory_info()[0] - held >= 1 << 28

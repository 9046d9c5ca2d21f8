"""Host cost of small calls, relative to the driver's in the same process; graph replay per node.

Best of 5 loops of 5000 calls, the loops of all rows interleaved so that conditions are equal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from pygpukit import _native
from pygpukit.benchmark.measure import CallCost, measure_events, summarize
from pygpukit.benchmark.peers import Engine
from pygpukit.benchmark.report import OURS
from pygpukit.benchmark.session import Session
from pygpukit.jit.compiler import jit

ELEMS = 256  # one block
SIDE = 64  # of the matrices that are joined
GRAPH_NODES = 1000
CHUNK = 500

SCALE = """
extern "C" __global__ void scale(float* x, float factor, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= factor;
}
"""

# A node of the graphs. The programmatic form may start before its predecessor has ended, and waits
# for it before it touches memory.
BUMP = """
extern "C" __global__ void bump(float* x, float amount, int n) {
#ifdef PROGRAMMATIC
  asm volatile("griddepcontrol.launch_dependents;");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] += amount;
}
"""


@dataclass
class Row:
    """One call to time. `sample` returns microseconds per call, averaged over one loop."""

    name: str
    impl: str
    call: str
    sample: Callable[[], float]
    calls: int
    launches: bool = True  # a single launch: compared with the floor
    samples: list[float] = field(default_factory=list)


def run(session: Session) -> None:
    """Runs the suite."""
    calls, repeats = (1000, 3) if session.quick else (5000, 5)
    rows = _own_rows(calls, jit_works=session.jit_works)
    if session.jit_works:
        rows.insert(0, _floor_row(calls))
    elif session.on_gpu:
        session.note("launch: driver floor, custom kernels and graphs skipped, NVRTC is missing")
    else:
        session.note(
            "launch: kernel launches and graph replay skipped, there is no GPU; "
            "the other rows are the cost of CPU simulation"
        )
    for peer in session.peers:
        rows += _peer_rows(session, peer, calls)
    for row in rows:  # warm up
        session.step(f"launch: {row.name}, {row.impl}")
        row.sample()
    for repeat in range(repeats):
        for row in rows:
            session.step(f"launch: {row.name}, {row.impl} (loop {repeat + 1} of {repeats})")
            row.samples.append(row.sample())
    _add_rows(session, rows)
    if session.jit_works:
        _graphs(session)


def _add_rows(session: Session, rows: list[Row]) -> None:
    floor = min(rows[0].samples) if session.jit_works else None
    order = list(dict.fromkeys(row.name for row in rows))
    for row in sorted(rows, key=lambda row: order.index(row.name)):
        extra: dict[str, Any] = {}
        if floor is not None and row.launches and row.name != "driver_floor":
            extra["over_floor_us"] = min(row.samples) - floor
        session.add(
            "launch",
            row.name,
            row.impl,
            summarize(row.samples),
            row.calls * len(row.samples),
            params={"call": row.call},
            extra=extra,
        )


def _floor_row(calls: int) -> Row:
    """cuLaunchKernel from a C++ loop, in chunks like all others."""
    chunks = max(1, calls // CHUNK)
    return Row(
        "driver_floor",
        "driver",
        "cuLaunchKernel in C++",
        lambda: fmean(_native.launch_floor(CHUNK, 1) for _ in range(chunks)),
        chunks * CHUNK,
    )


def _own_rows(calls: int, *, jit_works: bool) -> list[Row]:
    names: dict[str, Any] = {
        "a": _native.ones(ELEMS),
        "b": _native.ones(ELEMS),
        "c": _native.ones(ELEMS),
        "m": _native.ones((SIDE, SIDE)),
        "concat": _native.concat,
        "x": _native.ones(ELEMS),
        "n": ELEMS,
        "add": _native.add,
        "empty": _native.empty,
        "stream": _native.default_stream(),
    }

    def row(name: str, call: str, *, launches: bool = True, count: int = calls) -> Row:
        cost = CallCost(call, names, _native.synchronize, calls=count, chunk=CHUNK)
        return Row(name, OURS, call, cost.sample, cost.calls, launches)

    rows = [
        row("add_new", "a + b"),
        row("add_out", "add(a, b, out=c)"),
        row("concat_new", "concat((m, m, m, m))"),
        row("slice", "a[1:9]", launches=False),
        row("empty_drop", "empty(1024)", launches=False),
    ]
    if not jit_works:
        return rows
    names["k"] = jit(SCALE, "scale")
    names["bound"] = names["k"].bind(names["x"], 0.5, ELEMS)
    return [
        row("jit_call_keywords", "k(x, factor=0.5, n=n)"),
        row("jit_call_positional", "k(x, 0.5, n)"),
        row("jit_bound", "bound()"),
        *rows,
        row(
            "launch_sync",
            "bound(); stream.synchronize()",
            launches=False,
            count=min(calls, 1000),
        ),
    ]


def _peer_rows(session: Session, peer: Engine, calls: int) -> list[Row]:
    """The peer's equivalents of the same calls."""
    names: dict[str, Any] = {
        "a": peer.full(ELEMS, 1.0, "float32"),
        "b": peer.full(ELEMS, 1.0, "float32"),
        "c": peer.full(ELEMS, 1.0, "float32"),
        "m": peer.full(SIDE * SIDE, 1.0, "float32").reshape(SIDE, SIDE),
    }
    statements = {"add_new": "a + b", "add_out": "add(a, b, out=c)", "slice": "a[1:9]"}
    statements["concat_new"] = "concat((m, m, m, m))"
    module: Any = getattr(peer, "module", None)
    if peer.name == "numpy":
        import numpy

        names |= {"add": numpy.add, "empty": numpy.empty, "concat": numpy.concatenate}
        statements["empty_drop"] = "empty(1024, 'float32')"
    elif peer.name == "torch":
        names |= {"add": module.add, "empty": module.empty, "device": module.device("cuda")}
        names |= {"sync": module.cuda.synchronize, "concat": module.cat}
        statements["empty_drop"] = "empty(1024, device=device)"
        statements["launch_sync"] = "add(a, b, out=c); sync()"
    else:
        import numpy

        names |= {"add": module.add, "empty": module.empty, "float32": numpy.float32}
        names["concat"] = module.concatenate
        names |= {"k": module.RawKernel(SCALE, "scale"), "grid": (1,), "block": (ELEMS,)}
        names["args"] = (names["a"], numpy.float32(0.5), numpy.int32(ELEMS))
        statements["empty_drop"] = "empty(1024, float32)"
        statements["jit_call_positional"] = "k(grid, block, args)"
    rows = []
    for name, call in statements.items():
        count = min(calls, 1000) if name == "launch_sync" else calls
        try:
            cost = CallCost(call, names, _native.synchronize, calls=count, chunk=CHUNK)
            cost.sample()
        except Exception as error:  # third-party code may raise anything
            session.note(f"{peer.name} left out of launch/{name}: {type(error).__name__}: {error}")
            continue
        launches = peer.on_gpu and name not in ("slice", "empty_drop", "launch_sync")
        rows.append(Row(name, peer.name, call, cost.sample, cost.calls, launches))
    return rows


# --- graphs -------------------------------------------------------------------------------------


def _graphs(session: Session) -> None:
    _add_own_graph(session, "graph_node", programmatic=False)
    if _native.device_traits()["sm"] >= 90:
        try:
            _add_own_graph(session, "graph_node_programmatic", programmatic=True)
        except RuntimeError as error:
            session.note(f"launch/graph_node_programmatic failed: {error}")
    else:
        session.note("launch/graph_node_programmatic skipped: it needs SM 90")
    for peer in session.peers:
        if not peer.on_gpu:
            continue
        array = peer.full(ELEMS, 1.0, "float32")
        function = peer.binary("mul")
        function(array, array, array)  # loads the kernel, which is not possible during a capture
        try:
            peer_replay = peer.capture(lambda f=function, a=array: _repeat(f, a))  # type: ignore[misc]
        except Exception as error:  # third-party code may raise anything
            session.note(f"{peer.name} left out of launch/graph_node: {error}")
            continue
        if peer_replay is None:
            session.note(f"{peer.name} left out of launch/graph_node: graphs are not set up for it")
        else:
            _add_graph(session, "graph_node", peer.name, peer_replay, None)


def _repeat(function: Callable[[Any, Any, Any], object], array: Any) -> None:
    for _ in range(GRAPH_NODES):
        function(array, array, array)


def _add_own_graph(session: Session, name: str, *, programmatic: bool) -> None:
    x = _native.zeros(ELEMS)
    kernel = jit(BUMP, "bump", ["-DPROGRAMMATIC"] if programmatic else None)
    graph = _native.CudaGraph()
    with graph:
        for _ in range(GRAPH_NODES):
            kernel(x, 1.0, ELEMS, programmatic=programmatic)
    stream = _native.default_stream()
    graph.replay(stream)
    correct = bool((x.to_numpy() == GRAPH_NODES).all())
    _add_graph(session, name, OURS, lambda: graph.replay(stream), correct)


def _add_graph(
    session: Session,
    name: str,
    impl: str,
    replay: Callable[[], object],
    correct: bool | None,
) -> None:
    session.step(f"launch: {name}, {impl}")
    iterations = max(20, session.iterations)
    stats = measure_events(replay, max(3, session.warmup), iterations, min_sample_us=10_000.0)
    session.add(
        "launch",
        name,
        impl,
        type(stats)(*(us / GRAPH_NODES for us in stats)),
        iterations,
        params={"nodes": GRAPH_NODES},
        correct=correct,
    )

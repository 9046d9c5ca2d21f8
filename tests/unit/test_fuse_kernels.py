"""The kernels of gp.fuse: run on the host thread by thread, compiled by NVRTC without spills."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases.fuse import CASES, TOLERANCE, Case, random_chains
from cases.run_fuse import COMPILER, HostKernels, to_device
from cases.views import VIEWS

import pygpukit as gp
from pygpukit import _native
from pygpukit.ops import nn

LAST = {"axis": -1, "keepdims": True}
# Several rows to a block, odd widths, held in vectors and singly, read again in every pass.
SHAPES = {
    "float32": ((5, 8), (2, 1000), (1, 8200), (1, 20001)),
    "bfloat16": ((3, 33), (2, 1000), (2, 4099), (1, 33000)),
}

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler")
needs_nvrtc = pytest.mark.skipif(
    not _native.nvrtc_info()["available"], reason="NVRTC is not installed"
)


def check(got: Any, want: Any, dtype: str, name: str) -> None:
    wide = got.to_numpy().astype(np.float64)
    off = np.abs(wide - want) / (1 + np.abs(want))
    assert wide.shape == want.shape
    assert np.all(off <= TOLERANCE[dtype]), f"{name}: off by {np.max(off)}"


@needs_compiler
@pytest.mark.timeout(600)
def test_cases_on_the_host(tmp_path: Path) -> None:
    kernels = HostKernels()
    done = []
    for case in CASES:
        for dtype, shapes in SHAPES.items():
            for shape in shapes:
                host = case.draw(shape, dtype)
                name = f"{case} {dtype} {shape}"
                out = kernels.add(name, gp.fuse(case.ours), *to_device(host))
                done.append((name, out, case.want(*host), dtype))
    kernels.run(tmp_path)
    for name, out, want, dtype in done:
        check(out, want, dtype, name)


def broadcasts() -> list[tuple[tuple[int, ...], ...]]:
    return [
        ((4, 3, 16), (16,), (3, 1)),
        ((4, 3, 16), (3, 16), (4, 1, 1)),
        ((3, 16), (4, 1, 16), (1,)),
        ((16,), (16,), ()),
        ((2, 1, 3, 1, 2, 1, 3, 1, 2, 5), (2, 1, 3, 1, 2, 1, 3, 1, 5), (2, 3, 1, 1, 2, 1, 1, 1, 1)),
        ((1, 16), (5, 16), (5, 1)),
    ]


@needs_compiler
@pytest.mark.timeout(600)
def test_layouts_on_the_host(tmp_path: Path) -> None:
    """Broadcast, strided and overlapping arrays, and results per row."""
    rng = np.random.default_rng(0)
    kernels = HostKernels()
    done: list[tuple[str, Any, Any]] = []
    mixed = gp.fuse(lambda x, y, c: nn.softmax(x * 2) * y + x.max(**LAST) * c)
    for shapes in broadcasts():
        host = [rng.normal(size=shape).astype(np.float32) for shape in shapes]
        given = to_device(host)
        want = mixed(*given).to_numpy()
        done.append((str(shapes), kernels.add(str(shapes), mixed, *given), want))
    norm = gp.fuse(lambda x, y: nn.rmsnorm(x + y) * y)
    for name, view in VIEWS.items():
        base = rng.normal(size=view.base((3, 40))).astype(np.float32)
        x, y = view.take(gp.from_numpy(base)), gp.from_numpy(view.take(base).copy())
        done.append((name, kernels.add(name, norm, x, y), norm(x, y).to_numpy()))
        out = view.take(gp.empty(view.base((3, 40))))
        if name in ("whole", "offset", "rows", "odd rows", "reversed rows"):
            target = kernels.add(f"out {name}", norm, y, y, out=out)
            done.append((f"out {name}", target, norm(y, y).to_numpy()))
    x = gp.from_numpy(rng.normal(size=(4, 40)).astype(np.float32))
    want = norm(x, x[:1]).to_numpy()
    done.append(("in place", kernels.add("in place", norm, x, x[:1].copy(), out=x), want))
    y = gp.from_numpy(rng.normal(size=(5, 40)).astype(np.float32))
    want = norm(y[1:], y[:-1]).to_numpy()
    done.append(("overlap", kernels.add("overlap", norm, y[1:], y[:-1], out=y[1:]), want))
    total = gp.fuse(lambda x, c: x.sum(**LAST) + c)
    nothing = kernels.add("no columns", total, gp.empty((3, 0)), gp.ones((3, 1)))
    done.append(("no columns", nothing, np.ones((3, 1))))
    kernels.run(tmp_path)
    for name, got, want in done:
        np.testing.assert_allclose(got.to_numpy(), want, rtol=2e-5, atol=2e-6, err_msg=name)


@needs_compiler
@pytest.mark.timeout(600)
def test_random_functions_on_the_host(tmp_path: Path) -> None:
    kernels = HostKernels()
    done = []
    for case in random_chains(7, 20):
        for shape in ((3, 24), (2, 77)):
            host = case.draw(shape, "float32")
            out = kernels.add(case.name, gp.fuse(case.ours), *to_device(host))
            done.append((case.name, out, case.want(*host)))
    kernels.run(tmp_path)
    for name, out, want in done:
        np.testing.assert_allclose(out.to_numpy(), want, rtol=2e-3, atol=2e-3, err_msg=name)


SEPARATE = """
template <class Args>
void run_alone(Args& args, int rows, int width, int group, void (*kernel)(Args&)) {
  args.x_row = args.out_row = width;
  args.rows = rows;
  args.width = width;
  args.group = group;
  const int per_block = group > 32 ? 1 : gpk::kernels::kRowBlock / group;
  const unsigned threads = group > 32 ? group : gpk::kernels::kRowBlock;
  host_cuda::launch((rows + per_block - 1) / per_block, threads, [&] { kernel(args); });
}
"""
ALONE = {
    "layernorm": "gpk::norm_rows<{t}, {t}, gpk::kernels::NormMode::kLayer, 0, {v}, {a}>",
    "rmsnorm": "gpk::norm_rows<{t}, {t}, gpk::kernels::NormMode::kRms, 0, {v}, {a}>",
    "softmax": "gpk::softmax_rows<{t}, false, false, {v}, {a}>",
    "log_softmax": "gpk::softmax_rows<{t}, true, false, {v}, {a}>",
}


@needs_compiler
@pytest.mark.timeout(600)
def test_order_of_sums_is_that_of_the_ops_alone(tmp_path: Path) -> None:
    kernels = HostKernels()
    kernels.text += SEPARATE
    functions: dict[str, Any] = {
        "layernorm": gp.fuse(nn.layernorm),
        "rmsnorm": gp.fuse(nn.rmsnorm),
        "softmax": gp.fuse(lambda x, w: nn.softmax(x)),
        "log_softmax": gp.fuse(lambda x, w: nn.log_softmax(x)),
    }
    pairs = []
    for op, kernel in ALONE.items():
        for dtype, stored in (("float32", "float"), ("bfloat16", "gpk::bfloat16")):
            for rows, width in ((3, 24), (2, 333), (2, 2048), (1, 4099), (1, 8200), (1, 33000)):
                rng = np.random.default_rng(width)
                x, w = to_device([rng.normal(size=s).astype(dtype) for s in ((rows, width), width)])
                fused = kernels.add(f"{op} {dtype} {width}", functions[op], x, w)
                used = functions[op]._compile((x, w)).inputs((x, w))
                plan = functions[op]._last.prepare(used, fused)[0]
                found = re.search(r"vec=(\d+), .*group=(\d+), online=(\w+)", plan)
                assert found is not None
                vec, group = int(found[1]), int(found[2])
                held = 4 if 4 * vec * group >= width else 8
                name = kernel.format(t=stored, v=vec, a=0 if found[3] == "true" else held)
                alone = gp.empty(x.shape, dtype)
                args = functions[op]._last.prepare(used, alone)[4]
                addresses = struct.unpack("<9Q", args[:72])  # eight inputs, the result
                kind, setting = "Softmax", "args.scale = 1.0f;"
                if "norm" in op:
                    kind = "Norm"
                    setting = f"args.weight = (void*){addresses[1]}ull; args.eps = 1e-5f;"
                kernels.calls[-1] += (
                    f" {{ gpk::kernels::{kind}Args args{{}}; args.x = (void*){addresses[0]}ull; "
                    f"args.out = (void*){addresses[8]}ull; {setting} "
                    f"run_alone(args, {rows}, {width}, {group}, "
                    f"+[](gpk::kernels::{kind}Args& args) {{ {name}(args); }}); }}"
                )
                pairs.append((f"{op} {dtype} {width}", fused, alone, (x, w)))
    kernels.run(tmp_path)
    for name, fused, alone, _ in pairs:
        np.testing.assert_array_equal(fused.to_numpy(), alone.to_numpy(), err_msg=name)


# --- NVRTC --------------------------------------------------------------------------------------

WIDE = (
    ("float32", (1, 16384), 80),
    ("float32", (1, 8191), 90),
    ("bfloat16", (2, 4096), 80),
    ("bfloat16", (1, 32768), 90),
    ("bfloat16", (1, 70000), 90),
)
PROPERTIES = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores.*?Used (\d+) reg", re.S)


@needs_nvrtc
@pytest.mark.timeout(900)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_compiles_without_spills(case: Case) -> None:
    jobs = []
    for dtype, shape, sm in WIDE:
        given = to_device(case.draw(shape, dtype))
        function = gp.fuse(case.ours)
        result = function(*given)
        jobs.append((function._last, given, result, sm))

    def compile_one(job: tuple[Any, ...]) -> tuple[str, str]:
        rows, given, result, sm = job
        image, log = rows.compile(given, result, sm, ["--ptxas-options=-v"])
        assert image[:4] == b"\x7fELF"
        found = PROPERTIES.search(log)
        assert found is not None, log
        return f"sm_{sm} {rows.prepare(given, result)[0]}", f"{found[1]} {found[2]}"

    with ThreadPoolExecutor(2) as pool:
        bad = [(plan, used) for plan, used in pool.map(compile_one, jobs) if used != "0 0"]
    assert bad == []


# --- the CUDA path ------------------------------------------------------------------------------


@needs_nvrtc
def test_one_launch_on_the_fake_driver(run_on_fake: Callable[..., str]) -> None:
    out = run_on_fake("""
from pygpukit.ops import nn
x, w, column = gp.empty((64, 4096), "bfloat16"), gp.empty(4096, "bfloat16"), gp.empty((64, 1))
function = gp.fuse(lambda x, r, w: nn.softmax(nn.rmsnorm(x + r, w) * 2))
total = gp.fuse(lambda x, c: x.sum(axis=-1, keepdims=True) + c)
out = gp.empty_like(x)
print(function(x, x, w).shape, total(x, column).shape, function(x, x, w, out=out) is out)
graph = gp.CudaGraph()
with graph:
    function(x, x, w, out=out)
    total(x, column)
for launch in graph.launches:
    print(launch["grid"], launch["block"])
print(function(x[:, ::2], x[:, 1::2], w[::2]).shape)   # copied first
try:
    function(x, x, gp.empty(8, "bfloat16"))
except ValueError as error:
    print(error)
""")
    lines = out.splitlines()
    assert lines[0] == "(64, 4096) (64, 1) True"
    assert lines[1:3] == ["(64, 1, 1) (128, 1, 1)"] * 2
    assert lines[3] == "(64, 2048)"
    assert lines[4] == "<lambda>: rmsnorm: weight has shape (8,), expected (4096,)"

"""PYGPUKIT_DEVICE=sim: the whole library on the simulated driver, in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import pygpukit as gp

pytestmark = pytest.mark.skipif(not gp.is_nvrtc_available(), reason="needs NVRTC")

PRELUDE = """
import numpy as np
import pygpukit as gp
rng = np.random.default_rng(1)
def array(*shape, dtype=np.float32):
    return rng.standard_normal(shape).astype(dtype)
def close(got, want, tol=1e-5):
    np.testing.assert_allclose(got.to_numpy(), want, rtol=tol, atol=tol)
"""


def run(program: str, device: str = "sim:sm_80") -> str:
    env = dict(os.environ, PYGPUKIT_DEVICE=device, PYGPUKIT_PREFETCH="0")
    env.pop("PYGPUKIT_SIM_DEVICE", None)
    command = [sys.executable, "-c", PRELUDE + program]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_device_is_the_simulator() -> None:
    out = run(
        "info = gp.get_device_info(); print(info.name, gp.get_sm_version(), gp.ones(3).on_gpu)"
    )
    assert out.split() == ["sim:sm_80", "80", "True"]


def test_an_unknown_device_is_refused() -> None:
    env = dict(os.environ, PYGPUKIT_DEVICE="sim:sm_12")
    command = [sys.executable, "-c", "import pygpukit as gp; gp.ones(3)"]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode != 0
    assert "sm_12" in done.stderr


def test_a_fault_is_sticky_and_names_the_line() -> None:
    out = run(
        """
source = "__global__ void f(float* x, int n) {\\n  x[n] = 1;\\n}"
kernel = gp.jit(source, "f")
try:
    kernel(gp.ones(4), 1 << 40 >> 12, grid=1, block=1)
    gp.synchronize()
except gp.CudaError as error:
    print(error.code, "f.cu:2" in str(error))
try:
    gp.ones(3) + 1
except gp.DeviceLostError:
    print("lost")
"""
    )
    assert out.splitlines() == ["700 True", "lost"]


FAMILIES = {
    "elementwise": """
x = array(100)
close(gp.exp(gp.from_numpy(x)) * 2 + 1, np.exp(x) * 2 + 1)
""",
    "reduction": """
x = array(30, 40)
close(gp.sum(gp.from_numpy(x), axis=1), x.sum(1), 1e-4)
""",
    "scan": """
x = array(500)
close(gp.cumsum(gp.from_numpy(x)), np.cumsum(x), 1e-3)
""",
    "sort": """
x = array(300)
close(gp.sort(gp.from_numpy(x)), np.sort(x))
""",
    "indexing": """
x = array(10, 6)
close(gp.from_numpy(x)[[3, 1]], x[[3, 1]])
""",
    "gemm": """
a, b = array(48, 40), array(40, 56)
close(gp.from_numpy(a) @ gp.from_numpy(b), a @ b, 1e-3)
""",
    "random": """
x = gp.random.default_rng(0).standard_normal(1000).to_numpy()
assert abs(x.mean()) < 0.2 and abs(x.std() - 1) < 0.2
""",
    "softmax": """
x = array(4, 64)
close(gp.softmax(gp.from_numpy(x)), np.exp(x) / np.exp(x).sum(1, keepdims=True))
""",
    "fuse": """
x = array(64)
close(gp.fuse(lambda a: gp.tanh(a) * 2)(gp.from_numpy(x)), np.tanh(x) * 2)
""",
    "argmax": """
x = array(5000)
assert int(gp.argmax(gp.from_numpy(x))) == x.argmax()
""",
    "rmsnorm": """
x, w = array(4, 256), array(256)
close(gp.rmsnorm(gp.from_numpy(x), gp.from_numpy(w)),
      x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * w, 1e-4)
""",
    "gemm_bf16": """
a, b = array(64, 256), array(256, 64)
half = [gp.from_numpy(m).astype("bfloat16") for m in (a, b)]
got = (half[0] @ half[1]).astype("float32")
want = half[0].astype("float32").to_numpy() @ half[1].astype("float32").to_numpy()
close(got, want, 5e-2)
""",
    "gemm_int8": """
a = rng.integers(-5, 5, (64, 64), dtype=np.int8)
got = gp.matmul(gp.from_numpy(a), gp.from_numpy(a)).to_numpy()
np.testing.assert_array_equal(got.astype(np.int64), (a.astype(np.int64) @ a).astype(got.dtype))
""",
    "attention": """
q, k, v = (array(2, 16, 64) for _ in "qkv")
scores = q @ k.transpose(0, 2, 1) / 8
scores[:, np.triu(np.ones((16, 16), bool), 1)] = -np.inf
p = np.exp(scores - scores.max(-1, keepdims=True))
got = gp.sdpa_causal(*(gp.from_numpy(m) for m in (q, k, v)))
close(got, p / p.sum(-1, keepdims=True) @ v, 1e-3)
""",
    "linalg": """
a = array(8, 8) + 8 * np.eye(8, dtype=np.float32)
close(gp.linalg.inv(gp.from_numpy(a)), np.linalg.inv(a), 1e-3)
""",
    "conv": """
x, w = array(1, 3, 8, 8), array(4, 3, 3, 3)
windows = np.lib.stride_tricks.sliding_window_view(x[0], (3, 3), (1, 2))
want = np.einsum("cijkl,ockl->oij", windows, w)
close(gp.ops.conv.conv2d(gp.from_numpy(x), gp.from_numpy(w))[0], want, 1e-3)
""",
    "fft": """
x = array(64)
got = gp.fft.fft(gp.from_numpy(x)).to_numpy()
np.testing.assert_allclose(got, np.fft.fft(x), atol=1e-3)
""",
}


@pytest.mark.parametrize("device", ["sim:sm_80", "sim:sm_90a"])
@pytest.mark.parametrize("families", [list(FAMILIES)[i::3] for i in range(3)], ids="-".join)
def test_built_in_ops(families: list[str], device: str) -> None:
    parts = [f"print({name!r}, flush=True)\n{FAMILIES[name]}" for name in families]
    run("\n".join(parts), device)


def test_lists_and_numbers_go_to_the_device_of_the_arrays() -> None:
    out = run(
        """
x = gp.from_numpy(np.array([1.0, 2.0, 4.0]), device="cpu")
i = gp.from_numpy(np.array([2, 0, 1]), device="cpu")
m = gp.from_numpy(np.eye(3), device="cpu")
mask = [True, False, True]
for result in (
    gp.isclose(x, 1.0), gp.isclose([1, 2, 4], x), gp.allclose(1.0, x), gp.array_equal([1, 2, 4], x),
    gp.array_equiv(1, x), gp.float_power(2, x), gp.ldexp(2.0, i), gp.interp(1.5, x, x),
    gp.trapezoid([0, 1, 2], x), gp.cov([1, 2, 4], x), gp.corrcoef([1, 2, 4], x),
    gp.convolve([1, 2], x), gp.correlate([1, 2], x), gp.polyval(x, 2.0),
    gp.polyfit([1, 2, 3], x, 1),
    gp.polyadd([1], x), gp.polymul([1, 2], x), gp.select([mask], [x], 0), gp.choose([0, 0, 0], [x]),
    gp.cross([1, 2, 3], x), gp.meshgrid([1, 2], x)[0], gp.ix_([0], i)[0], gp.vecdot([1, 2, 3], x),
    gp.einsum("i,ij", [1, 2, 3], m), gp.lexsort([[1, 2, 3], x]), gp.multiply.outer([1, 2], x),
    gp.histogram2d([1, 2, 3], x)[0], [1, 2, 3] @ m, gp.full((2,), [1, 2], device="cpu"),
):
    assert result.device == "cpu", result
print("all")
"""
    )
    assert out.split() == ["all"]


def test_multiprocessors_of_a_closed_partition_come_back() -> None:
    """Also where arrays from outside were read in it."""
    out = run(
        """
outside = [gp.ones(4096), gp.ones(4096)]
for _ in range(4):
    with gp.scheduler.partition("part", compute=0.75) as part:
        inside = [x + 1 for x in outside]
    print(part.report().given_sms)
    del inside
    part.close()
    for x in outside:
        assert (x + 1).to_numpy()[0] == 2
""",
        "sim:sm_90a",
    )
    sms = out.split()
    assert len(sms) == 4
    assert set(sms) == {sms[0]}


def test_hostile_shapes_and_indices() -> None:
    run(
        """
from pygpukit.ops import moe
for dtype in ("float32", "bfloat16"):  # empty, and not contiguous
    x = gp.zeros((0, 66), dtype=dtype)[:, ::2]
    rows, offsets, order = moe.moe_permute(x, gp.zeros((0, 32), dtype="int32"), 2)
    assert (rows.shape, offsets.to_numpy().tolist(), order.shape) == ((0, 33), [0, 0], (0, 32))
right = np.arange(10, dtype="f4").reshape(5, 2)
for pivot in (40, -40):  # no row: swaps nothing, and touches nothing else
    pivots = gp.asarray(np.array([0, 1, 2, 3, pivot], "i4"))
    close(gp.linalg.lu_solve((gp.eye(5), pivots), gp.from_numpy(right)), right)
"""
    )


def test_wider_results_and_infinities_as_on_the_cpu() -> None:
    run(
        """
host = array(3, 700) + 1000
x, cpu = gp.from_numpy(host), gp.from_numpy(host, device="cpu")
for op in ("var", "std", "nanvar", "nanmean", "mean", "sum", "nansum"):
    for dtype in ("float64", None):
        for axis in (0, 1, None):
            got, want = (getattr(gp, op)(a, axis=axis, dtype=dtype) for a in (x, cpu))
            assert got.dtype == want.dtype
            close(got, want.to_numpy(), 1e-12 if dtype else 1e-4)
z = array(50).astype("c8") * 1j
close(gp.var(gp.from_numpy(z), dtype="complex128"), np.var(z.astype("c16")), 1e-12)
inf, nan = np.inf, np.nan
parts = [1.0, -1.0, 0.0, -0.0, inf, -inf, nan]
values = np.array([complex(a, b) for a in parts for b in parts], "c8")
want = gp.sign(gp.from_numpy(values, device="cpu")).to_numpy()
np.testing.assert_array_equal(gp.sign(gp.from_numpy(values)).to_numpy(), want)
"""
    )

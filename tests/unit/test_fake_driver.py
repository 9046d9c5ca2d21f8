"""The CUDA path of the Python package on the fake driver of the C++ tests: no GPU needed."""

from __future__ import annotations

import pytest

from pygpukit import _native

PRELUDE = """
import struct
def sizes(name, *values):
    fake.gpk_fake_set_param_sizes(name, (ctypes.c_size_t * len(values))(*values), len(values))
def argument(launch, index, size):
    out = ctypes.create_string_buffer(size)
    assert fake.gpk_fake_launch_arg(launch, index, out, size) == size
    return out.raw
def shape(launch):
    numbers = (ctypes.c_uint32 * 16)()
    stream = ctypes.c_uint64()
    fake.gpk_fake_launch_info(launch, numbers, ctypes.byref(stream))
    return list(numbers)[:6], stream.value
sizes(b"scale", 8, 4, 4)
SCALE = "extern \\"C\\" __global__ void scale(float* x, float factor, int n) { x[n] *= factor; }"
"""

pytestmark = pytest.mark.skipif(
    not _native.nvrtc_info()["available"], reason="NVRTC is not installed"
)


@pytest.fixture
def run(run_on_fake):  # type: ignore[no-untyped-def]
    return lambda program, **variables: run_on_fake(PRELUDE + program, **variables)


def test_arguments_reach_the_launch_as_bytes(run) -> None:  # type: ignore[no-untyped-def]
    out = run("""
x = gp.ones(1000)
kernel = gp.jit(SCALE, "scale")
kernel(x, factor=0.5, n=x.size)
assert argument(0, 0, 8) == struct.pack("<Q", x.device_ptr)
assert argument(0, 1, 4) == struct.pack("<f", 0.5)
assert argument(0, 2, 4) == struct.pack("<i", 1000)
assert shape(0)[0] == [4, 1, 1, 256, 1, 1], shape(0)
stream = gp.Stream()
kernel(x, 0.5, 1000, grid=(2, 3), block=(32, 4), stream=stream)
assert shape(1) == ([2, 3, 1, 32, 4, 1], stream.handle), shape(1)
kernel.bind(x, 0.25, 7)()
assert argument(2, 1, 4) == struct.pack("<f", 0.25)
print((x.to_numpy()[:7] == 0.5 * 0.5 * 0.25).all(), fake.gpk_fake_num_launches())
""")
    assert out == "True 3\n"


def test_graph_capture_and_changed_arguments(run) -> None:  # type: ignore[no-untyped-def]
    out = run("""
x = gp.ones(4)
kernel = gp.jit(SCALE, "scale")
graph = gp.CudaGraph()
with graph:
    kernel(x, 2.0, 4)
print(fake.gpk_fake_num_launches(), graph.num_nodes)
graph.replay()
graph.set_args(0, x, 3.0, 4)
graph.replay()
graph.synchronize()
print(x.to_numpy().tolist())
""")
    assert out == "0 1\n[6.0, 6.0, 6.0, 6.0]\n"


def test_a_lost_device_is_reported_once_and_the_process_ends_well(run) -> None:  # type: ignore[no-untyped-def]
    out = run("""
x = gp.ones(4)
kernel = gp.jit(SCALE, "scale")
kernel(x, 2.0, 4)
fake.gpk_fake_fail_always(b"cuStreamSynchronize", 700)
for _ in range(3):
    try:
        x.to_numpy()
    except gp.CudaError as error:
        print(type(error).__name__, "scale<<<(1,1,1), (256,1,1)>>>" in str(error), error.call)
""")
    assert out == "CudaError True cuStreamSynchronize\n" + "DeviceLostError True \n" * 2


def test_wrong_parameter_count_is_noticed_before_any_launch(run) -> None:  # type: ignore[no-untyped-def]
    out = run("""
sizes(b"scale", 8, 4)
try:
    gp.jit(SCALE, "scale")
except ValueError as error:
    print("2 parameters" in str(error), fake.gpk_fake_num_launches())
""")
    assert out == "True 0\n"


def test_nothing_is_left_when_objects_go(run) -> None:  # type: ignore[no-untyped-def]
    out = run("""
from pygpukit import _native
def use():
    with gp.Stream():
        kernel = gp.jit(SCALE, "scale")
        x = gp.ones(1000)
        kernel(x, 2.0, 1000)
        gp.CudaEvent().record()
        graph = gp.CudaGraph()
        with graph:
            kernel(x, 2.0, 1000)
        graph.replay()
        graph.synchronize()
use()
_native.trim()
kinds = (b"stream", b"event", b"module", b"graph", b"memory")
print([fake.gpk_fake_live_objects(kind) for kind in kinds])
""")
    assert out == "[0, 0, 0, 0, 0]\n"


def test_fork_after_use_is_refused(run) -> None:  # type: ignore[no-untyped-def]
    out = run("""
x = gp.ones(3)
child = os.fork()
if child == 0:
    try:
        gp.ones(3)
    except gp.GpuUnavailable as error:
        os._exit(7 if "spawn" in str(error) else 1)
    os._exit(2)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), x.to_numpy().tolist())
""")
    assert out == "7 [1.0, 1.0, 1.0]\n"


@pytest.mark.parametrize(("sm", "device"), [(75, "cpu"), (80, "cuda:0"), (120, "cuda:0")])
def test_architectures(run, sm: int, device: str) -> None:  # type: ignore[no-untyped-def]
    out = run(
        f"""
fake.gpk_fake_set_device(b"Card", {sm}, 10, ctypes.c_uint64(1 << 33))
from pygpukit import _native
os.environ["PYGPUKIT_DEVICE"] = "auto"
print(_native.default_device()[0])
"""
    )
    assert out == f"{device}\n"


def test_below_sm_80_is_a_clear_error_where_a_gpu_is_required(run) -> None:  # type: ignore[no-untyped-def]
    out = run("""
fake.gpk_fake_set_device(b"Card", 75, 10, ctypes.c_uint64(1 << 33))
try:
    gp.ones(3)
except gp.GpuUnavailable as error:
    print(error)
""")
    assert "Card" in out
    assert "SM 75; SM 80 or newer is required" in out


def test_load_failure_names_nvrtc_newer_than_the_driver(run) -> None:  # type: ignore[no-untyped-def]
    out = run("""
fake.gpk_fake_set_driver_version(12040)
fake.gpk_fake_fail_module_load(209, b"no kernel image")
try:
    gp.jit(SCALE, "scale")
except gp.NvrtcError as error:
    print(error)
""")
    major = _native.nvrtc_info()["version"][0]
    assert "no kernel image" in out
    if major > 12:
        assert "newer than the driver" in out
        assert "nvidia-cuda-nvrtc-cu12" in out


def test_an_op_is_one_launch_without_copies_or_waits(run) -> None:  # type: ignore[no-untyped-def]
    out = run("""
from pygpukit import _native
a, b = gp.ones(1000), gp.ones(1000)
c = a + b
del c  # its memory is used again
with _native.count_driver_calls() as calls:
    c = a + b
print({name: n for name, n in calls.counts.items() if name != "cuCtxGetCurrent"})
with _native.count_driver_calls() as calls:
    try:
        _native.count_driver_calls().__enter__()
    except ValueError as error:
        print(error)
    c.to_numpy()
    print(calls.counts["cuMemcpyDtoHAsync"], calls.counts["cuStreamSynchronize"])
""")
    assert out == (
        "{'cuLaunchKernel': 1}\ncount_driver_calls: calls are being counted already\n1 1\n"
    )

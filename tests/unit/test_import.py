"""What `import pygpukit` does, and what it must not do."""

from __future__ import annotations

import importlib
import json
import sys

import pytest

import pygpukit as gp
from pygpukit._names import OPS

# Sections 1 to 7 of the 0.2 API.
TOP_LEVEL = """
GPUArray DeviceInfo DeviceCapabilities KernelType get_device_info get_device_capabilities
is_cuda_available DataType float64 float32 float16 bfloat16 int64 int32 int8 uint8 int4 zeros ones
empty from_numpy Stream StreamManager default_stream jit JITKernel NvrtcError NvrtcErrorCode
is_nvrtc_available get_nvrtc_version get_nvrtc_path warmup is_warmup_done get_warmup_error
get_driver_requirements check_driver_compatibility get_sm_version CudaGraph CudaEvent
event_elapsed_ms event_elapsed_us add mul ops
"""

CORE = """
GPUArray DeviceInfo get_device_info is_cuda_available DataType float32 float64 int16 int32 int64
zeros ones empty from_numpy copy_to_device copy_to_device_async copy_to_device_async_raw_stream
copy_device_to_device_async copy_device_to_device_offset Stream StreamManager default_stream
CudaEvent event_elapsed_ms event_elapsed_us
"""

HEAVY = ["numpy", "ml_dtypes", "dataclasses", "inspect", "typing", "enum", "re", "ctypes", "json"]


def test_import_loads_nothing_heavy(run_python) -> None:
    code = (
        "import sys; before = set(sys.modules); import pygpukit; "
        "print(*sorted(set(sys.modules) - before))"
    )
    done = run_python(code)
    assert done.returncode == 0, done.stderr
    loaded = done.stdout.split()
    assert "pygpukit._native" in loaded
    assert not set(loaded) & set(HEAVY)
    assert len(loaded) < 12, loaded


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_import_maps_no_cuda_library(run_python) -> None:
    code = "import pygpukit; print(open('/proc/self/maps').read())"
    done = run_python(code, PYGPUKIT_DEVICE="", PYGPUKIT_REQUIRE_GPU="1", PYGPUKIT_LOG="nonsense")
    assert done.returncode == 0, done.stderr  # the environment is not even read
    assert "_native" in done.stdout
    for library in ("libcuda.so", "libnvrtc", "libcublas"):
        assert library not in done.stdout


def test_every_name_resolves() -> None:
    assert len(gp.__all__) == len(set(gp.__all__))
    assert dir(gp) == sorted(gp.__all__)
    for name in gp.__all__:
        getattr(gp, name)  # raises where a lazy name leads nowhere
    for module, names in OPS.items():
        home = importlib.import_module(module)
        for name in names:
            assert getattr(gp, name) is getattr(home, name), name


def test_names_of_0_2() -> None:
    assert set(TOP_LEVEL.split()) <= set(gp.__all__)
    for name in CORE.split():
        assert name in gp.core.__all__
        assert getattr(gp.core, name) is getattr(gp, name, getattr(gp.core, name)), name
    import pygpukit.core.array
    import pygpukit.core.factory

    assert pygpukit.core.array.GPUArray is gp.GPUArray
    assert pygpukit.core.factory.full is gp.full


def test_unknown_name() -> None:
    with pytest.raises(AttributeError, match="module 'pygpukit' has no attribute 'nothing'"):
        _ = gp.nothing
    with pytest.raises(AttributeError, match=r"module 'pygpukit\.core' has no attribute 'nothing'"):
        _ = gp.core.nothing


@pytest.mark.parametrize(
    "first",
    [
        "import pygpukit.jit.compiler",
        "gp.NvrtcError('x')",
        "gp.is_nvrtc_available()",
        "from pygpukit.jit import NvrtcErrorCode",
        "import pygpukit.core.errors, pygpukit.core.device",
    ],
)
def test_jit_is_the_function_whatever_came_first(run_python, first: str) -> None:
    code = (
        f"import pygpukit as gp\n{first}\nimport types\n"
        "assert isinstance(gp.jit, types.FunctionType), gp.jit\n"
        "from pygpukit.jit import jit, compiler\n"
        "assert jit is gp.jit is compiler.jit\n"
    )
    done = run_python(code)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("module", ["core.errors", "jit.compiler", "core.device", "core.backend"])
def test_any_module_can_be_imported_first(run_python, module: str) -> None:
    done = run_python(
        f"import pygpukit.{module}, sys; print(sys.modules['pygpukit.{module}'].__name__)"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == f"pygpukit.{module}"


def test_first_use_does_not_need_numpy_until_asked(run_python) -> None:
    code = (
        "import sys, json, pygpukit as gp; x = gp.zeros(4); r = x.shape; "
        "a = 'numpy' in sys.modules; x.to_numpy(); b = 'numpy' in sys.modules; "
        "print(json.dumps([r, a, b]))"
    )
    assert json.loads(run_python(code).stdout) == [[4], False, True]


def test_exit_is_clean_with_everything_alive(run_python) -> None:
    code = (
        "import pygpukit as gp\nx = gp.ones(4); s = gp.Stream(); g = gp.CudaGraph()\n"
        "with g: y = x + x\n"
        "s.__enter__(); g2 = gp.CudaGraph(); g2.begin_capture(); z = x + 1\n"
    )
    done = run_python(code)
    assert (done.returncode, done.stderr) == (0, "")


def test_version_is_the_packages() -> None:
    from importlib.metadata import version

    assert gp.__version__ == version("pygpukit")

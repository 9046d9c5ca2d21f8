"""Device information."""

from __future__ import annotations

import dataclasses
import pickle

import pytest

import pygpukit as gp
from pygpukit import DeviceCapabilities, KernelType, _native
from pygpukit.core import device

KINDS = {
    "FP32_FMA": (60, False),
    "TF32_MMA": (80, True),
    "FP16_MMA": (70, True),
    "BF16_MMA": (80, True),
    "L2_NAIVE": (60, False),
    "TILED_SMEM": (60, False),
}


def test_cpu_simulation_pretends_nothing() -> None:
    info = gp.get_device_info()
    assert dataclasses.is_dataclass(info)
    assert info.name == "CPU Simulation"
    assert info.compute_capability is None
    assert info.total_memory > 2**28
    assert info.multiprocessor_count >= 1
    assert (info.max_threads_per_block, info.warp_size) == (1024, 32)
    caps = gp.get_device_capabilities()
    assert (caps.sm_version, caps.compute_capability, caps.name) == (0, 0, "CPU Simulation")
    assert not any([caps.tensorcore, caps.tensorcore_fp16, caps.tensorcore_bf16, caps.async_copy])
    assert not caps.is_ampere_or_newer()
    assert not any(caps.supports_kernel(getattr(KernelType, kind)) for kind in KINDS)
    assert caps.total_memory == info.total_memory
    with pytest.raises(gp.GpuUnavailable, match=r"^get_sm_version: no GPU is in use: "):
        gp.get_sm_version()


@pytest.mark.parametrize("query", [gp.get_device_info, gp.get_device_capabilities])
def test_no_second_cpu(query) -> None:
    for device_id in (1, -1):
        with pytest.raises(IndexError, match=f"{query.__name__}: device_id is {device_id}"):
            query(device_id)


def test_counts() -> None:
    assert gp.get_device_count() == _native.cuda_device_count()
    if gp.get_device_count() == 0:
        assert gp.is_cuda_available() is False


def test_is_cuda_available_never_raises(run_python) -> None:
    code = "import pygpukit as gp; print(gp.is_cuda_available(), gp.is_nvrtc_available())"
    done = run_python(code, PYGPUKIT_DEVICE="nonsense")
    assert (done.returncode, done.stdout.split()) == (0, ["False", "False"]), done.stderr


@pytest.mark.parametrize("sm", [75, 80, 86, 89, 90, 100, 120])
def test_capabilities_of_an_architecture(sm: int) -> None:
    caps = DeviceCapabilities(sm)
    assert caps.sm_version == caps.compute_capability == sm
    assert (caps.compute_major, caps.compute_minor) == divmod(sm, 10)
    assert caps.name == f"SM {sm // 10}.{sm % 10}"
    assert caps.tensorcore == caps.tensorcore_bf16 == caps.async_copy == (sm >= 80)
    assert caps.is_ampere_or_newer() == (sm >= 80)
    assert caps.tensorcore_fp16
    assert (caps.device_id, caps.total_memory, caps.l2_cache_size, caps.sm_count) == (0, 0, 0, 0)
    assert (caps.shared_mem_per_block, caps.max_threads_per_block, caps.warp_size) == (
        49152,
        1024,
        32,
    )
    for kind, (minimum, _) in KINDS.items():
        assert caps.supports_kernel(getattr(KernelType, kind)) == (sm >= minimum)


def test_named_architectures() -> None:
    assert DeviceCapabilities().sm_version == 86
    assert DeviceCapabilities.ampere().sm_version == 86
    assert DeviceCapabilities.ada().sm_version == 89
    assert DeviceCapabilities.hopper().sm_version == 90


@pytest.mark.parametrize(
    ("sm", "tf32", "fp32", "large", "want"),
    [
        (86, True, True, True, "TF32_MMA"),
        (86, False, True, True, "FP32_FMA"),
        (86, True, False, True, "TILED_SMEM"),
        (86, True, True, False, "L2_NAIVE"),
        (75, True, True, True, "TILED_SMEM"),
        (75, False, True, False, "L2_NAIVE"),
        (0, True, True, True, "TILED_SMEM"),
    ],
)
def test_best_matmul_kernel(sm: int, tf32: bool, fp32: bool, large: bool, want: str) -> None:
    caps = DeviceCapabilities(sm)
    kind = caps.best_matmul_kernel(use_tf32=tf32, dtype_is_fp32=fp32, large_matrix=large)
    assert kind == getattr(KernelType, want)


@pytest.mark.parametrize("name", KINDS)
def test_kernel_type(name: str) -> None:
    kind = getattr(KernelType, name)
    assert repr(kind) == f"KernelType.{name}"
    assert (kind.min_sm_version(), kind.uses_tensor_cores()) == KINDS[name]
    assert isinstance(kind.name(), str)
    assert kind == pickle.loads(pickle.dumps(kind))
    assert [other for other in KINDS if getattr(KernelType, other) == kind] == [name]
    assert len({kind, getattr(KernelType, name)}) == 1
    assert kind != name


def test_module_exports() -> None:
    for name in device.__all__:
        assert getattr(gp, name) is getattr(device, name)

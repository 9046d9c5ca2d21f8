"""Device queries and capabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from pygpukit import _native
from pygpukit.core.errors import GpuUnavailable, InvalidIndexError, PyGPUkitError

_MIN_SM = 80


@dataclass(frozen=True)
class DeviceInfo:
    """Basic properties of a device; compute_capability is None on CPU simulation."""

    name: str
    total_memory: int
    compute_capability: tuple[int, int] | None
    multiprocessor_count: int
    max_threads_per_block: int
    warp_size: int


class KernelType:
    """A kind of GEMM kernel; the kinds are attributes of this class."""

    FP32_FMA: ClassVar[KernelType]
    TF32_MMA: ClassVar[KernelType]
    FP16_MMA: ClassVar[KernelType]
    BF16_MMA: ClassVar[KernelType]
    L2_NAIVE: ClassVar[KernelType]
    TILED_SMEM: ClassVar[KernelType]

    __slots__ = ("_key", "_label", "_min_sm")

    def __init__(self, key: str, label: str, min_sm: int) -> None:
        self._key = key
        self._label = label
        self._min_sm = min_sm

    def name(self) -> str:
        """The kind as text."""
        return self._label

    def min_sm_version(self) -> int:
        """The oldest architecture that can run it."""
        return self._min_sm

    def uses_tensor_cores(self) -> bool:
        """True for the matrix-multiply-accumulate kinds."""
        return self._key.endswith("_MMA")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KernelType) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return f"KernelType.{self._key}"

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (KernelType, self._key)


KernelType.FP32_FMA = KernelType("FP32_FMA", "FP32 FMA", 60)
KernelType.TF32_MMA = KernelType("TF32_MMA", "TF32 tensor core", 80)
KernelType.FP16_MMA = KernelType("FP16_MMA", "FP16 tensor core", 70)
KernelType.BF16_MMA = KernelType("BF16_MMA", "BF16 tensor core", 80)
KernelType.L2_NAIVE = KernelType("L2_NAIVE", "Naive through L2", 60)
KernelType.TILED_SMEM = KernelType("TILED_SMEM", "Tiled in shared memory", 60)


@dataclass(frozen=True)
class DeviceCapabilities:
    """Capabilities of an architecture. SM 0 is CPU simulation."""

    sm_version: int = 86
    device_id: int = 0
    name: str = ""
    total_memory: int = 0
    l2_cache_size: int = 0
    shared_mem_per_block: int = 49152
    max_threads_per_block: int = 1024
    sm_count: int = 0
    warp_size: int = 32

    def __post_init__(self) -> None:
        if not self.name:
            text = f"SM {self.compute_major}.{self.compute_minor}"
            object.__setattr__(self, "name", text if self.sm_version else "CPU Simulation")

    @staticmethod
    def ampere() -> DeviceCapabilities:
        """SM 86."""
        return DeviceCapabilities(86)

    @staticmethod
    def ada() -> DeviceCapabilities:
        """SM 89."""
        return DeviceCapabilities(89)

    @staticmethod
    def hopper() -> DeviceCapabilities:
        """SM 90."""
        return DeviceCapabilities(90)

    @property
    def compute_capability(self) -> int:
        """The same as sm_version."""
        return self.sm_version

    @property
    def compute_major(self) -> int:
        """9 of SM 90."""
        return self.sm_version // 10

    @property
    def compute_minor(self) -> int:
        """6 of SM 86."""
        return self.sm_version % 10

    @property
    def tensorcore(self) -> bool:
        """Tensor cores with TF32."""
        return self.sm_version >= 80

    @property
    def tensorcore_fp16(self) -> bool:
        """Tensor cores with float16."""
        return self.sm_version >= 70

    @property
    def tensorcore_bf16(self) -> bool:
        """Tensor cores with bfloat16."""
        return self.sm_version >= 80

    @property
    def async_copy(self) -> bool:
        """Asynchronous copies from global to shared memory."""
        return self.sm_version >= 80

    def is_ampere_or_newer(self) -> bool:
        """SM 80 or newer."""
        return self.sm_version >= 80

    def supports_kernel(self, kernel: KernelType) -> bool:
        """Whether the architecture can run that kind of kernel."""
        return self.sm_version >= kernel.min_sm_version()

    def best_matmul_kernel(
        self, use_tf32: bool = False, dtype_is_fp32: bool = True, large_matrix: bool = True
    ) -> KernelType:
        """The kind of kernel for a GEMM."""
        if use_tf32 and dtype_is_fp32 and self.tensorcore and large_matrix:
            return KernelType.TF32_MMA
        if dtype_is_fp32 and large_matrix and self.sm_version >= 80:
            return KernelType.FP32_FMA
        return KernelType.TILED_SMEM if large_matrix else KernelType.L2_NAIVE


def get_device_count() -> int:
    """GPUs visible to the driver; 0 without a driver."""
    return _native.cuda_device_count()


def is_cuda_available() -> bool:
    """True when there is a usable GPU. Never raises."""
    try:
        return get_device_count() > 0 and _native.device_traits("cuda:0")["sm"] >= _MIN_SM
    except PyGPUkitError:
        return False


def _traits(device_id: int, op: str) -> dict[str, Any]:
    """Traits of a GPU, or of CPU simulation when that is the default device."""
    traits: dict[str, Any]
    if _native.default_device()[0] != "cpu":
        traits = _native.device_traits(device_id)
    elif device_id == 0:
        traits = _native.device_traits("cpu")
    else:
        raise InvalidIndexError(f"{op}: device_id is {device_id}, CPU simulation has one device, 0")
    return traits


def _info(traits: dict[str, Any]) -> DeviceInfo:
    return DeviceInfo(
        name=traits["name"],
        total_memory=traits["total_memory"],
        compute_capability=divmod(traits["sm"], 10) if traits["sm"] else None,
        multiprocessor_count=traits["multiprocessor_count"],
        max_threads_per_block=traits["max_threads_per_block"],
        warp_size=traits["warp_size"],
    )


def get_device_info(device_id: int = 0) -> DeviceInfo:
    """Properties of a device."""
    return _info(_traits(device_id, "get_device_info"))


def get_sm_version() -> int:
    """Architecture of the default GPU, such as 90. Raises GpuUnavailable on CPU simulation."""
    device, reason = _native.default_device()
    if device == "cpu":
        raise GpuUnavailable(f"get_sm_version: no GPU is in use: {reason}")
    sm: int = _native.device_traits(device)["sm"]
    return sm


def get_device_capabilities(device_id: int = 0) -> DeviceCapabilities:
    """Capabilities of a device; on CPU simulation SM 0, without tensor cores."""
    traits = _traits(device_id, "get_device_capabilities")
    return DeviceCapabilities(
        sm_version=traits["sm"],
        device_id=device_id,
        name=traits["name"],
        total_memory=traits["total_memory"],
        l2_cache_size=traits["l2_bytes"],
        shared_mem_per_block=traits["shared_per_block"],
        max_threads_per_block=traits["max_threads_per_block"],
        sm_count=traits["multiprocessor_count"],
        warp_size=traits["warp_size"],
    )


__all__ = [
    "DeviceCapabilities",
    "DeviceInfo",
    "KernelType",
    "get_device_capabilities",
    "get_device_count",
    "get_device_info",
    "get_sm_version",
    "is_cuda_available",
]

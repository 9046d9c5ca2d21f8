"""The implementations to time, behind one interface: ours, NumPy, CuPy and PyTorch."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from pygpukit import _native
from pygpukit.benchmark.product_cases import FP8
from pygpukit.benchmark.report import OURS

PEERS = ("numpy", "cupy", "torch")
MODEL_PEERS = ("transformers",)  # of suite llm, see llm_peers.py


class Engine(Protocol):
    """The interface of an implementation."""

    name: str
    version: str
    on_gpu: bool
    namespace: Any  # the module users import

    def supports(self, dtype: str) -> bool:
        """True when arithmetic on the dtype works."""

    def from_host(self, array: Any) -> Any:
        """An array with a NumPy array's contents and dtype."""

    def full(self, size: int, value: float, dtype: str) -> Any:
        """A 1-D array of one value."""

    def binary(self, op: str) -> Callable[[Any, Any, Any], object]:
        """add or mul as f(a, b, out)."""

    def multiplies(self, dtype: str) -> bool:
        """True when matmul supports the dtype."""

    def matmul(self, dtype: str) -> Callable[[Any, Any, Any], object]:
        """The GEMM as f(a, b, out). "tf32" allows TF32 for float32.

        FP8 gives bfloat16 (scales are 1), INT8 gives INT32.
        """

    def fill(self, array: Any, value: float) -> None:
        """Sets all elements."""

    def to_host(self, array: Any) -> Any:
        """A NumPy array with the contents; bfloat16 may be returned as float32."""

    def capture(self, work: Callable[[], object]) -> Callable[[], object] | None:
        """Captures the work as a CUDA graph for the default stream; None where unsupported."""

    def release(self) -> None:
        """Releases cached memory."""


class Ours:
    """PyGPUkit."""

    name = OURS
    version = _native.__version__

    def __init__(self) -> None:
        self.on_gpu = _native.default_device()[0] != "cpu"
        self.namespace = importlib.import_module("pygpukit")

    def supports(self, dtype: str) -> bool:
        return True

    def from_host(self, array: Any) -> Any:
        return _native.from_numpy(array)

    def full(self, size: int, value: float, dtype: str) -> Any:
        return _native.full(size, value, dtype)

    def binary(self, op: str) -> Callable[[Any, Any, Any], object]:
        function = {"add": _native.add, "mul": _native.multiply}[op]
        return lambda a, b, out: function(a, b, out=out)

    def multiplies(self, dtype: str) -> bool:
        return True

    def matmul(self, dtype: str) -> Callable[[Any, Any, Any], object]:
        function, scaled = _native.matmul, _native.scaled_matmul
        if dtype == "tf32":
            return lambda a, b, out: function(a, b, out=out, use_tf32=True)
        if dtype == "3xtf32":
            return lambda a, b, out: function(a, b, out=out, precision="3xtf32")
        if dtype == "float64_int8":
            return lambda a, b, out: function(a, b, out=out, precision="float64_int8")
        if dtype == "int8":
            return lambda a, b, out: function(a, b, out=out, dtype="int32")
        if dtype == FP8:
            one = _native.full(1, 1.0, "float32")
            return lambda a, b, out: scaled(a, b, one, one, out=out, dtype="bfloat16")
        return lambda a, b, out: function(a, b, out=out)

    def fill(self, array: Any, value: float) -> None:
        array[...] = value

    def to_host(self, array: Any) -> Any:
        return array.to_numpy()

    def capture(self, work: Callable[[], object]) -> Callable[[], object] | None:
        if not self.on_gpu:
            return None
        graph = _native.CudaGraph()
        with graph:
            work()
        stream = _native.default_stream()
        return lambda: graph.replay(stream)

    def release(self) -> None:
        _native.trim()


class NumPy:
    """NumPy, on the CPU."""

    name = "numpy"
    on_gpu = False

    def __init__(self) -> None:
        import numpy

        self._numpy = numpy
        self.namespace: Any = numpy
        self.version = str(numpy.__version__)

    def supports(self, dtype: str) -> bool:
        return dtype in ("float32", "float64", "int32", "int64", "uint8")

    def from_host(self, array: Any) -> Any:
        return array.copy()

    def full(self, size: int, value: float, dtype: str) -> Any:
        return self._numpy.full(size, value, dtype)

    def binary(self, op: str) -> Callable[[Any, Any, Any], object]:
        function = {"add": self._numpy.add, "mul": self._numpy.multiply}[op]
        return lambda a, b, out: function(a, b, out=out)

    def multiplies(self, dtype: str) -> bool:
        return dtype in ("float32", "float64", "tf32")

    def matmul(self, dtype: str) -> Callable[[Any, Any, Any], object]:
        return lambda a, b, out: self._numpy.matmul(a, b, out=out)

    def fill(self, array: Any, value: float) -> None:
        array[...] = value

    def to_host(self, array: Any) -> Any:
        return array

    def capture(self, work: Callable[[], object]) -> Callable[[], object] | None:
        return None

    def release(self) -> None:
        pass


class CuPy:
    """CuPy."""

    name = "cupy"
    on_gpu = True

    def __init__(self) -> None:
        import cupy

        self.module = self.namespace = cupy
        self.version = str(cupy.__version__)
        cupy.zeros(1)  # fails here without a GPU

    def supports(self, dtype: str) -> bool:
        return dtype != "bfloat16"

    def from_host(self, array: Any) -> Any:
        return self.module.asarray(array)

    def full(self, size: int, value: float, dtype: str) -> Any:
        return self.module.full(size, value, dtype=dtype)

    def binary(self, op: str) -> Callable[[Any, Any, Any], object]:
        function = {"add": self.module.add, "mul": self.module.multiply}[op]
        return lambda a, b, out: function(a, b, out=out)

    def multiplies(self, dtype: str) -> bool:
        return dtype in ("float16", "float32", "float64", "tf32")

    def matmul(self, dtype: str) -> Callable[[Any, Any, Any], object]:
        function = self.module.matmul
        return lambda a, b, out: function(a, b, out=out)

    def fill(self, array: Any, value: float) -> None:
        array[...] = value

    def to_host(self, array: Any) -> Any:
        return array.get()

    def capture(self, work: Callable[[], object]) -> Callable[[], object] | None:
        return None

    def release(self) -> None:
        self.module.get_default_memory_pool().free_all_blocks()


class Torch:
    """PyTorch."""

    name = "torch"
    on_gpu = True

    def __init__(self) -> None:
        import torch

        self.module = self.namespace = torch
        self.version = str(torch.__version__)
        torch.zeros(1, device="cuda")  # fails here without a GPU

    def supports(self, dtype: str) -> bool:
        return True

    def from_host(self, array: Any) -> Any:
        name = array.dtype.name
        if name in ("bfloat16", FP8):  # it does not know NumPy's
            bits = self.module.from_numpy(array.view("int16" if name == "bfloat16" else "uint8"))
            return bits.to("cuda").view(getattr(self.module, name))
        return self.module.from_numpy(array).to("cuda")

    def full(self, size: int, value: float, dtype: str) -> Any:
        return self.module.full((size,), value, dtype=getattr(self.module, dtype), device="cuda")

    def binary(self, op: str) -> Callable[[Any, Any, Any], object]:
        function = {"add": self.module.add, "mul": self.module.mul}[op]
        return lambda a, b, out: function(a, b, out=out)

    def multiplies(self, dtype: str) -> bool:
        return True

    def matmul(self, dtype: str) -> Callable[[Any, Any, Any], object]:
        module = self.module
        if dtype == "int8":
            return lambda a, b, out: module._int_mm(a, b, out=out)
        if dtype == FP8:
            one = module.ones((), device="cuda")
            kind = module.bfloat16
            return lambda a, b, out: module._scaled_mm(a, b, one, one, out_dtype=kind, out=out)
        # A process-wide setting; all GEMMs of a case have the same precision.
        module.backends.cuda.matmul.allow_tf32 = dtype == "tf32"
        return lambda a, b, out: module.matmul(a, b, out=out)

    def fill(self, array: Any, value: float) -> None:
        array.fill_(value)

    def to_host(self, array: Any) -> Any:
        if array.dtype == self.module.bfloat16:
            array = array.float()
        return array.cpu().numpy()

    def capture(self, work: Callable[[], object]) -> Callable[[], object] | None:
        graph = self.module.cuda.CUDAGraph()
        # Our background loads of kernels must not end its capture.
        with self.module.cuda.graph(graph, capture_error_mode="thread_local"):
            work()
        replay: Callable[[], object] = graph.replay
        return replay

    def release(self) -> None:
        self.module.cuda.empty_cache()


_CLASSES: dict[str, Callable[[], Engine]] = {"numpy": NumPy, "cupy": CuPy, "torch": Torch}


def load_engines(peers: Iterable[str], *, on_gpu: bool) -> tuple[list[Engine], list[str]]:
    """Ours and the installed peers, and a note for each one skipped."""
    engines: list[Engine] = [Ours()]
    notes = []
    for name in peers:
        if name in MODEL_PEERS:
            continue
        if name not in _CLASSES:
            known = ", ".join((*PEERS, *MODEL_PEERS))
            raise ValueError(f"benchmark: unknown peer '{name}', expected {known}")
        if name != "numpy" and not on_gpu:
            notes.append(f"peer {name} skipped: there is no GPU to compare on")
            continue
        try:
            importlib.import_module(name)
        except ImportError:
            notes.append(f"peer {name} skipped: it is not installed")
            continue
        try:
            engines.append(_CLASSES[name]())
        except Exception as error:  # third-party code may raise anything
            notes.append(f"peer {name} skipped: {type(error).__name__}: {error}")
    return engines, notes

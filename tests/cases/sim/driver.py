"""Runs programs through a CUDA driver: the GPU's, or the simulator's library, by the same calls."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np

from .program import Bytes, Program, TensorMap

COMPUTE_CAPABILITY = (75, 76)  # CU_DEVICE_ATTRIBUTE_*
ERROR_LOG, ERROR_LOG_BYTES = 5, 6  # CU_JIT_*
MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_*


class DriverError(RuntimeError):
    """A call of the driver failed. `lost`: so will every later one of this process."""

    def __init__(self, call: str, code: int, text: str = "") -> None:
        super().__init__(f"{call} returned {code} {text}".strip())
        self.lost = call in ("cuLaunchKernel", "cuCtxSynchronize") and code >= 700


def simulator() -> Path:
    import pygpukit

    return Path(pygpukit.__file__).parent / "libpygpukit_sim.so"


class Driver:
    """The first device. ``Driver()`` is the simulator, ``Driver("libcuda.so.1")`` a GPU."""

    def __init__(self, library: str | Path | None = None) -> None:
        self.cu = ctypes.CDLL(str(library or simulator()))
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)
        digits = []
        for attribute in COMPUTE_CAPABILITY:
            value = ctypes.c_int()
            self.call("cuDeviceGetAttribute", ctypes.byref(value), attribute, device)
            digits.append(value.value)
        self.sm = 10 * digits[0] + digits[1]

    def call(
        self, name: str, *args: object, log: ctypes.Array[ctypes.c_char] | None = None
    ) -> None:
        code = getattr(self.cu, name)(*args)
        if code != 0:
            raise DriverError(name, code, log.value.decode(errors="replace") if log else "")

    def runs(self, program: Program) -> bool:
        """sm_90a programs run on 9.0 alone."""
        return self.sm == 90 if program.sm == 90 else self.sm >= program.sm

    def load(self, source: str) -> ctypes.c_void_p:
        module = ctypes.c_void_p()
        log = ctypes.create_string_buffer(4096)
        options = (ctypes.c_int * 2)(ERROR_LOG, ERROR_LOG_BYTES)
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), len(log))
        text = source.encode() + b"\0"
        self.call("cuModuleLoadDataEx", ctypes.byref(module), text, 2, options, values, log=log)
        return module

    def allocate(self, data: Bytes) -> ctypes.c_uint64:
        pointer = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(max(data.nbytes, 1)))
        self.call(
            "cuMemcpyHtoDAsync_v2",
            pointer,
            ctypes.c_void_p(data.ctypes.data),
            ctypes.c_size_t(data.nbytes),
            None,
        )
        return pointer

    def encode(self, map_: TensorMap, base: ctypes.c_uint64) -> ctypes.Array[ctypes.c_char]:
        storage = ctypes.create_string_buffer(128 + 64)
        offset = -ctypes.addressof(storage) % 64
        result = (ctypes.c_char * 128).from_buffer(storage, offset)
        rank = len(map_.sizes)
        sizes = (ctypes.c_uint64 * rank)(*map_.sizes)
        pitches = (ctypes.c_uint64 * max(rank - 1, 1))(*map_.pitches)
        box, steps = (ctypes.c_uint32 * rank)(*map_.box), (ctypes.c_uint32 * rank)(*[1] * rank)
        address = ctypes.c_void_p(base.value)
        fixed = (sizes, pitches, box, steps, 0, map_.swizzle, 0, 0)
        self.call("cuTensorMapEncodeTiled", result, map_.dtype, rank, address, *fixed)
        return result

    def run(self, program: Program, ptx: str | None = None) -> Bytes:
        """The output buffer. ptx: what a program in CUDA C was compiled to."""
        module = self.load(ptx or program.source)
        pointers = []
        try:
            function = ctypes.c_void_p()
            self.call("cuModuleGetFunction", ctypes.byref(function), module, b"k")
            out = np.zeros(program.out_bytes, np.uint8)
            pointers = [self.allocate(program.image()), self.allocate(out)]
            params: list[object] = list(pointers)
            if program.tensor_map is not None:
                params.append(self.encode(program.tensor_map, pointers[0]))
            if program.shared_bytes > 48 * 1024:
                self.call("cuFuncSetAttribute", function, MAX_DYNAMIC_SHARED, program.shared_bytes)
            array = (ctypes.c_void_p * len(params))(*(ctypes.addressof(p) for p in params))
            shape = (program.grid, 1, 1, *program.block, program.shared_bytes)
            self.call("cuLaunchKernel", function, *shape, None, array, None)
            self.call("cuCtxSynchronize")
            self.call(
                "cuMemcpyDtoHAsync_v2",
                ctypes.c_void_p(out.ctypes.data),
                pointers[1],
                ctypes.c_size_t(out.nbytes),
                None,
            )
            self.call("cuCtxSynchronize")
            return out
        finally:
            for pointer in pointers:
                self.cu.cuMemFree_v2(pointer)
            self.cu.cuModuleUnload(module)

"""Time and memory of kernels, and traces for chrome://tracing and Perfetto."""

from pygpukit.profiling.memory import MemoryProfiler, MemorySnapshot
from pygpukit.profiling.profiler import (
    KernelRecord,
    Profiler,
    ProfilerContext,
    get_global_profiler,
    profile_matmul,
)
from pygpukit.profiling.trace import (
    clear_trace,
    export_chrome_trace,
    export_combined_trace,
    start_trace,
    stop_trace,
    trace,
    write_trace,
)

__all__ = [
    "KernelRecord",
    "MemoryProfiler",
    "MemorySnapshot",
    "Profiler",
    "ProfilerContext",
    "clear_trace",
    "export_chrome_trace",
    "export_combined_trace",
    "get_global_profiler",
    "profile_matmul",
    "start_trace",
    "stop_trace",
    "trace",
    "write_trace",
]

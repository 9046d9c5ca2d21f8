"""Benchmarks of PyGPUkit on this machine, against its peers.

``python -m pygpukit.benchmark`` runs them; docs/benchmarks.md explains them.
"""

from pygpukit.benchmark.compare import Comparison, ComparisonEntry, compare_reports
from pygpukit.benchmark.measure import measure_kernel
from pygpukit.benchmark.report import BenchmarkReport, BenchmarkResult, GPUInfo
from pygpukit.benchmark.session import get_gpu_info
from pygpukit.benchmark.suite import BenchmarkSuite

__all__ = [
    "BenchmarkReport",
    "BenchmarkResult",
    "BenchmarkSuite",
    "Comparison",
    "ComparisonEntry",
    "GPUInfo",
    "compare_reports",
    "get_gpu_info",
    "measure_kernel",
]

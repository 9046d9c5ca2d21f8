"""One run: its settings, implementations and report."""

from __future__ import annotations

import platform
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pygpukit import _native
from pygpukit._cli.report import cuda_version
from pygpukit._cli.terminal import ProgressLine
from pygpukit.benchmark.llm_peers import ModelPeer
from pygpukit.benchmark.measure import Stats
from pygpukit.benchmark.peers import Engine
from pygpukit.benchmark.report import BenchmarkReport, BenchmarkResult, GPUInfo


@dataclass
class Session:
    """The argument of every suite."""

    engines: list[Engine]  # ours first
    report: BenchmarkReport
    progress: ProgressLine
    warmup: int = 10
    iterations: int = 50
    quick: bool = False
    on_gpu: bool = False
    sizes: list[int] | None = None
    dtypes: list[str] = field(default_factory=lambda: ["float32", "bfloat16", "float16"])
    product_dtypes: list[str] | None = None  # of gemm and gemv, where given
    layouts: list[str] | None = None
    seq_lens: list[int] | None = None  # of attention
    shapes_seed: int | None = None  # random shapes instead of the fixed ones (attention, nn)
    random_shapes: int | None = None  # of gemm: so many, drawn by `seed`
    seed: int = 0
    candidates: int | None = None  # of gemm's random shapes: so many plans of each (plan_sweep)
    probes: bool = False  # and of the shapes of product_cases.PROBES
    seconds: float | None = None  # for all of that
    quantization: str | None = None  # of llm
    model_peers: list[ModelPeer] = field(default_factory=list)  # of llm, as all below
    model_shapes: list[str] | None = None
    batches: list[int] | None = None
    contexts: list[int] | None = None
    peer_contexts: list[int] | None = None

    @property
    def peers(self) -> list[Engine]:
        """All implementations but ours."""
        return self.engines[1:]

    @property
    def jit_works(self) -> bool:
        """True when custom kernels run here."""
        return self.on_gpu and bool(_native.nvrtc_info()["available"])

    def step(self, text: str) -> None:
        """Shows progress."""
        self.progress.show(text)

    def note(self, text: str) -> None:
        """Adds a note to the report."""
        self.report.note(text)

    def add(
        self, category: str, name: str, impl: str, stats: Stats, iterations: int, **more: Any
    ) -> BenchmarkResult:
        """Adds a result. `params` in `more` come after impl; the rest are fields of the result."""
        params = {"impl": impl, **more.pop("params", {})}
        median, low, high, std = stats
        result = BenchmarkResult(
            name, category, params, median, low, high, std, iterations=iterations, **more
        )
        self.report.add(result)
        return result


def get_gpu_info() -> GPUInfo:
    """The default device."""
    traits = _native.device_traits()
    driver = _native.driver_info()
    on_gpu = traits["sm"] > 0
    return GPUInfo(
        name=traits["name"],
        sm_major=traits["sm"] // 10,
        sm_minor=traits["sm"] % 10,
        memory_gb=round(traits["total_memory"] / 2**30, 1),
        driver_version=_kernel_driver_version() if on_gpu else "",
        cuda_version=cuda_version(driver["version"]) if on_gpu else "",
    )


def _kernel_driver_version() -> str:
    try:
        text = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8")
    except OSError:
        return ""
    match = re.search(r"\b(\d{3,}\.\d+(?:\.\d+)?)\b", text)
    return match.group(1) if match else ""


def machine_facts(engines: list[Engine], models: Sequence[ModelPeer] = ()) -> dict[str, Any]:
    """Other facts that results depend on."""
    import numpy

    return {
        "commit": _commit(),
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "peers": {
            **{engine.name: engine.version for engine in engines[1:]},
            **{peer.name: peer.version for peer in models},
        },
        "platform": platform.platform(),
        "processor": platform.machine(),
    }


def _commit() -> str | None:
    """The commit, where the package or the current folder is inside a checkout of PyGPUkit."""
    for folder in (Path(__file__).parent, Path.cwd()):
        root = _git(folder, "rev-parse", "--show-toplevel")
        if root and Path(root, "src", "pygpukit", "__init__.py").exists():
            return _git(folder, "rev-parse", "--verify", "-q", "HEAD")
    return None


def _git(folder: Path, *command: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *command], capture_output=True, text=True, timeout=10
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None

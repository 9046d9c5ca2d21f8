"""The report: what was found on this machine, and what works with it."""

from __future__ import annotations

import json
import platform
import sys
from typing import Any

from pygpukit import _native
from pygpukit._cli.terminal import Style, human_bytes, use_color

FULL_JIT = "full JIT"
DRIVER_ONLY = "driver only"
CPU_SIMULATION = "CPU simulation"
UNUSABLE = "unusable"

_MEANING = {
    FULL_JIT: "everything works, custom kernels included",
    DRIVER_ONLY: "every built-in op works, from PTX; gp.jit needs NVRTC: pip install pygpukit[jit]",
    CPU_SIMULATION: "the whole API works, on NumPy",
    UNUSABLE: "the first use of a device will raise this error",
}


def main(*, as_json: bool) -> int:
    """Prints the report. 0 with or without a GPU, 1 when PyGPUkit cannot be used as configured."""
    report = collect()
    if as_json:
        print(json.dumps(report, indent=2))
    else:
        print(render(report, Style(use_color(sys.stdout))))
    return 1 if report["mode"] == UNUSABLE else 0


def collect() -> dict[str, Any]:
    """The report as plain data. Queries the driver, but creates no context."""
    report: dict[str, Any] = {
        "version": _native.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
    }
    try:
        _native.config()
        report["driver"] = _native.driver_info()
        report["nvrtc"] = _nvrtc()
        report.update(_mode(report["nvrtc"]["available"]))
        report["devices"] = _devices(report["driver"])
        report["bundle"] = _bundle()
        report["cache"] = {**_native.cache_info(), "folder": _native.config()["cache_dir"]}
        report["cublaslt"] = _cublaslt()
    except (RuntimeError, ValueError) as error:  # an invalid environment variable
        report.update({"mode": UNUSABLE, "device": None, "why": str(error)})
    report["variables"] = {
        name: value for name, _meaning, value in _native.config_variables() if value is not None
    }
    return report


def _mode(has_nvrtc: bool) -> dict[str, Any]:
    try:
        device, why = _native.default_device()
    except RuntimeError as error:  # a GPU is required, and none is usable
        return {"mode": UNUSABLE, "device": None, "why": str(error)}
    if device == "cpu":
        mode = CPU_SIMULATION
    else:
        mode = FULL_JIT if has_nvrtc else DRIVER_ONLY
    return {"mode": mode, "device": device, "why": why}


def _nvrtc() -> dict[str, Any]:
    info = _native.nvrtc_info()
    if "version" in info:
        info["version"] = _dotted(info["version"])
    return info


def _cublaslt() -> dict[str, Any]:
    info = _native.cublaslt_info()
    number = info["version"]  # 120900 for 12.9
    info["version"] = _dotted((number // 10000, number // 100 % 100)) if number else None
    return info


def _bundle() -> dict[str, Any]:
    info = _native.bundle_info()
    info["nvrtc_version"] = _dotted(info["nvrtc_version"]) if info["kernels"] else None
    return info


def _devices(driver: dict[str, Any]) -> list[dict[str, Any]]:
    traits = []
    for index in range(driver["device_count"]):
        try:
            traits.append(_native.device_traits(f"cuda:{index}"))
        except RuntimeError as error:
            traits.append({"device": f"cuda:{index}", "problem": str(error)})
    return traits


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


def cuda_version(number: int) -> str:
    """The driver's 13000 as "13.0"."""
    return f"{number // 1000}.{number % 1000 // 10}"


# --- text ---------------------------------------------------------------------------------------


def render(report: dict[str, Any], style: Style) -> str:
    """The report as readable text."""
    color = {FULL_JIT: style.good, DRIVER_ONLY: style.warn, UNUSABLE: style.bad}
    mode = color.get(report["mode"], style.warn)(report["mode"])
    lines = [
        style.bold(f"PyGPUkit {report['version']}"),
        _row(style, "mode", f"{mode}: {_MEANING[report['mode']]}"),
        *_row_lines(style, "why", report["why"].splitlines()),
        _row(style, "python", f"{report['python']} on {report['platform']}"),
    ]
    if "driver" in report:
        lines += _driver_lines(style, report)
    lines += _row_lines(
        style, "variables", [f"{k}={v}" for k, v in report["variables"].items()] or ["none set"]
    )
    return "\n".join(lines)


def _row(style: Style, label: str, text: str) -> str:
    return f"  {style.dim(label.ljust(10))} {text}"


def _row_lines(style: Style, label: str, texts: list[str]) -> list[str]:
    return [_row(style, label if i == 0 else "", text) for i, text in enumerate(texts)]


def _driver_lines(style: Style, report: dict[str, Any]) -> list[str]:
    driver, nvrtc, bundle, cache = (report[k] for k in ("driver", "nvrtc", "bundle", "cache"))
    if driver["loaded"]:
        found = f"CUDA {cuda_version(driver['version'])}, {driver['path']}"
        lines = _row_lines(style, "driver", [found, *driver["problem"].splitlines()])
    else:
        lines = [_row(style, "driver", "not found (PYGPUKIT_CUDA_DRIVER sets its path)")]
    if nvrtc["available"]:
        headers = nvrtc["include_folder"] or "none (cuda_fp16.h and friends cannot be included)"
        lines += _row_lines(
            style, "NVRTC", [f"{nvrtc['version']}, {nvrtc['path']}", f"CUDA headers: {headers}"]
        )
    else:
        lines += _row_lines(style, "NVRTC", ["not found; tried:", *nvrtc["tried"]])
    library = report["cublaslt"]
    if library["available"]:
        found = f"{library['version']}, {library['path']}; used where it is faster (gp.tune_matmul)"
    else:
        found = "not found; optional, GEMMs have native kernels"
    lines.append(_row(style, "cuBLASLt", found))
    lines += _row_lines(style, "devices", [_device(d) for d in report["devices"]] or ["no GPU"])
    ptx = f"{bundle['kernels']} built-in kernels, {human_bytes(bundle['bytes'])}"
    if bundle["kernels"]:
        ptx += f", compiled by NVRTC {bundle['nvrtc_version']}"
    lines.append(_row(style, "PTX bundle", ptx if bundle["kernels"] else "empty in this build"))
    if cache["enabled"]:
        size = f"{cache['entries']} kernels, {human_bytes(cache['bytes'])}"
    else:
        size = "disabled (PYGPUKIT_CACHE_DISABLE)"
    lines.append(_row(style, "cache", f"{cache['folder']}: {size}"))
    return lines


def _device(traits: dict[str, Any]) -> str:
    if "problem" in traits:
        return f"{traits['device']}: {traits['problem']}"
    text = (
        f"{traits['device']}: {traits['name']}, SM {traits['sm']}, "
        f"{human_bytes(traits['total_memory'])}, {traits['multiprocessor_count']} multiprocessors"
    )
    return text if traits["sm"] >= 80 else text + " (too old: SM 80 or newer is required)"

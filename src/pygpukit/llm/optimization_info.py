"""What config.json says about quantised, pruned and sparse weights: metadata, nothing acts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pygpukit.core.arguments import amount, whole
from pygpukit.core.errors import InvalidTypeError, InvalidValueError

Config = Mapping[str, Any]


@dataclass(frozen=True)
class FP8QuantConfig:
    """Weights in FP8 with a scale for each block: quant_method "fp8"."""

    quant_method: str = "fp8"
    fmt: str = "e4m3"
    weight_block_size: tuple[int, int] = (128, 128)  # rows (outputs), columns (inputs)
    modules_to_not_convert: tuple[str, ...] = ()

    @classmethod
    def from_config(cls, hf_config: Config) -> FP8QuantConfig | None:
        """From the content of config.json; None where it does not apply."""
        found = _section(hf_config, "quantization_config")
        if found is None or found.get("quant_method") != "fp8":
            return None
        size = found.get("weight_block_size") or (128, 128)
        if not isinstance(size, list | tuple) or len(size) != 2:
            raise InvalidValueError(
                f"config.json: weight_block_size is {size!r:.200}, expected two numbers"
            )
        rows, columns = (whole("config.json", "weight_block_size", n, 1, 2**31) for n in size)
        return cls(
            fmt=_text(found, "fmt", "e4m3"),
            weight_block_size=(rows, columns),
            modules_to_not_convert=_texts(found, "modules_to_not_convert"),
        )


@dataclass(frozen=True)
class QATQuantConfig:
    """Weights of quantisation-aware training or calibration: quant_method "modelopt" or "qat"."""

    quant_method: str = "modelopt"
    quant_algo: str = ""  # "FP8", "NVFP4", "INT4_AWQ", ...
    kv_cache_quant_algo: str = ""
    group_size: int | None = None
    exclude_modules: tuple[str, ...] = ()

    @classmethod
    def from_config(cls, hf_config: Config) -> QATQuantConfig | None:
        """From the content of config.json or hf_quant_config.json; None where it does not apply."""
        found = _section(hf_config, "quantization_config") or {}
        if found.get("quant_method") not in ("modelopt", "qat"):
            found = {}
            producer = _section(hf_config, "producer") or {}
            if producer.get("name") == "modelopt":
                found = {"quant_method": "modelopt", **(_section(hf_config, "quantization") or {})}
        if not found:
            return None
        size = found.get("group_size")
        skipped = "exclude_modules" if "exclude_modules" in found else "ignore"
        return cls(
            quant_method=_text(found, "quant_method", ""),
            quant_algo=_text(found, "quant_algo", ""),
            kv_cache_quant_algo=_text(found, "kv_cache_quant_algo", ""),
            group_size=None if size is None else whole("config.json", "group_size", size, 1),
            exclude_modules=_texts(found, skipped),
        )


@dataclass(frozen=True)
class PruningConfig:
    """Weights, heads or layers that were removed: section "pruning_config"."""

    method: str = ""
    ratio: float = 0.0  # of what was removed
    targets: tuple[str, ...] = ()

    @classmethod
    def from_config(cls, hf_config: Config) -> PruningConfig | None:
        """From the content of config.json; None where it does not apply."""
        found = _section(hf_config, "pruning_config")
        if found is None:
            return None
        return cls(_text(found, "method", ""), _ratio(found, "ratio"), _texts(found, "targets"))


@dataclass(frozen=True)
class SparsityConfig:
    """Weights with zeros in a pattern: section "sparsity_config", alone or of the quantisation."""

    sparsity_structure: str = ""  # "2:4", "unstructured"
    format: str = ""
    global_sparsity: float = 0.0  # the share of zeros
    targets: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()

    @property
    def is_2_4_sparse(self) -> bool:
        """Two of four neighbours are zero, as sparse tensor cores want."""
        return self.sparsity_structure == "2:4"

    @classmethod
    def from_config(cls, hf_config: Config) -> SparsityConfig | None:
        """From the content of config.json; None where it does not apply."""
        quantization = _section(hf_config, "quantization_config") or {}
        found = _section(hf_config, "sparsity_config") or _section(quantization, "sparsity_config")
        if not found:
            return None
        return cls(
            sparsity_structure=_text(found, "sparsity_structure", ""),
            format=_text(found, "format", ""),
            global_sparsity=_ratio(found, "global_sparsity"),
            targets=_texts(found, "targets"),
            ignore=_texts(found, "ignore"),
        )


@dataclass(frozen=True)
class ModelOptimizationInfo:
    """All of them."""

    fp8: FP8QuantConfig | None = None
    qat: QATQuantConfig | None = None
    pruning: PruningConfig | None = None
    sparsity: SparsityConfig | None = None

    @classmethod
    def from_config(cls, hf_config: Config) -> ModelOptimizationInfo:
        """From the content of config.json."""
        kinds = (FP8QuantConfig, QATQuantConfig, PruningConfig, SparsityConfig)
        return cls(*(kind.from_config(hf_config) for kind in kinds))  # type: ignore[arg-type]

    @property
    def has_any_optimization(self) -> bool:
        """Whether there is one."""
        return self != ModelOptimizationInfo()

    def summary(self) -> str:
        """One line."""
        parts = []
        if self.fp8:
            rows, columns = self.fp8.weight_block_size
            parts.append(f"FP8 {self.fp8.fmt}, blocks of {rows} x {columns}")
        if self.qat:
            parts.append(f"{self.qat.quant_method} {self.qat.quant_algo}".strip())
        if self.pruning:
            parts.append(f"pruned by {self.pruning.method or '?'}, {self.pruning.ratio:.0%}")
        if self.sparsity:
            parts.append(f"sparse {self.sparsity.sparsity_structure or '?'}")
        return "; ".join(parts) or "none"


def _section(config: Config, name: str) -> dict[str, Any] | None:
    if not isinstance(config, Mapping):
        raise InvalidTypeError(
            f"from_config: hf_config is of type {type(config).__name__}, expected a dict"
        )
    found = config.get(name)
    if found is not None and not isinstance(found, dict):
        raise InvalidTypeError(
            f"config.json: {name} is of type {type(found).__name__}, expected an object"
        )
    return found


def _text(section: Config, name: str, default: str) -> str:
    value = section.get(name)
    if value is None:
        return default
    if not isinstance(value, str):
        raise InvalidTypeError(
            f"config.json: {name} is of type {type(value).__name__}, expected a string"
        )
    return value


def _texts(section: Config, name: str) -> tuple[str, ...]:
    values = section.get(name) or ()
    if not isinstance(values, list | tuple) or not all(isinstance(v, str) for v in values):
        raise InvalidTypeError(f"config.json: {name} is not a list of strings")
    return tuple(values)


def _ratio(section: Config, name: str) -> float:
    return amount("config.json", name, section.get(name) or 0.0, high=1.0)

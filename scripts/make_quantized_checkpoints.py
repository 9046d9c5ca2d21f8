"""Quantised checkpoints of a plain one, by the published formulas of each format, and their twins.

usage: make_quantized_checkpoints.py SOURCE_FOLDER TARGET_FOLDER

For every format in FORMATS it writes TARGET_FOLDER/<format>, the layers quantised as tools of that
format store them, and TARGET_FOLDER/<format>-plain, the same numbers in float32. NumPy alone;
tests/unit/test_llm_quantized.py decodes both and compares the tokens.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

Tensors = dict[str, NDArray[Any]]
Made = tuple[Tensors, NDArray[Any]]  # tensors by suffix, and the numbers they stand for

AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)
NF4 = np.array(
    [
        *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453),
        *(-0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0),
        *(0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224),
        *(0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
    ],
    np.float32,
)


def _pack(fields: NDArray[Any], bits: int) -> NDArray[Any]:
    """Fields along the last axis, the first in the low bits, to int32."""
    per = 32 // bits
    words = fields.astype(np.uint32).reshape(*fields.shape[:-1], -1, per)
    shifts = (np.arange(per) * bits).astype(np.uint32)
    return np.asarray(
        np.bitwise_or.reduce(words << shifts, axis=-1).astype(np.uint32).view(np.int32)
    )


def _asymmetric(
    w: NDArray[Any], group: int, bits: int
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Codes [n, k], zero points and float16 scales [n, groups], and the numbers."""
    n, k = w.shape
    blocks = w.reshape(n, k // group, group)
    levels = 2**bits - 1
    hi, lo = np.maximum(blocks.max(-1), 0), np.minimum(blocks.min(-1), 0)
    scale = np.maximum((hi - lo) / levels, 1e-5).astype(np.float16).astype(np.float32)
    zero = np.clip(np.rint(-lo / scale), 0, levels)
    codes = np.clip(np.rint(blocks / scale[..., None]) + zero[..., None], 0, levels)
    numbers = (codes - zero[..., None]) * scale[..., None]
    return codes.reshape(n, k), zero, scale.astype(np.float16), numbers.reshape(n, k)


def awq(w: NDArray[Any], group: int = 64) -> Made:
    """AutoAWQ, version gemm."""
    codes, zero, scale, numbers = _asymmetric(w, group, 4)

    def columns(x: NDArray[Any]) -> NDArray[Any]:
        order = x.T.reshape(x.shape[1], -1, 8)[..., list(AWQ_ORDER)]
        return _pack(order.reshape(x.shape[1], -1), 4)

    return {".qweight": columns(codes), ".qzeros": columns(zero), ".scales": scale.T}, numbers


def gptq(w: NDArray[Any], group: int = 64, bits: int = 4) -> Made:
    """GPTQ v1: zero points are stored less one."""
    codes, zero, scale, _ = _asymmetric(w, group, bits)
    # A zero point of 0 cannot be stored; the largest code leaves room instead.
    zero = np.maximum(zero, 1)
    spread = np.repeat(zero, group, axis=1)
    numbers = (codes - spread) * np.repeat(scale.astype(np.float32), group, axis=1)
    return {
        ".qweight": _pack(codes, bits).T,
        ".qzeros": _pack((zero - 1).T, bits),
        ".scales": scale.T,
        ".g_idx": (np.arange(w.shape[1]) // group).astype(np.int32),
    }, numbers


def gptq8(w: NDArray[Any]) -> Made:
    """GPTQ of 8 bits."""
    return gptq(w, bits=8)


def pack_quantized(w: NDArray[Any], group: int = 64) -> Made:
    """compressed-tensors, symmetric int4 in groups, bfloat16 scales."""
    n, k = w.shape
    blocks = w.reshape(n, k // group, group)
    scale = (np.abs(blocks).max(-1) / 7.5).astype(ml_dtypes.bfloat16)
    wide = scale.astype(np.float32)[..., None]
    codes = np.clip(np.rint(blocks / wide), -8, 7)
    return {
        ".weight_packed": _pack((codes + 8).reshape(n, k), 4),
        ".weight_scale": scale,
        ".weight_shape": np.array([n, k], np.int64),
    }, (codes * wide).reshape(n, k)


def pack_asymmetric(w: NDArray[Any], group: int = 64) -> Made:
    """compressed-tensors, int4 with zero points, which are packed along the rows."""
    codes, zero, scale, numbers = _asymmetric(w, group, 4)
    return {
        ".weight_packed": _pack(codes, 4),
        ".weight_scale": scale,
        ".weight_zero_point": _pack(zero.T, 4).T,
        ".weight_shape": np.array(w.shape, np.int64),
    }, numbers


def int_quantized(w: NDArray[Any]) -> Made:
    """compressed-tensors, int8 with a scale per channel."""
    scale = (np.abs(w).max(1, keepdims=True) / 127.5).astype(ml_dtypes.bfloat16)
    codes = np.clip(np.rint(w / scale.astype(np.float32)), -128, 127)
    return {
        ".weight": codes.astype(np.int8),
        ".weight_scale": scale,
    }, codes * scale.astype(np.float32)


def float_quantized(w: NDArray[Any]) -> Made:
    """compressed-tensors, e4m3 with a scale per channel."""
    scale = (np.abs(w).max(1, keepdims=True) / 448).astype(ml_dtypes.bfloat16)
    wide = scale.astype(np.float32)
    codes = np.clip(w / wide, -448, 448).astype(ml_dtypes.float8_e4m3fn)
    return {".weight": codes, ".weight_scale": scale}, codes.astype(np.float32) * wide


def fp8_block(w: NDArray[Any]) -> Made:
    """DeepSeek's and Qwen's FP8: e4m3 with a float32 scale for each block of 128 x 128."""
    n, k = w.shape
    padded = np.pad(w, ((0, -n % 128), (0, -k % 128)))
    blocks = padded.reshape(padded.shape[0] // 128, 128, padded.shape[1] // 128, 128)
    scale = (np.abs(blocks).max(axis=(1, 3)) / 448).astype(np.float32)
    wide = np.repeat(np.repeat(scale, 128, 0), 128, 1)[:n, :k]
    codes = (w / wide).astype(ml_dtypes.float8_e4m3fn)
    return {".weight": codes, ".weight_scale_inv": scale}, codes.astype(np.float32) * wide


def _nf4_codes(w: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    blocks = w.reshape(-1, 64)
    absmax = np.abs(blocks).max(1).astype(np.float32)
    unit = blocks / absmax[:, None]
    return np.abs(unit[..., None] - NF4).argmin(-1), absmax


def nf4(w: NDArray[Any]) -> Made:
    """bitsandbytes nf4, blocks of 64."""
    codes, absmax = _nf4_codes(w)
    flat = codes.reshape(-1).astype(np.uint8)
    state = {"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": list(w.shape)}
    return {
        ".weight": (flat[0::2] << 4 | flat[1::2])[:, None],
        ".weight.absmax": absmax,
        ".weight.quant_map": NF4,
        ".weight.quant_state.bitsandbytes__nf4": _text(state),
    }, (NF4[codes] * absmax[:, None]).reshape(w.shape)


def nf4_double(w: NDArray[Any]) -> Made:
    """bitsandbytes nf4 with double quantisation: absmax in 8 bits, blocks of 256."""
    tensors, _ = nf4(w)
    codes, absmax = _nf4_codes(w)
    offset = float(absmax.mean())
    table = np.linspace(-1, 1, 256).astype(np.float32)
    rest = np.pad(absmax - offset, (0, -len(absmax) % 256)).reshape(-1, 256)
    scale = np.abs(rest).max(1).astype(np.float32)
    nested = np.abs(rest[..., None] / scale[:, None, None] - table).argmin(-1)
    restored = (table[nested] * scale[:, None] + np.float32(offset)).reshape(-1)[: len(absmax)]
    state = {
        "quant_type": "nf4",
        "blocksize": 64,
        "dtype": "bfloat16",
        "shape": list(w.shape),
        "nested_blocksize": 256,
        "nested_dtype": "float32",
        "nested_offset": offset,
    }
    tensors |= {
        ".weight.absmax": nested.reshape(-1)[: len(absmax)].astype(np.uint8),
        ".weight.nested_absmax": scale,
        ".weight.nested_quant_map": table,
        ".weight.quant_state.bitsandbytes__nf4": _text(state),
    }
    return tensors, (NF4[codes] * restored[:, None]).reshape(w.shape)


def _text(value: Any) -> NDArray[Any]:
    return np.frombuffer(json.dumps(value).encode(), np.uint8)


def _compressed(format: str, type: str, bits: int, strategy: str, **more: Any) -> dict[str, Any]:
    weights = {"num_bits": bits, "type": type, "strategy": strategy, **more}
    groups = {"group_0": {"targets": ["Linear"], "weights": weights}}
    return {"quant_method": "compressed-tensors", "format": format, "config_groups": groups}


FORMATS: dict[str, tuple[Callable[[NDArray[Any]], Made], dict[str, Any]]] = {
    "awq": (
        awq,
        {
            "quant_method": "awq",
            "bits": 4,
            "group_size": 64,
            "zero_point": True,
            "version": "gemm",
        },
    ),
    "gptq": (gptq, {"quant_method": "gptq", "bits": 4, "group_size": 64, "desc_act": False}),
    "gptq8": (gptq8, {"quant_method": "gptq", "bits": 8, "group_size": 64, "desc_act": False}),
    "pack-quantized": (
        pack_quantized,
        _compressed("pack-quantized", "int", 4, "group", group_size=64),
    ),
    "pack-asymmetric": (
        pack_asymmetric,
        _compressed("pack-quantized", "int", 4, "group", group_size=64, symmetric=False),
    ),
    "int-quantized": (int_quantized, _compressed("int-quantized", "int", 8, "channel")),
    "float-quantized": (float_quantized, _compressed("float-quantized", "float", 8, "channel")),
    "fp8-block": (fp8_block, {"quant_method": "fp8", "weight_block_size": [128, 128]}),
    "nf4": (
        nf4,
        {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"},
    ),
    "nf4-double": (
        nf4_double,
        {
            "quant_method": "bitsandbytes",
            "load_in_4bit": True,
            "bnb_4bit_quant_type": "nf4",
            "bnb_4bit_use_double_quant": True,
        },
    ),
}

_TYPES = {
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "float8_e4m3fn": "F8_E4M3",
    "int64": "I64",
    "int32": "I32",
    "int8": "I8",
    "uint8": "U8",
}
_DTYPES: dict[str, Any] = {
    name: getattr(ml_dtypes, dtype, None) or np.dtype(dtype) for dtype, name in _TYPES.items()
}


def read_safetensors(path: Path) -> Tensors:
    """Every tensor of a file."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__", None)
    body = data[8 + size :]
    return {
        name: np.frombuffer(body[slice(*row["data_offsets"])], _DTYPES[row["dtype"]]).reshape(
            row["shape"]
        )
        for name, row in header.items()
    }


def write_safetensors(path: Path, tensors: Tensors) -> None:
    """Every tensor, in the order of the names."""
    header: dict[str, Any] = {}
    body = b""
    for name, tensor in sorted(tensors.items()):
        data = np.ascontiguousarray(tensor).tobytes()
        header[name] = {
            "dtype": _TYPES[tensor.dtype.name],
            "shape": list(tensor.shape),
            "data_offsets": [len(body), len(body) + len(data)],
        }
        body += data
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + body)


def is_layer(name: str) -> bool:
    """Whether tools quantise it: the projections of layers."""
    return name.endswith("_proj.weight")


def make(source: Path, target: Path, format: str) -> tuple[Path, Path]:
    """The quantised folder and its plain twin."""
    quantise, config = FORMATS[format]
    plain = read_safetensors(source / "model.safetensors")
    packed: Tensors = {}
    twin: Tensors = {}
    for name, tensor in plain.items():
        if not is_layer(name):
            packed[name] = tensor
            twin[name] = tensor.astype(np.float32)
            continue
        parts, numbers = quantise(tensor.astype(np.float32))
        packed |= {name.removesuffix(".weight") + suffix: part for suffix, part in parts.items()}
        twin[name] = numbers.astype(np.float32)
    folders = target / format, target / f"{format}-plain"
    settings = json.loads((source / "config.json").read_text())
    for folder, tensors, more in (
        (folders[0], packed, {"quantization_config": config}),
        (folders[1], twin, {}),
    ):
        folder.mkdir(parents=True, exist_ok=True)
        for file in source.glob("*.json"):
            if file.name not in ("config.json", "golden.json"):
                shutil.copy(file, folder)
        (folder / "config.json").write_text(json.dumps(settings | more, indent=2))
        write_safetensors(folder / "model.safetensors", tensors)
    return folders


def main() -> None:
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    source, target = map(Path, sys.argv[1:])
    for format in FORMATS:
        print(*make(source, target, format))


if __name__ == "__main__":
    main()

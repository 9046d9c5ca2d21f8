"""Weights and voices from files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit._native import safe_repr
from pygpukit.core.arguments import whole
from pygpukit.core.errors import InvalidValueError
from pygpukit.ops.files import read_host

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from pygpukit._native import DataType, GPUArray

    PathLike = str | os.PathLike[str]

_TORCH = (".pth", ".pt")
VOICE_SUFFIXES = (".pt", ".pth", ".npy", ".bin", ".safetensors")
_MAX_VOICE_BYTES = 1 << 30


def find_checkpoint(path: PathLike) -> Path:
    """The weight file of a folder, or the file itself."""
    where = Path(path)
    if not where.is_dir():
        return where
    found = sorted(file for suffix in (".safetensors", ".pth") for file in where.glob(f"*{suffix}"))
    named = [file for file in found if "kokoro" in file.name.lower() or file.stem == "model"]
    candidates = named or found
    if len(candidates) != 1:
        names = ", ".join(file.name for file in candidates) or "none"
        raise InvalidValueError(
            f"kokoro: {where} has these weight files: {names}; expected one .pth or .safetensors "
            "file, or its path"
        )
    return candidates[0]


def load_kokoro_weights(
    path: PathLike,
    dtype: DataType | DTypeLike | None = None,
    *,
    device: str | int | None = None,
) -> dict[str, GPUArray]:
    """The tensors of a checkpoint, or of a folder with one, by name.

    From SafeTensors, or from a .pth file, whose pickle is parsed and never run. Names have no part
    "module": "bert.embeddings.word_embeddings.weight".
    """
    file = find_checkpoint(path)
    if file.suffix == ".safetensors":
        from pygpukit.llm.safetensors import load_safetensors

        tensors = load_safetensors(file).load(dtype=dtype, device=device)
    elif file.suffix in _TORCH:
        from pygpukit.llm.torch_file import TorchFile

        tensors = TorchFile(file).load(dtype=dtype, device=device)
    else:
        raise InvalidValueError(
            f"load_kokoro_weights: {file} has suffix '{file.suffix}', expected .pth or .safetensors"
        )
    return {_without_module(name): array for name, array in tensors.items()}


def _without_module(name: str) -> str:
    part, _, rest = name.partition(".")
    return f"{part}.{rest.removeprefix('module.')}" if rest.startswith("module.") else name


def load_voice_embedding(
    path: PathLike, style_dim: int = 128, *, device: str | int | None = None
) -> GPUArray:
    """A voice: float32 [lengths, 2 * style_dim], a style for each number of phonemes.

    From .pt or .pth (torch.save), .npy, .safetensors (one tensor) or .bin (float32, little endian).
    """
    import numpy as np

    file = Path(path)
    width = 2 * whole("load_voice_embedding", "style_dim", style_dim, 1)
    values = np.asarray(_voice_values(file), np.float32)
    if values.size == 0 or values.size % width or (values.ndim > 1 and values.shape[-1] != width):
        raise InvalidValueError(
            f"load_voice_embedding: {file} has shape {values.shape}, expected [..., {width}], "
            "twice the style_dim"
        )
    if not np.isfinite(values).all():
        raise InvalidValueError(f"load_voice_embedding: {file} has values that are not finite")
    return _native.from_numpy(np.ascontiguousarray(values.reshape(-1, width)), device=device)


def _voice_values(file: Path) -> NDArray[Any]:
    import numpy as np

    if file.suffix not in VOICE_SUFFIXES:
        raise InvalidValueError(
            f"load_voice_embedding: {file} has suffix '{file.suffix}', expected one of "
            f"{', '.join(VOICE_SUFFIXES)}"
        )
    if file.stat().st_size > _MAX_VOICE_BYTES:
        raise InvalidValueError(
            f"load_voice_embedding: {file} has more than {_MAX_VOICE_BYTES} bytes"
        )
    if file.suffix == ".bin":
        raw = file.read_bytes()
        if len(raw) % 4:
            raise InvalidValueError(
                f"load_voice_embedding: {file} has {len(raw)} bytes, expected a multiple of 4"
            )
        return np.frombuffer(raw, "<f4")
    if file.suffix == ".npy":
        values = read_host(f"load_voice_embedding: {file}", file)
        if values.dtype.kind != "f":
            raise InvalidValueError(
                f"load_voice_embedding: {file} has dtype {values.dtype}, expected floats"
            )
        return values
    return _one_tensor(file)


def _one_tensor(file: Path) -> NDArray[Any]:
    if file.suffix == ".safetensors":
        from pygpukit.llm.safetensors import load_safetensors

        tensors = load_safetensors(file).load(device="cpu", dtype="float32")
    else:
        from pygpukit.llm.torch_file import TorchFile

        tensors = TorchFile(file).load(device="cpu", dtype="float32")
    if len(tensors) != 1:
        raise InvalidValueError(
            f"load_voice_embedding: {file} has {len(tensors)} tensors, expected one"
        )
    return next(iter(tensors.values())).to_numpy()


def list_available_voices(path: PathLike) -> list[str]:
    """The names of the voices in a model's folder, sorted."""
    folder = Path(path)
    if folder.is_file():
        folder = folder.parent
    if (folder / "voices").is_dir():
        folder = folder / "voices"
    if not folder.is_dir():
        raise InvalidValueError(f"list_available_voices: {safe_repr(str(path))} is not a folder")
    checkpoints = (".pth", ".safetensors") if folder.name != "voices" else ()
    return sorted(
        {
            file.stem
            for file in folder.iterdir()
            if file.suffix in VOICE_SUFFIXES and file.suffix not in checkpoints
        }
    )


def voice_file(path: PathLike, name: str) -> Path | None:
    """The file of a voice in a model's folder; None: there is none."""
    folder = Path(path)
    if folder.is_file():
        folder = folder.parent
    if name in ("", ".", "..") or Path(name).name != name:
        return None
    for suffix in VOICE_SUFFIXES:
        for where in (folder / "voices", folder):
            if (where / f"{name}{suffix}").is_file():
                return where / f"{name}{suffix}"
    return None

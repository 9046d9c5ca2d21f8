"""Files of torch.save on CPU simulation: reading, and pickles that must not run."""

from __future__ import annotations

import pickle
import pickletools
import zipfile
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pygpukit as gp

TINY = Path(__file__).resolve().parents[1] / "data" / "tiny-kokoro"


class _Call:
    """Pickles as a call of a function."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> Any:
        return self.call


def archive(path: Path, data: bytes, compression: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as file:
        file.writestr("archive/data.pkl", data)
        file.writestr("archive/data/0", np.arange(6, dtype="<f4").tobytes())
        file.writestr("archive/version", "3\n")
    return path


def test_a_checkpoint_that_torch_wrote() -> None:
    weights = gp.llm.TorchFile(TINY / "kokoro-tiny.pth")
    assert len(weights) == weights.num_tensors > 300
    assert weights.file_size == (TINY / "kokoro-tiny.pth").stat().st_size
    name = "bert.module.embeddings.word_embeddings.weight"
    assert name in weights
    assert name in list(weights)
    assert "nothing" not in weights
    info = weights.tensor_info(name)
    assert (info.stored_type, info.shape, info.strides, info.numel) == (
        "F16",
        (178, 12),
        (12, 1),
        2136,
    )
    half = weights.tensor(name)
    assert half.dtype == gp.float16
    np.testing.assert_array_equal(
        weights.tensor(name, dtype="float32").to_numpy(), half.to_numpy().astype("f4")
    )
    with zipfile.ZipFile(TINY / "kokoro-tiny.pth") as file:
        raw = file.read(next(n for n in file.namelist() if n.endswith("/data/0")))
    np.testing.assert_array_equal(half.to_numpy().ravel(), np.frombuffer(raw, "<f2"))
    assert repr(weights).startswith("TorchFile(")
    seen: list[tuple[int, int]] = []
    weights.load([name], progress=lambda done, total: seen.append((done, total)))
    assert seen[-1][0] == seen[-1][1] == half.nbytes
    with pytest.raises(KeyError, match="has no tensor 'nothing'"):
        weights.tensor("nothing")
    with pytest.raises(FileNotFoundError):
        gp.llm.TorchFile("no/such/file.pth")


def test_a_voice_is_one_tensor_without_a_name() -> None:
    voice = gp.llm.TorchFile(TINY / "voices" / "af_test.pt")
    assert voice.tensor_names == [""]
    assert voice.tensor("").shape == (60, 1, 16)
    assert voice.tensor("", dtype="bfloat16").to_numpy().dtype == ml_dtypes.bfloat16


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_malicious_pickles_are_refused_and_do_not_run(tmp_path: Path, protocol: int) -> None:
    import os

    hit = tmp_path / "hit"
    calls = [
        _Call(os.system, f"touch {hit}"),
        _Call(os.mkdir, str(hit)),
        _Call(eval, f"open({str(hit)!r}, 'w')"),
        _Call(exec, f"open({str(hit)!r}, 'w')"),
        _Call(getattr, os, "mkdir"),
        _Call(__import__, "os"),
        _Call(Path, str(hit)),
        {"a": [_Call(os.system, f"touch {hit}")]},
        np.arange(3),
    ]
    for call in calls:
        if isinstance(call, _Call) and call.call[0] is getattr:
            data = pickle.dumps(_Call(getattr, 1, "real"), protocol)
        else:
            data = pickle.dumps(call, protocol)
        with pytest.raises(gp.InvalidArgument, match=r"torch file: .*not needed for tensors"):
            gp.llm.TorchFile(archive(tmp_path / "bad.pth", data))
    assert not hit.exists()


def test_harmless_pickles_of_python(tmp_path: Path) -> None:
    """Numbers and text beside tensors: nothing to load, nothing wrong."""
    for protocol in (2, 3, 4, 5):
        data = pickle.dumps(
            {"epoch": 3, "loss": 0.5, "name": "x", "list": [1, None, True]}, protocol
        )
        assert {op.name for op, _, _ in pickletools.genops(data)}
        assert gp.llm.TorchFile(archive(tmp_path / "good.pth", data)).tensor_names == []


def test_archives_that_are_refused(tmp_path: Path) -> None:
    data = pickle.dumps({}, 2)
    with pytest.raises(ValueError, match="is compressed"):
        gp.llm.TorchFile(archive(tmp_path / "a.pth", data, zipfile.ZIP_DEFLATED))
    (tmp_path / "old.pth").write_bytes(pickle.dumps({}, 2))
    with pytest.raises(ValueError, match=r"torch before 1\.6"):
        gp.llm.TorchFile(tmp_path / "old.pth")
    (tmp_path / "short.pth").write_bytes(b"PK")
    with pytest.raises(ValueError, match="has 2 bytes"):
        gp.llm.TorchFile(tmp_path / "short.pth")
    with pytest.raises(OSError, match="torch file"):
        gp.llm.TorchFile(tmp_path)

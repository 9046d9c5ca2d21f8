"""The kokoro package over PyTorch, with weights that are given.

Its text processing is not needed and not imported.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from typing import TYPE_CHECKING, Any

from pygpukit.tts.kokoro.config import KokoroConfig

if TYPE_CHECKING:
    from pygpukit._native import GPUArray

NAME = "kokoro"


def kokoro_module(name: str) -> Any:
    """A module of the package, without running its __init__. ImportError where it is missing."""
    if "kokoro" not in sys.modules:
        spec = importlib.util.find_spec("kokoro")
        if spec is None or spec.submodule_search_locations is None:
            raise ImportError("No module named 'kokoro'")
        package = types.ModuleType("kokoro")
        package.__path__ = list(spec.submodule_search_locations)
        sys.modules["kokoro"] = package
    if importlib.util.find_spec("attr") is None:  # imported there, not used
        sys.modules["attr"] = types.SimpleNamespace(attr=None)  # type: ignore[assignment]
    return importlib.import_module(f"kokoro.{name}")


class KokoroPeer:
    """The networks of the package on a device."""

    def __init__(
        self, config: KokoroConfig, weights: dict[str, GPUArray], device: str = "cuda"
    ) -> None:
        self._torch: Any = importlib.import_module("torch")
        transformers: Any = importlib.import_module("transformers")
        modules, istftnet = kokoro_module("modules"), kokoro_module("istftnet")
        values = config.to_dict()
        hidden, style = config.hidden_dim, config.style_dim
        albert = transformers.AlbertConfig(vocab_size=config.n_token, **values["plbert"])
        self.bert = modules.CustomAlbert(albert)
        self.bert_encoder = self._torch.nn.Linear(config.plbert_hidden_size, hidden)
        self.predictor = modules.ProsodyPredictor(style, hidden, config.n_layer, config.max_dur)
        self.text_encoder = modules.TextEncoder(
            hidden, config.text_encoder_kernel_size, config.n_layer, config.n_token
        )
        self.decoder = istftnet.Decoder(hidden, style, config.n_mels, **values["istftnet"])
        self._style = style
        self._device = device
        for part in ("bert", "bert_encoder", "predictor", "text_encoder", "decoder"):
            self._load(part, weights)

    def _load(self, part: str, weights: dict[str, GPUArray]) -> None:
        module = getattr(self, part)
        tensors = {
            name.removeprefix(f"{part}."): self._torch.from_numpy(array.to_numpy().copy())
            for name, array in weights.items()
            if name.startswith(f"{part}.")
        }
        module.load_state_dict(tensors, strict=False)
        module.to(self._device).eval()

    def run(self, tokens: list[int], style: Any) -> Any:
        """What the package's model does: the samples, on the device."""
        torch = self._torch
        with torch.no_grad():
            ids = torch.tensor([tokens], device=self._device)
            row = torch.as_tensor(style, device=self._device)[None]
            lengths = torch.tensor([len(tokens)], device=self._device)
            mask = torch.zeros(ids.shape, dtype=torch.bool, device=self._device)
            voice, prosody = row[:, : self._style], row[:, self._style :]
            encoded = self.bert_encoder(self.bert(ids, attention_mask=(~mask).int()))
            d = self.predictor.text_encoder(encoded.transpose(-1, -2), prosody, lengths, mask)
            x, _ = self.predictor.lstm(d)
            frames = torch.sigmoid(self.predictor.duration_proj(x)).sum(-1).round().clamp(min=1)
            at = torch.arange(len(tokens), device=self._device)
            index = torch.repeat_interleave(at, frames.long().squeeze(0))
            one_hot = torch.nn.functional.one_hot(index, len(tokens)).T[None].float()
            pitch, energy = self.predictor.F0Ntrain(d.transpose(-1, -2) @ one_hot, prosody)
            text = self.text_encoder(ids, lengths, mask) @ one_hot
            return self.decoder(text, pitch, energy, voice).squeeze()

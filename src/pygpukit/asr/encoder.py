"""The encoder of a Whisper as a function."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pygpukit.core.arguments import require_arrays

if TYPE_CHECKING:
    from pygpukit._native import GPUArray
    from pygpukit.asr.config import WhisperConfig
    from pygpukit.asr.window_decoder import WindowDecoder


class WhisperEncoder:
    """model.encoder(mel)"""

    def __init__(self, windows: WindowDecoder) -> None:
        self._windows = windows

    @property
    def config(self) -> WhisperConfig:
        """The numbers of the model."""
        return self._windows.config

    def __call__(self, mel: GPUArray) -> GPUArray:
        """States [batch, frames / 2, d_model] of spectrograms [batch, num_mel_bins, frames]."""
        require_arrays("WhisperEncoder", mel=mel)
        return self._windows.encode(mel)


__all__ = ["WhisperEncoder"]

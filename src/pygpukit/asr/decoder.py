"""The decoder of a Whisper as a function."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit._native import GPUArray
from pygpukit.asr.options import TranscribeOptions
from pygpukit.core.arguments import require_arrays, whole
from pygpukit.core.errors import InvalidTypeError, InvalidValueError

if TYPE_CHECKING:
    from pygpukit.asr.config import WhisperConfig
    from pygpukit.asr.window_decoder import WindowDecoder


class WhisperDecoder:
    """model.decoder(ids, states)"""

    def __init__(self, windows: WindowDecoder) -> None:
        self._windows = windows

    @property
    def config(self) -> WhisperConfig:
        """The numbers of the model."""
        return self._windows.config

    def __call__(self, ids: Any, states: GPUArray) -> GPUArray:
        """Logits [batch, tokens, vocabulary] of ids [batch, tokens] with the encoder's states."""
        rows = _id_rows("WhisperDecoder", ids, states)
        with self._windows.sources_of(states) as sources:
            logits = [self._windows.logits(s, row) for s, row in zip(sources, rows, strict=True)]
        return _native.stack(logits, 0)

    def generate(
        self,
        states: GPUArray,
        max_length: int = 448,
        temperature: float = 1.0,
        top_k: int | None = None,
        *,
        language: str | None = None,
        task: str = "transcribe",
        timestamps: bool = False,
        num_beams: int = 1,
        seed: int = 0,
    ) -> list[list[int]]:
        """The token ids of each of the encoder's states [batch, rows, d_model], prompt included.

        Without a language, the likeliest one of each.
        """
        op = "WhisperDecoder.generate"
        require_arrays(op, states=states)
        windows, tokens = self._windows, self._windows.tokens
        most = whole(op, "max_length", max_length, 1)
        options = TranscribeOptions(
            task=task,
            temperature=(temperature,),
            top_k=0 if top_k is None else whole(op, "top_k", top_k),
            num_beams=num_beams,
            timestamps=timestamps,
            seed=seed,
        )
        with windows.sources_of(states) as sources:
            prompts: list[list[int]] = []
            while len(prompts) < len(sources):
                code = language
                if code is None and tokens.is_multilingual:
                    code, _ = windows.detect_language(sources[len(prompts)])
                prompts.append(tokens.prompt(code, task, timestamps=timestamps))
            texts = windows.decode(sources, prompts, options)
        return [[*p, *text.tokens][:most] for p, text in zip(prompts, texts, strict=True)]


def _id_rows(op: str, ids: Any, states: GPUArray) -> list[list[int]]:
    require_arrays(op, states=states)
    values = ids.to_numpy().tolist() if isinstance(ids, GPUArray) else ids
    if not isinstance(values, Iterable):
        raise InvalidTypeError(f"{op}: ids is of type {type(ids).__name__}, expected token ids")
    rows = list(values)
    if rows and not isinstance(rows[0], Iterable):
        rows = [rows]
    try:
        result = [[operator.index(token) for token in row] for row in rows]
    except TypeError:
        raise InvalidTypeError(f"{op}: ids has an element that is no int") from None
    if len(result) != states.shape[0] or len({len(row) for row in result}) != 1:
        raise InvalidValueError(
            f"{op}: ids has {len(result)} rows, expected {states.shape[0]} of one length, as states"
        )
    return result


__all__ = ["WhisperDecoder"]

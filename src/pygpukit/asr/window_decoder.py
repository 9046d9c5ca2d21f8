"""Windows of 30 s to texts: encoder, decoder, and another try where a text is no good."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pygpukit import _native
from pygpukit.core.errors import InvalidValueError
from pygpukit.core.model_lock import ModelLock

if TYPE_CHECKING:
    from pygpukit._native import AsrModel, AsrSource, AsrText, GPUArray
    from pygpukit.asr.config import WhisperConfig
    from pygpukit.asr.options import TranscribeOptions
    from pygpukit.asr.tokens import WhisperTokens


@dataclass
class DecodedWindow:
    """The text of a window."""

    tokens: list[int]
    text: str
    temperature: float
    avg_logprob: float
    compression_ratio: float
    no_speech_prob: float
    is_silence: bool = False


class WindowDecoder:
    """An encoder and a decoder with room for ``max_batch`` windows of ``max_beams`` beams.

    Threads that hold sources hold ``lock``: the cross cache has room for one batch.
    """

    def __init__(
        self,
        model: AsrModel,
        config: WhisperConfig,
        tokens: WhisperTokens | None,
        *,
        max_batch: int,
        max_beams: int,
        use_graph: bool = True,
        persistent: bool = False,
    ) -> None:
        self.model = model
        self.config = config
        self._tokens = tokens
        self.max_batch = max_batch
        self.max_beams = max_beams
        self.lock = ModelLock(model.device)
        self._encoder = _native.AsrEncoder(model)
        self._decoder = _native.AsrDecoder(model, max_batch, max_beams, use_graph, persistent)

    @property
    def tokens(self) -> WhisperTokens:
        """The tokens of the model's folder."""
        if self._tokens is None:
            raise InvalidValueError("WhisperModel: made without a folder, so it has no text")
        return self._tokens

    # --- states ----------------------------------------------------------------------------------

    def encode(self, mel: GPUArray) -> GPUArray:
        """States [batch, frames / 2, width] of spectrograms [batch, mels, frames]."""
        with self.lock:
            return self._encoder.encode(_native.astype(mel, self.model.dtype))

    @contextmanager
    def sources(self, mel: GPUArray) -> Iterator[list[AsrSource]]:
        """Spectrograms [batch, mels, frames] as the decoder reads them, while the block runs."""
        with self.lock, self.sources_of(self.encode(mel)) as sources:
            yield sources

    @contextmanager
    def sources_of(self, states: GPUArray) -> Iterator[list[AsrSource]]:
        """As sources(), of the encoder's states [batch, rows, width]."""
        with self.lock:
            sources = self._decoder.add(states)
            try:
                yield sources
            finally:  # a traceback may keep the sources, not their places in the cross cache
                for source in sources:
                    source.release()

    def logits(self, source: AsrSource, tokens: Sequence[int]) -> GPUArray:
        """Logits after every token."""
        return _native.copy(self._decoder.logits(source, list(tokens)))

    def detect_language(self, source: AsrSource) -> tuple[str, dict[str, float]]:
        """The likeliest language, and the probability of each."""
        tokens = self.tokens
        if not tokens.languages:
            raise InvalidValueError("detect_language: the model has no tokens of languages")
        logits = self._decoder.logits(source, [tokens.start])
        row = _native.astype(logits, "float32").to_numpy()[0].astype(np.float64)
        names = list(tokens.languages)
        values = row[[tokens.languages[name] for name in names]]
        shares = np.exp(values - values.max())
        shares /= shares.sum()
        return names[int(np.argmax(shares))], dict(zip(names, shares.tolist(), strict=True))

    # --- texts -----------------------------------------------------------------------------------

    def decode(
        self,
        sources: Sequence[AsrSource],
        prompts: Sequence[Sequence[int]],
        options: TranscribeOptions,
        *,
        continues: bool = False,
    ) -> list[DecodedWindow]:
        """A text for each source. ``continues``: prompts end with a part of it."""
        results: dict[int, DecodedWindow] = {}
        pending = list(range(len(sources)))
        for temperature in options.temperature:
            texts = self._decoder.decode(
                [sources[i] for i in pending],
                [list(prompts[i]) for i in pending],
                self._text_options(options, temperature, continues),
            )
            again = []
            for i, text in zip(pending, texts, strict=True):
                results[i] = self._judged(text, temperature, options)
                if _needs_another(results[i], options):
                    again.append(i)
            pending = again
            if not pending:
                break
        return [results[i] for i in range(len(sources))]

    def _text_options(
        self, options: TranscribeOptions, temperature: float, continues: bool
    ) -> _native.AsrTextOptions:
        tokens = self.tokens
        timestamps = options.timestamps
        return _native.AsrTextOptions(
            suppressed=[*tokens.suppressed, *([tokens.no_timestamps] if timestamps else [])],
            begin_suppressed=[] if continues else tokens.begin_suppressed,
            eos=tokens.eos,
            first_timestamp=tokens.first_timestamp if timestamps else -1,
            max_initial_timestamp=tokens.max_initial_timestamp,
            temperature=temperature,
            top_k=options.top_k,
            seed=options.seed,
            max_new_tokens=options.max_new_tokens,
            num_beams=options.num_beams if temperature == 0.0 else 1,
            length_penalty=options.length_penalty,
            start_token=tokens.start,
            no_speech_token=-1 if tokens.no_speech is None else tokens.no_speech,
        )

    def _judged(
        self, text: AsrText, temperature: float, options: TranscribeOptions
    ) -> DecodedWindow:
        said = self.tokens.text(text.tokens)
        window = DecodedWindow(
            text.tokens,
            said,
            temperature,
            text.mean_logprob,
            _compression_ratio(said),
            text.no_speech,
        )
        unlikely = (
            options.logprob_threshold is None or window.avg_logprob < options.logprob_threshold
        )
        window.is_silence = (
            options.no_speech_threshold is not None
            and window.no_speech_prob > options.no_speech_threshold
            and unlikely
        )
        return window

    # --- times -----------------------------------------------------------------------------------

    def align(
        self, source: AsrSource, prompt: Sequence[int], text: Sequence[int], num_frames: int
    ) -> tuple[list[int], list[float]]:
        """Rows of 0.02 s where each token and the end begin, and the tokens' probabilities."""
        heads = self.tokens.alignment_heads
        if not heads:  # the later half of the layers
            layers = self.config.decoder_layers
            heads = [
                (layer, head)
                for layer in range(layers // 2, layers)
                for head in range(self.config.decoder_attention_heads)
            ]
        return self._decoder.align(
            source,
            list(prompt),
            list(text),
            self.tokens.eos,
            heads,
            num_frames,
            self.config.median_filter_width,
        )


def _compression_ratio(text: str) -> float:
    data = text.encode()
    return len(data) / len(zlib.compress(data)) if data else 0.0


def _needs_another(window: DecodedWindow, options: TranscribeOptions) -> bool:
    ratio, logprob = options.compression_ratio_threshold, options.logprob_threshold
    if window.is_silence:
        return False
    return (ratio is not None and window.compression_ratio > ratio) or (
        logprob is not None and window.avg_logprob < logprob
    )


__all__ = ["DecodedWindow", "WindowDecoder"]

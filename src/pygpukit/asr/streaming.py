"""Sound that arrives in pieces: what is sure is confirmed and never changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pygpukit import _native
from pygpukit.asr.options import TranscribeOptions
from pygpukit.asr.preprocessing import (
    WHISPER_HOP_LENGTH,
    WHISPER_N_SAMPLES,
    WHISPER_SAMPLE_RATE,
    load_sound,
)
from pygpukit.asr.sequential import one_source
from pygpukit.asr.words import split_words, timed_words
from pygpukit.core.arguments import amount
from pygpukit.core.errors import InvalidValueError

if TYPE_CHECKING:
    from pygpukit._native import AsrSource, GPUArray
    from pygpukit.asr.preprocessing import Sound
    from pygpukit.asr.window_decoder import WindowDecoder

_OP = "StreamingTranscriber"


@dataclass(frozen=True)
class StreamUpdate:
    """What a piece of sound added."""

    confirmed: str  # new text that will not change
    partial: str  # what may follow it; replaced by the next update


class StreamingTranscriber:
    """A transcript that grows with the sound.

    Whenever ``interval`` seconds have arrived, the sound so far is decoded after the text that is
    confirmed. Words on which two decodings in a row agree are confirmed (local agreement), but for
    the last ``holdback`` seconds, where a word may be cut off. When the window is full, the sound
    of confirmed words is dropped.

    >>> stream = model.stream(language="en")
    >>> for chunk in microphone:
    ...     update = stream.push(chunk)
    >>> stream.finish()
    """

    def __init__(
        self,
        decoder: WindowDecoder,
        options: TranscribeOptions,
        *,
        sample_rate: int = WHISPER_SAMPLE_RATE,
        interval: float = 0.5,
        holdback: float = 0.5,
        device: str | None = None,
    ) -> None:
        self._decoder = decoder
        self._options = options
        self._rate = sample_rate
        self._device = device
        self._interval = int(amount(_OP, "interval", interval, 0.02, 30.0) * WHISPER_SAMPLE_RATE)
        self._holdback = amount(_OP, "holdback", holdback, 0.0, 10.0)
        self.language = (
            None if options.language is None else decoder.tokens.language_code(options.language)
        )
        self._sound: GPUArray | None = None  # the window
        self._fresh = 0  # samples since the last decoding
        self._fixed: list[int] = []  # confirmed tokens of the window
        self._guess: list[int] = []  # what the last decoding put behind them
        self._text = ""  # all that is confirmed
        self._finished = False

    @property
    def text(self) -> str:
        """All that is confirmed."""
        return self._text

    def push(self, samples: Sound) -> StreamUpdate:
        """More sound, at the sample rate of the stream. NaN and infinities are refused."""
        if self._finished:
            raise InvalidValueError(f"{_OP}.push: the stream is finished")
        piece = load_sound(f"{_OP}.push", samples, self._rate, self._device, finite=True)
        # A copy in any case: the caller may write the next samples into its array.
        self._sound = _native.concat([*([] if self._sound is None else [self._sound]), piece], 0)
        self._fresh += piece.shape[0]
        if self._fresh < self._interval:
            return StreamUpdate("", self._said(self._guess))
        self._fresh = 0
        return self._decode(last=False)

    def finish(self) -> StreamUpdate:
        """The end of the sound: all that is left is confirmed."""
        self._finished = True
        if self._sound is None or self._sound.shape[0] < WHISPER_HOP_LENGTH:
            return StreamUpdate("", "")
        return self._decode(last=True)

    # --- one decoding ----------------------------------------------------------------------------

    def _decode(self, *, last: bool) -> StreamUpdate:
        from pygpukit.ops.audio import whisper_log_mel

        assert self._sound is not None
        mel = whisper_log_mel(
            self._sound, self._decoder.config.num_mel_bins, length=WHISPER_N_SAMPLES
        )
        with one_source(self._decoder, mel) as source:
            return self._decode_source(source, last)

    def _decode_source(self, source: AsrSource, last: bool) -> StreamUpdate:
        assert self._sound is not None
        decoder, tokens = self._decoder, self._decoder.tokens
        language = self.language
        if language is None and tokens.is_multilingual:
            language, _ = decoder.detect_language(source)
        prompt = tokens.prompt(language, self._options.task, timestamps=False)
        decoded = decoder.decode(
            [source], [[*prompt, *self._fixed]], self._options, continues=bool(self._fixed)
        )[0]
        guess = [] if decoded.is_silence else [i for i in decoded.tokens if tokens.is_text(i)]
        sure = len(guess) if last else self._agreed(source, prompt, guess, language)
        confirmed = self._said(guess[:sure])
        self._fixed += guess[:sure]
        self._guess = guess[sure:]
        self._text += confirmed
        if confirmed:
            self.language = language
        if self._sound.shape[0] + 2 * self._interval > WHISPER_N_SAMPLES and not last:
            confirmed += self._forget(source, prompt, language)
        return StreamUpdate(confirmed, self._said(self._guess))

    def _agreed(
        self, source: AsrSource, prompt: Sequence[int], guess: list[int], language: str | None
    ) -> int:
        """How many tokens of the guess are confirmed: whole words, as the last guess had them."""
        assert self._sound is not None
        same = _common_prefix(self._guess, guess)
        words = split_words(self._decoder.tokens, guess, language)
        whole, count = 0, 0
        for _, part in words:
            if count + len(part) > same:
                break
            count += len(part)
            whole += 1
        if whole == 0:
            return 0
        frames = self._sound.shape[0] // WHISPER_HOP_LENGTH
        timed = timed_words(self._decoder, source, prompt, [self._fixed, guess], frames, language)
        latest = self._sound.shape[0] / WHISPER_SAMPLE_RATE - self._holdback
        count = -len(self._fixed)
        for word, part in timed:
            if count + len(part) > sum(len(p) for _, p in words[:whole]) or word.end > latest:
                break
            count += len(part)
        return max(count, 0)

    def _forget(self, source: AsrSource, prompt: Sequence[int], language: str | None) -> str:
        """Drops the sound of confirmed words; without any, all is confirmed and dropped."""
        assert self._sound is not None
        confirmed = ""
        if not self._fixed:
            confirmed = self._said(self._guess)
            self._text += confirmed
            cut = self._sound.shape[0]
            self._guess = []
        else:
            frames = self._sound.shape[0] // WHISPER_HOP_LENGTH
            texts = [self._fixed, self._guess]
            timed = timed_words(self._decoder, source, prompt, texts, frames, language)
            count, end = 0, 0.0
            for word, part in timed:
                count += len(part)
                if count > len(self._fixed):
                    break
                end = word.end
            cut = int(end * WHISPER_SAMPLE_RATE)
        self._sound = self._sound[cut:]
        self._fixed = []
        return confirmed

    def _said(self, ids: Sequence[int]) -> str:
        return self._decoder.tokens.text(ids)


def _common_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    count = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        count += 1
    return count


__all__ = ["StreamUpdate", "StreamingTranscriber"]

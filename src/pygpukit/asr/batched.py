"""Long sound by pieces of speech, many at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from pygpukit import _native
from pygpukit.asr.preprocessing import WHISPER_HOP_LENGTH, WHISPER_SAMPLE_RATE, pad_or_trim
from pygpukit.asr.result import shifted
from pygpukit.asr.sequential import window_segments
from pygpukit.asr.words import add_words

if TYPE_CHECKING:
    from pygpukit._native import GPUArray
    from pygpukit.asr.options import TranscribeOptions
    from pygpukit.asr.result import TranscriptionSegment
    from pygpukit.asr.window_decoder import WindowDecoder

    Progress = Callable[[int, int], object]

_PADDING = WHISPER_SAMPLE_RATE // 5  # samples around speech
_PAUSE = 2 * WHISPER_SAMPLE_RATE  # a longer one is a border: models guess in long silence
_FRAME, _HOP = WHISPER_SAMPLE_RATE // 50, WHISPER_SAMPLE_RATE // 100
_LOUD_FRAMES = 50  # half a second: what is louder for a shorter time is no speech's level
_FLOOR = 0.1  # the share of frames that are at the noise floor or below
_RANGE = 0.01  # of the loud level: 40 dB
_CONTRAST = 2.0  # of the loud level over the floor; with less, all is speech
_HANGOVER = 10  # frames that follow speech


def find_speech(sound: GPUArray) -> list[tuple[int, int]]:
    """Where samples at 16 kHz may be speech: (start, end) in samples, in order.

    By levels of the recording itself, so that its gain does not matter: a frame counts where its
    RMS is above a share of the loud level and above the noise floor. Where nothing stands out from
    the floor, all of it may be speech; only digital silence has none.
    """
    total = sound.shape[-1]
    squares, _ = _native.audio_frame_stats("transcribe", sound, _FRAME, _HOP)
    levels = np.sqrt(squares.to_numpy().astype(np.float64))
    if levels.size == 0:
        return [(0, total)] if total else []
    ordered = np.sort(levels)
    heard = ordered[ordered > 0.0]
    if heard.size == 0:
        return []
    loud = float(heard[-min(_LOUD_FRAMES, -(-heard.size // 4))])
    floor = float(ordered[int(_FLOOR * (levels.size - 1))])
    if loud <= _CONTRAST * floor:
        return [(0, total)]
    threshold = max(_RANGE * loud, min(_CONTRAST * floor, float(np.sqrt(loud * floor))))
    at = np.arange(levels.size)
    last = np.maximum.accumulate(np.where(levels > threshold, at, -1 - _HANGOVER))
    speech = at - last <= _HANGOVER
    edges = np.flatnonzero(np.diff(np.concatenate([[0], speech.astype(np.int8), [0]])))
    return [
        (int(first) * _HOP, min(total, (int(past) - 1) * _HOP + _FRAME))
        for first, past in edges.reshape(-1, 2)
    ]


def cut_at_pauses(
    speech: Sequence[tuple[int, int]],
    total: int,
    most: int,
    *,
    pause: int = _PAUSE,
    padding: int = _PADDING,
) -> list[tuple[int, int]]:
    """Pieces of up to ``most`` samples that hold all speech, cut where there is none.

    ``speech`` are (start, end) in samples, in order. A longer ``pause`` is in no piece. Speech that
    is longer than a piece is cut anyway.
    """
    pieces: list[tuple[int, int]] = []
    for start, end in speech:
        begin, stop = max(0, start - padding), min(total, end + padding)
        near = bool(pieces) and begin - pieces[-1][1] < pause
        if near and stop - pieces[-1][0] <= most:
            pieces[-1] = (pieces[-1][0], max(stop, pieces[-1][1]))
            continue
        if pieces:
            begin = max(begin, pieces[-1][1])
        while stop - begin > most:
            pieces.append((begin, begin + most))
            begin += most
        if stop > begin:
            pieces.append((begin, stop))
    return pieces


def transcribe_pieces(
    decoder: WindowDecoder,
    sound: GPUArray,
    options: TranscribeOptions,
    language: str | None,
    progress: Progress | None = None,
) -> Iterator[TranscriptionSegment]:
    """The segments of samples at 16 kHz, in batches of the decoder's size."""
    from pygpukit.ops.audio import whisper_log_mel

    tokens = decoder.tokens
    length = decoder.model.num_frames * WHISPER_HOP_LENGTH
    pieces = cut_at_pauses(find_speech(sound), sound.shape[-1], length)
    start = tokens.prompt(language, options.task, timestamps=options.timestamps)
    hot = tokens.encode(" " + options.hotwords.strip()) if options.hotwords else []
    prompt = [*tokens.context(hot, decoder.config.max_target_positions // 2), *start]
    for first in range(0, len(pieces), decoder.max_batch):
        if progress is not None:
            progress(pieces[first][0], sound.shape[-1])
        batch = pieces[first : first + decoder.max_batch]
        windows = [pad_or_trim(sound[a:b], length) for a, b in batch]
        mel = whisper_log_mel(_native.stack(windows, 0), decoder.config.num_mel_bins)
        yield from _decode_batch(decoder, mel, batch, prompt, start, options, language)
    if progress is not None:
        progress(sound.shape[-1], sound.shape[-1])


def _decode_batch(
    decoder: WindowDecoder,
    mel: GPUArray,
    pieces: list[tuple[int, int]],
    prompt: list[int],
    start: list[int],
    options: TranscribeOptions,
    language: str | None,
) -> list[TranscriptionSegment]:
    found: list[TranscriptionSegment] = []
    with decoder.sources(mel) as sources:
        texts = decoder.decode(sources, [prompt] * len(pieces), options)
        for (begin, end), source, decoded in zip(pieces, sources, texts, strict=True):
            if decoded.is_silence:
                continue
            frames = -(-(end - begin) // WHISPER_HOP_LENGTH)
            segments, _ = window_segments(decoder, decoded, 0, frames, whole=True)
            if options.word_timestamps:
                add_words(decoder, source, segments, start, frames, 0.0, language)
            found += shifted(segments, begin / WHISPER_SAMPLE_RATE)
    return found


__all__ = ["cut_at_pauses", "find_speech", "transcribe_pieces"]

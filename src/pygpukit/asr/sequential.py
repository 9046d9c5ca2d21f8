"""Long sound window by window: each one begins where the last one was sure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pygpukit import _native
from pygpukit.asr.preprocessing import pad_or_trim
from pygpukit.asr.result import TranscriptionSegment
from pygpukit.asr.tokens import SECONDS_PER_TIMESTAMP
from pygpukit.asr.words import add_words

if TYPE_CHECKING:
    from pygpukit._native import AsrSource, GPUArray
    from pygpukit.asr.options import TranscribeOptions
    from pygpukit.asr.window_decoder import DecodedWindow, WindowDecoder

    Progress = Callable[[int, int], object]

_SECONDS_PER_FRAME = SECONDS_PER_TIMESTAMP / 2


def transcribe_windows(
    decoder: WindowDecoder,
    mel: GPUArray,
    total: int,
    options: TranscribeOptions,
    language: str | None,
    progress: Progress | None = None,
) -> Iterator[TranscriptionSegment]:
    """The segments of a spectrogram [mels, frames], of which ``total`` frames are sound."""
    tokens = decoder.tokens
    start = tokens.prompt(language, options.task, timestamps=options.timestamps)
    room = decoder.config.max_target_positions // 2
    hot = tokens.encode(" " + options.hotwords.strip()) if options.hotwords else []
    said = tokens.encode(" " + options.initial_prompt.strip()) if options.initial_prompt else []
    seek = 0
    while seek < total:
        if progress is not None:
            progress(seek, total)
        frames = min(decoder.model.num_frames, total - seek)
        prompt = [*tokens.context([*hot, *said], room), *start]
        with one_source(decoder, mel[:, seek:]) as source:
            decoded = decoder.decode([source], [prompt], options)[0]
            segments: list[TranscriptionSegment] = []
            advance = frames
            if not decoded.is_silence:
                segments, advance = window_segments(decoder, decoded, seek, frames)
                keeps = options.condition_on_previous_text and decoded.temperature < 0.5
                said = [*said, *decoded.tokens] if keeps else []
            if options.word_timestamps and segments:
                offset = seek * _SECONDS_PER_FRAME
                add_words(decoder, source, segments, start, frames, offset, language)
        yield from segments
        seek += advance if advance > 0 else frames
    if progress is not None:
        progress(total, total)


def window_segments(
    decoder: WindowDecoder, decoded: DecodedWindow, seek: int, frames: int, *, whole: bool = False
) -> tuple[list[TranscriptionSegment], int]:
    """The segments of a window that begins at frame ``seek``, and frames to the next window.

    ``whole``: nothing is left to the next window.
    """
    tokens = decoder.tokens
    pieces, advance = _native.asr_segments(decoded.tokens, tokens.first_timestamp, frames)
    end = pieces[-1][1] if pieces else 0
    if whole and end < len(decoded.tokens):
        begin_at = decoded.tokens[end] - tokens.first_timestamp
        pieces = [*pieces, (end, len(decoded.tokens), max(begin_at, 0), frames // 2)]
    offset = seek * _SECONDS_PER_FRAME
    segments = []
    for first, last, begin, stop in pieces:
        ids = decoded.tokens[first:last]
        text = tokens.text(ids)
        if not text.strip():
            continue
        segments.append(
            TranscriptionSegment(
                text,
                offset + begin * SECONDS_PER_TIMESTAMP,
                offset + stop * SECONDS_PER_TIMESTAMP,
                ids,
                decoded.temperature,
                decoded.avg_logprob,
                decoded.compression_ratio,
                decoded.no_speech_prob,
            )
        )
    return segments, advance


@contextmanager
def one_source(decoder: WindowDecoder, mel: GPUArray) -> Iterator[AsrSource]:
    """The first window of a spectrogram [mels, frames], while the block runs."""
    window = pad_or_trim(mel[:, : decoder.model.num_frames], decoder.model.num_frames)
    with decoder.sources(_native.expand_dims(window, 0)) as sources:
        yield sources[0]


__all__ = ["one_source", "transcribe_windows", "window_segments"]

"""A Whisper from a Hugging Face folder, and the transcripts it gives."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit.asr.batched import transcribe_pieces
from pygpukit.asr.chunks import Chunk, in_turn, join_chunks
from pygpukit.asr.config import WhisperConfig
from pygpukit.asr.decoder import WhisperDecoder
from pygpukit.asr.encoder import WhisperEncoder
from pygpukit.asr.options import TranscribeOptions
from pygpukit.asr.preprocessing import (
    WHISPER_CHUNK_LENGTH,
    WHISPER_HOP_LENGTH,
    WHISPER_N_SAMPLES,
    WHISPER_SAMPLE_RATE,
    load_sound,
)
from pygpukit.asr.result import TranscriptionResult, TranscriptionSegment, shifted
from pygpukit.asr.sequential import one_source, transcribe_windows
from pygpukit.asr.streaming import StreamingTranscriber
from pygpukit.asr.tokens import WhisperTokens
from pygpukit.asr.window_decoder import WindowDecoder
from pygpukit.core.arguments import amount, whole
from pygpukit.core.errors import InvalidValueError
from pygpukit.core.loaded_model import LoadedModel

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from pygpukit._native import AsrModel, DataType, GPUArray
    from pygpukit.asr.preprocessing import Sound

    Progress = Callable[[int, int], object]

METHODS = ("sequential", "batched")


class WhisperModel(LoadedModel):
    """Weights, caches, and the folder's tokens.

    >>> model = gp.asr.WhisperModel.from_pretrained("models/whisper-small")
    >>> model.transcribe("speech.wav").text
    """

    _model: AsrModel

    def __init__(
        self,
        model: AsrModel,
        config: WhisperConfig,
        folder: str | os.PathLike[str] | None = None,
        *,
        max_batch: int = 8,
        max_beams: int = 5,
        use_graph: bool = True,
        persistent: bool = False,
    ) -> None:
        """Of weights that have been loaded; without a folder, for spectrograms and ids only."""
        self.config = config
        self.folder = None if folder is None else os.fspath(folder)
        self._model = model
        tokens = None if folder is None else WhisperTokens(folder)
        self._windows = WindowDecoder(
            model,
            config,
            tokens,
            max_batch=whole("WhisperModel", "max_batch", max_batch, 1, 4096),
            max_beams=whole("WhisperModel", "max_beams", max_beams, 1, 64),
            use_graph=use_graph,
            persistent=bool(persistent),
        )
        self.encoder = WhisperEncoder(self._windows)
        self.decoder = WhisperDecoder(self._windows)

    @classmethod
    def from_pretrained(
        cls,
        path: str | os.PathLike[str],
        dtype: DTypeLike | DataType | None = "auto",
        *,
        device: str | None = None,
        max_batch: int = 8,
        max_beams: int = 5,
        progress: Progress | None = None,
        persistent: bool = False,
    ) -> WhisperModel:
        """The model in a Hugging Face folder.

        ``dtype`` "auto" is that of the files. ``max_batch`` windows of ``max_beams`` beams are
        decoded at a time: both decide how much memory the caches take. ``progress`` is called with
        the bytes loaded so far and in all. ``persistent`` runs the layers of a decode step of up to
        8 rows in one kernel, as gp.llm.load() has it.
        """
        folder = os.fspath(path)
        if not os.path.isdir(folder):
            raise InvalidValueError(
                f"WhisperModel.from_pretrained: {folder!r} is no folder; download the model first "
                "(huggingface-cli download NAME --local-dir FOLDER)"
            )
        config = WhisperConfig.from_pretrained(path)
        wanted = None if isinstance(dtype, str) and dtype == "auto" else dtype
        model = _native.AsrModel.load_folder(folder, wanted, device, progress)
        return cls(
            model,
            config,
            folder,
            max_batch=max_batch,
            max_beams=max_beams,
            persistent=persistent,
        )

    @classmethod
    def from_tensors(
        cls,
        config: WhisperConfig,
        tensors: Mapping[str, GPUArray],
        dtype: DTypeLike | DataType = "float32",
        *,
        device: str | None = None,
        max_batch: int = 8,
        max_beams: int = 5,
    ) -> WhisperModel:
        """Of tensors by their names in a Hugging Face folder."""
        shapes = {name: array.shape for name, array in tensors.items()}
        model = _native.AsrModel.from_tensors(
            config.to_json(), shapes, tensors.__getitem__, dtype, device
        )
        return cls(model, config, max_batch=max_batch, max_beams=max_beams)

    # --- what it is ------------------------------------------------------------------------------

    @property
    def tokens(self) -> WhisperTokens:
        """Special tokens, languages, text to ids and back."""
        return self._windows.tokens

    @property
    def languages(self) -> list[str]:
        """Codes of the languages that the model knows."""
        return sorted(self.tokens.languages)

    # --- transcripts -----------------------------------------------------------------------------

    def transcribe(
        self,
        audio: Sound,
        sample_rate: int | None = None,
        language: str | None = None,
        max_length: int | None = None,
        temperature: float | tuple[float, ...] = 0.0,
        *,
        method: str = "sequential",
        progress: Progress | None = None,
        **options: Any,
    ) -> TranscriptionResult:
        """The transcript of a file, of samples, or of an AudioBuffer.

        ``method`` "sequential" takes window after window, each from where the last one was sure;
        "batched" cuts at pauses and takes many at a time. ``max_length`` bounds the new tokens of
        a window. Other options are those of TranscribeOptions.
        """
        chosen = self._options(language, max_length, temperature, options)
        sound = load_sound("transcribe", audio, sample_rate, self._model.device, finite=True)
        found, segments = self._segments(sound, chosen, method, progress)
        pieces = list(segments)
        return TranscriptionResult(
            "".join(segment.text for segment in pieces).strip(),
            pieces,
            found,
            sound.shape[0] / WHISPER_SAMPLE_RATE,
        )

    def transcribe_streaming(
        self,
        audio: Sound,
        language: str | None = None,
        chunk_length: float = WHISPER_CHUNK_LENGTH,
        overlap: float = 0.0,
        sample_rate: int | None = None,
        max_length: int | None = None,
        temperature: float | tuple[float, ...] = 0.0,
        **options: Any,
    ) -> Iterator[TranscriptionSegment]:
        """The segments of a recording one by one, in chunks of up to 30 s that may overlap.

        Chunks that overlap are joined by words, whose times are found for that: the border is the
        middle of what two chunks share, a word behind it is the next chunk's, where no edge cuts
        it. For sound that is still arriving there is stream().
        """
        op = "transcribe_streaming"
        length = amount(op, "chunk_length", chunk_length, 1.0, float(WHISPER_CHUNK_LENGTH))
        shared = amount(op, "overlap", overlap, 0.0, length / 2)
        chosen = self._options(language, max_length, temperature, options)
        sound = load_sound(op, audio, sample_rate, self._model.device, finite=True)
        size, both = int(length * WHISPER_SAMPLE_RATE), int(shared * WHISPER_SAMPLE_RATE)
        if both == 0:
            return in_turn(self._chunks(sound, chosen, size, size))
        timed = dataclasses.replace(chosen, word_timestamps=True)
        chunks = self._chunks(sound, timed, size, size - both)
        seconds = both / WHISPER_SAMPLE_RATE
        return join_chunks(self.tokens, chunks, seconds, words=chosen.word_timestamps)

    def _chunks(
        self, sound: GPUArray, options: TranscribeOptions, size: int, step: int
    ) -> Iterator[Chunk]:
        total = sound.shape[0]
        for first in range(0, max(total, 1), step):
            begin, is_last = first / WHISPER_SAMPLE_RATE, first + size >= total
            end = math.inf if is_last else (first + size) / WHISPER_SAMPLE_RATE
            chunk = sound[first : first + size]
            language, segments = self._segments(chunk, options, "sequential", None)
            yield Chunk(begin, end, language, shifted(segments, begin))
            if is_last:
                return

    def stream(
        self,
        language: str | None = None,
        *,
        sample_rate: int = WHISPER_SAMPLE_RATE,
        interval: float = 0.5,
        holdback: float = 0.5,
        **options: Any,
    ) -> StreamingTranscriber:
        """A transcript of sound that is still arriving."""
        chosen = self._options(language, None, 0.0, {**options, "timestamps": False})
        return StreamingTranscriber(
            self._windows,
            chosen,
            sample_rate=whole("stream", "sample_rate", sample_rate, 1, 2**30),
            interval=interval,
            holdback=holdback,
            device=self._model.device,
        )

    def detect_language(
        self, audio: Sound, sample_rate: int | None = None
    ) -> tuple[str, dict[str, float]]:
        """The likeliest language of the first 30 s, and the probability of each."""
        sound = load_sound("detect_language", audio, sample_rate, self._model.device, finite=True)
        return self._language_of(sound)

    def _language_of(self, sound: GPUArray) -> tuple[str, dict[str, float]]:
        mel = self._mel(sound)
        with one_source(self._windows, mel) as source:
            return self._windows.detect_language(source)

    # --- parts -----------------------------------------------------------------------------------

    def _options(
        self,
        language: str | None,
        max_length: int | None,
        temperature: float | tuple[float, ...],
        options: dict[str, Any],
    ) -> TranscribeOptions:
        given = {"language": language, "temperature": temperature, **options}
        if max_length is not None:
            most = self.config.max_target_positions
            given["max_new_tokens"] = min(whole("transcribe", "max_length", max_length, 1), most)
        chosen = TranscribeOptions.of(given)
        if chosen.num_beams > self._windows.max_beams:
            raise InvalidValueError(
                f"transcribe: num_beams is {chosen.num_beams}, the model was loaded with max_beams "
                f"{self._windows.max_beams}"
            )
        return chosen

    def _mel(self, sound: GPUArray) -> GPUArray:
        """[mels, frames]; up to 30 s are padded before, as the model was trained."""
        from pygpukit.ops.audio import whisper_log_mel

        short = sound.shape[0] <= WHISPER_N_SAMPLES
        return whisper_log_mel(
            sound, self.config.num_mel_bins, length=WHISPER_N_SAMPLES if short else None
        )

    def _segments(
        self,
        sound: GPUArray,
        options: TranscribeOptions,
        method: str,
        progress: Progress | None,
    ) -> tuple[str | None, Iterator[TranscriptionSegment]]:
        """The language, and the segments as they are found."""
        if method not in METHODS:
            raise InvalidValueError(
                f"transcribe: method is {method!r}, expected 'sequential' or 'batched'"
            )
        if sound.shape[0] == 0:
            return options.language, iter(())
        tokens = self.tokens
        language = None
        if options.language is not None:
            language = tokens.language_code(options.language)
        elif tokens.is_multilingual:
            language, _ = self._language_of(sound[:WHISPER_N_SAMPLES])
        if method == "batched":
            return language, transcribe_pieces(self._windows, sound, options, language, progress)
        mel = self._mel(sound)
        frames = min(mel.shape[-1], -(-sound.shape[0] // WHISPER_HOP_LENGTH))
        return language, transcribe_windows(self._windows, mel, frames, options, language, progress)


__all__ = ["WhisperModel"]

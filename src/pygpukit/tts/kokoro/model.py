"""Kokoro: speech from text or phonemes, in a voice."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit._native import GPUArray, safe_repr
from pygpukit.core.arguments import amount, whole
from pygpukit.core.errors import InvalidTypeError, InvalidValueError
from pygpukit.ops.audio.buffer import AudioBuffer
from pygpukit.tts.kokoro.config import KokoroConfig
from pygpukit.tts.kokoro.sentences import pack, split_phonemes
from pygpukit.tts.kokoro.tokenizer import KokoroTokenizer
from pygpukit.tts.kokoro.vocabulary import PAD
from pygpukit.tts.kokoro.weights import (
    list_available_voices,
    load_kokoro_weights,
    load_voice_embedding,
    voice_file,
)
from pygpukit.tts.sentences import split_sentences

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from pygpukit._native import DataType

    Voice = str | GPUArray | Mapping[str, float]

_LEAST_SPEED, _MOST_SPEED = 0.1, 10.0


@dataclass(frozen=True)
class Token:
    """A phoneme and when it is spoken, in seconds."""

    symbol: str
    start: float
    end: float


@dataclass
class SynthesisResult:
    """Speech: the samples, and what was spoken."""

    audio: AudioBuffer
    text: str
    phonemes: str
    duration_sec: float
    tokens: list[Token] = field(default_factory=list, repr=False)

    def to_wav(self, path: str | os.PathLike[str]) -> None:
        """Writes a WAV file: 16 bits, mono, samples as they are."""
        from pygpukit.tts.wav import to_wav

        to_wav(self.audio.to_numpy(), path, self.audio.sample_rate, normalize=False)

    def to_numpy(self) -> NDArray[Any]:
        """The samples as a NumPy array."""
        return self.audio.to_numpy()


@dataclass(frozen=True)
class _Piece:
    """What one pass of the model speaks."""

    text: str
    phonemes: str


class KokoroModel:
    """A Kokoro model with its tokenizer and voices.

    >>> model = gp.tts.KokoroModel.from_pretrained("models/Kokoro-82M")
    >>> model.synthesize("Hello there.").to_wav("hello.wav")
    """

    def __init__(
        self,
        model: _native.KokoroModel,
        config: KokoroConfig,
        *,
        folder: str | os.PathLike[str] | None = None,
        lang: str = "a",
    ) -> None:
        """Of weights that have been loaded; without a folder, voices are given as arrays."""
        self.config = config
        self.tokenizer = KokoroTokenizer(config.vocab, lang)
        self.folder = None if folder is None else os.fspath(folder)
        self.voice = ""
        self._model = model
        self._voices: dict[str, GPUArray] = {}

    @classmethod
    def from_pretrained(
        cls,
        path: str | os.PathLike[str],
        voice: str | None = "af_heart",
        dtype: DTypeLike | DataType = "bfloat16",
        load_all_voices: bool = False,
        *,
        lang: str = "a",
        device: str | int | None = None,
    ) -> KokoroModel:
        """From a folder with config.json, a checkpoint (.pth, .safetensors) and voices/.

        `dtype` is that of the decoder's convolutions; the text and prosody networks, which decide
        durations and pitch, are float32 always. With voice=None a voice is given with every call.
        """
        where = Path(path)
        if not where.exists():
            raise FileNotFoundError(2, "kokoro: no such file or folder", os.fspath(path))
        file = (where if where.is_dir() else where.parent) / "config.json"
        config = KokoroConfig.from_json(file) if file.is_file() else KokoroConfig()
        tensors = load_kokoro_weights(where, "float32", device=device)
        native = _native.KokoroModel(json.dumps(config.to_dict()), tensors, dtype)
        model = cls(native, config, folder=path, lang=lang)
        if load_all_voices:
            for name in model.available_voices:
                model._voice_of(name)
        if voice is not None:
            model.set_voice(voice)
        return model

    # --- voices ---
    @property
    def available_voices(self) -> list[str]:
        """Voices of the folder, and those that were added."""
        found = set(self._voices)
        if self.folder is not None:
            found |= set(list_available_voices(self.folder))
        return sorted(found)

    def set_voice(self, voice: Voice) -> None:
        """The voice of the calls that give none: a name, or as mix_voices() takes it.

        ValueError for a voice that is not there.
        """
        if isinstance(voice, str) and "," not in voice:
            self._voice_of(voice)
            self.voice = voice
        else:
            self.add_voice("(mixed)", self.mix_voices(voice))
            self.voice = "(mixed)"

    def add_voice(self, name: str, styles: GPUArray) -> None:
        """A voice by its styles: float32 [lengths, 2 * style_dim]."""
        width = 2 * self.config.style_dim
        if not isinstance(styles, GPUArray):
            raise InvalidTypeError(f"add_voice: styles is {safe_repr(styles)}, expected a GPUArray")
        if styles.ndim != 2 or styles.shape[1] != width or styles.shape[0] < 1:
            raise InvalidValueError(
                f"add_voice: styles has shape {styles.shape}, expected (lengths, {width})"
            )
        if styles.dtype != _native.float32 or str(styles.device) != self._model.device:
            raise InvalidValueError(
                f"add_voice: styles is {styles.dtype} on {styles.device}, expected float32 on "
                f"{self._model.device}"
            )
        self._voices[name] = styles

    def mix_voices(self, voices: Voice) -> GPUArray:
        """Styles between voices: {"af_heart": 0.7, "af_bella": 0.3}, or "af_heart,af_bella".

        Weights are divided by their sum.
        """
        if isinstance(voices, GPUArray):
            return voices
        if isinstance(voices, str):
            voices = {name.strip(): 1.0 for name in voices.split(",")}
        if not isinstance(voices, Mapping) or not voices:
            raise InvalidTypeError(
                f"mix_voices: voices is {safe_repr(voices)}, expected a dict of weights"
            )
        weights = {name: amount("mix_voices", name, weight) for name, weight in voices.items()}
        total = sum(weights.values())
        if total <= 0:
            raise InvalidValueError("mix_voices: the weights are all 0")
        styles = {name: self._voice_of(name) for name in weights}
        rows = min(style.shape[0] for style in styles.values())
        parts = [style[:rows] * (weights[name] / total) for name, style in styles.items()]
        mixed = parts[0]
        for part in parts[1:]:
            mixed = _native.add(mixed, part)
        return mixed

    def _voice_of(self, name: str) -> GPUArray:
        if not isinstance(name, str):
            raise InvalidTypeError(f"kokoro: voice is {safe_repr(name)}, expected a name")
        if name not in self._voices:
            file = None if self.folder is None else voice_file(self.folder, name)
            if file is None:
                known = ", ".join(self.available_voices) or "none"
                raise InvalidValueError(
                    f"kokoro: voice is {safe_repr(name)}, expected one of these: {known}"
                )
            self._voices[name] = load_voice_embedding(
                file, self.config.style_dim, device=self._model.device
            )
        return self._voices[name]

    def _styles(self, voice: Voice | None) -> GPUArray:
        if voice is None:
            if not self.voice:
                raise InvalidValueError("kokoro: no voice is set, expected voice=")
            return self._voices[self.voice]
        if isinstance(voice, str) and "," not in voice:
            return self._voice_of(voice)
        self.add_voice("(given)", self.mix_voices(voice))
        return self._voices.pop("(given)")

    # --- speech ---
    def synthesize(
        self,
        text: str,
        voice: Voice | None = None,
        speed: float = 1.0,
        normalize: bool = True,
        *,
        phonemes: bool = False,
        seed: int = 0,
    ) -> SynthesisResult:
        """Speech of a text of any length; with phonemes=True, of phonemes.

        A long text is spoken in passes of as many sentences as the model takes. `normalize` scales
        the largest magnitude to 1. ValueError for a text without anything to speak.
        """
        results = list(
            self._speak(text, voice, speed, phonemes=phonemes, seed=seed, by_sentence=False)
        )
        whole_audio = _native.concat([result.audio.data for result in results])
        audio = AudioBuffer(whole_audio, self.config.sample_rate, 1)
        if normalize:
            audio.normalize()
        return SynthesisResult(
            audio,
            text,
            " ".join(result.phonemes for result in results),
            audio.data.size / self.config.sample_rate,
            _joined(results),
        )

    def synthesize_stream(
        self,
        text: str,
        voice: Voice | None = None,
        speed: float = 1.0,
        *,
        phonemes: bool = False,
        seed: int = 0,
    ) -> Iterator[SynthesisResult]:
        """The same sentence by sentence, as they are ready."""
        return self._speak(text, voice, speed, phonemes=phonemes, seed=seed, by_sentence=True)

    def generate_stream(
        self,
        text: str,
        chunk_size: int = 4800,
        *,
        voice: Voice | None = None,
        speed: float = 1.0,
        phonemes: bool = False,
        seed: int = 0,
    ) -> Iterator[AudioBuffer]:
        """Chunks of `chunk_size` samples, as sentences are ready; the last one may be shorter."""
        size = whole("generate_stream", "chunk_size", chunk_size, 1)
        sentences = self.synthesize_stream(text, voice, speed, phonemes=phonemes, seed=seed)
        return self._chunks(sentences, size)

    def _chunks(self, sentences: Iterator[SynthesisResult], size: int) -> Iterator[AudioBuffer]:
        rest: GPUArray | None = None
        for sentence in sentences:
            samples = sentence.audio.data
            if rest is not None:
                samples = _native.concat([rest, samples])
            full = samples.size // size * size
            for at in range(0, full, size):
                yield AudioBuffer(samples[at : at + size], self.config.sample_rate, 1)
            rest = samples[full:] if full < samples.size else None
        if rest is not None:
            yield AudioBuffer(rest, self.config.sample_rate, 1)

    def _speak(
        self,
        text: str,
        voice: Voice | None,
        speed: float,
        *,
        phonemes: bool,
        seed: int,
        by_sentence: bool,
    ) -> Iterator[SynthesisResult]:
        """Checks at once; speaks when it is iterated."""
        styles = self._styles(voice)
        pace = amount("synthesize", "speed", speed, _LEAST_SPEED, _MOST_SPEED)
        first = whole("synthesize", "seed", seed)
        pieces = self._pieces(text, phonemes=phonemes, by_sentence=by_sentence)
        return (self._pass(piece, styles, pace, first + i) for i, piece in enumerate(pieces))

    def _pieces(self, text: str, *, phonemes: bool, by_sentence: bool) -> list[_Piece]:
        limit = self.config.max_phonemes
        pieces = []
        if not isinstance(text, str):
            raise InvalidTypeError(f"synthesize: text is {safe_repr(text)}, expected a str")
        for sentence in split_sentences(text):
            spoken = self.tokenizer.encode(sentence, phonemes=phonemes)
            known = self.tokenizer.decode(spoken.tokens)
            pieces += [_Piece(sentence, part) for part in split_phonemes(known, limit)]
        if not pieces:
            raise InvalidValueError(
                f"synthesize: text is {safe_repr(text)}, expected something to speak; the "
                "vocabulary has none of it"
            )
        if by_sentence:
            return pieces
        groups = pack([piece.phonemes for piece in pieces], limit)
        return [
            _Piece(
                " ".join(pieces[i].text for i in group),
                " ".join(pieces[i].phonemes for i in group),
            )
            for group in groups
        ]

    def _pass(self, piece: _Piece, styles: GPUArray, speed: float, seed: int) -> SynthesisResult:
        tokens = self.tokenizer.tokens_of(piece.phonemes)
        row = min(len(tokens), styles.shape[0]) - 1
        samples, frames = self._model.run([PAD, *tokens, PAD], styles[row], speed=speed, seed=seed)
        rate = self.config.sample_rate
        step = self._model.samples_per_frame / rate
        times, start = [], frames[0] * step
        for token, count in zip(tokens, frames[1:-1], strict=True):
            end = start + count * step
            times.append(Token(self.tokenizer.decode([token]), start, end))
            start = end
        audio = AudioBuffer(samples, rate, 1)
        return SynthesisResult(audio, piece.text, piece.phonemes, samples.size / rate, times)

    def __repr__(self) -> str:
        return (
            f"KokoroModel({self._model.num_parameters} parameters, {self._model.dtype}, "
            f"{self._model.device}, voice='{self.voice}')"
        )


def _joined(results: list[SynthesisResult]) -> list[Token]:
    """The tokens of pieces that follow each other."""
    tokens, at = [], 0.0
    for result in results:
        tokens += [Token(t.symbol, t.start + at, t.end + at) for t in result.tokens]
        at += result.duration_sec
    return tokens

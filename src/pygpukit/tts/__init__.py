"""Text-to-speech: Kokoro. Names are loaded on first use."""

from pygpukit._lazy import lazy_names

_HOMES = {
    "pygpukit.tts.kokoro.config": ("KokoroConfig",),
    "pygpukit.tts.kokoro.model": ("KokoroModel", "SynthesisResult", "Token"),
    "pygpukit.tts.kokoro.sentences": ("split_phonemes",),
    "pygpukit.tts.kokoro.tokenizer": ("KokoroTokenizer", "TokenizerOutput"),
    "pygpukit.tts.kokoro.weights": (
        *("list_available_voices", "load_kokoro_weights", "load_voice_embedding"),
    ),
    "pygpukit.tts.sentences": ("split_sentences",),
    "pygpukit.tts.wav": ("concatenate_audio", "from_wav", "resample_audio", "to_wav"),
}

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pygpukit.tts import kokoro
    from pygpukit.tts.kokoro.config import KokoroConfig
    from pygpukit.tts.kokoro.model import KokoroModel, SynthesisResult, Token
    from pygpukit.tts.kokoro.sentences import split_phonemes
    from pygpukit.tts.kokoro.tokenizer import KokoroTokenizer, TokenizerOutput
    from pygpukit.tts.kokoro.weights import (
        list_available_voices,
        load_kokoro_weights,
        load_voice_embedding,
    )
    from pygpukit.tts.sentences import split_sentences
    from pygpukit.tts.wav import concatenate_audio, from_wav, resample_audio, to_wav

__all__ = [
    "KokoroConfig",
    "KokoroModel",
    "KokoroTokenizer",
    "SynthesisResult",
    "Token",
    "TokenizerOutput",
    "concatenate_audio",
    "from_wav",
    "kokoro",
    "list_available_voices",
    "load_kokoro_weights",
    "load_voice_embedding",
    "resample_audio",
    "split_phonemes",
    "split_sentences",
    "to_wav",
]
if not TYPE_CHECKING:
    __getattr__ = lazy_names("pygpukit.tts", _HOMES, ("kokoro", "wav"))

"""Kokoro-82M: configuration, tokenizer, voices, model and its layers."""

from pygpukit._lazy import lazy_names

_HOMES = {
    "pygpukit.tts.kokoro.config": ("KokoroConfig",),
    "pygpukit.tts.kokoro.model": ("KokoroModel", "SynthesisResult", "Token"),
    "pygpukit.tts.kokoro.tokenizer": ("KokoroTokenizer", "TokenizerOutput"),
    "pygpukit.tts.kokoro.weights": (
        *("list_available_voices", "load_kokoro_weights", "load_voice_embedding"),
    ),
}

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pygpukit.tts.kokoro import layers
    from pygpukit.tts.kokoro.config import KokoroConfig
    from pygpukit.tts.kokoro.model import KokoroModel, SynthesisResult, Token
    from pygpukit.tts.kokoro.tokenizer import KokoroTokenizer, TokenizerOutput
    from pygpukit.tts.kokoro.weights import (
        list_available_voices,
        load_kokoro_weights,
        load_voice_embedding,
    )

__all__ = [
    "KokoroConfig",
    "KokoroModel",
    "KokoroTokenizer",
    "SynthesisResult",
    "Token",
    "TokenizerOutput",
    "layers",
    "list_available_voices",
    "load_kokoro_weights",
    "load_voice_embedding",
]
if not TYPE_CHECKING:
    __getattr__ = lazy_names("pygpukit.tts.kokoro", _HOMES, ("layers",))

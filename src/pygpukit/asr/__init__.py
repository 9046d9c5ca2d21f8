"""Speech recognition: Whisper of any size from a Hugging Face folder. Names load on first use."""

from pygpukit._lazy import lazy_names

_HOMES = {
    "pygpukit.asr.config": ("WHISPER_CONFIGS", "WhisperConfig"),
    "pygpukit.asr.decoder": ("WhisperDecoder",),
    "pygpukit.asr.encoder": ("WhisperEncoder",),
    "pygpukit.asr.formats": ("FORMATS", "format_transcript"),
    "pygpukit.asr.model": ("WhisperModel",),
    "pygpukit.asr.options": ("TranscribeOptions",),
    "pygpukit.asr.preprocessing": (
        *("WHISPER_CHUNK_LENGTH", "WHISPER_HOP_LENGTH", "WHISPER_N_FFT", "WHISPER_N_FRAMES"),
        *("WHISPER_N_MELS", "WHISPER_N_SAMPLES", "WHISPER_SAMPLE_RATE", "normalize_mel"),
        *("pad_or_trim", "preprocess_audio", "preprocess_audio_batch"),
    ),
    "pygpukit.asr.result": ("TranscriptionResult", "TranscriptionSegment", "Word"),
    "pygpukit.asr.streaming": ("StreamUpdate", "StreamingTranscriber"),
    "pygpukit.asr.tokens": ("WhisperTokens",),
}

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pygpukit.asr.config import WHISPER_CONFIGS, WhisperConfig
    from pygpukit.asr.decoder import WhisperDecoder
    from pygpukit.asr.encoder import WhisperEncoder
    from pygpukit.asr.formats import FORMATS, format_transcript
    from pygpukit.asr.model import WhisperModel
    from pygpukit.asr.options import TranscribeOptions
    from pygpukit.asr.preprocessing import (
        WHISPER_CHUNK_LENGTH,
        WHISPER_HOP_LENGTH,
        WHISPER_N_FFT,
        WHISPER_N_FRAMES,
        WHISPER_N_MELS,
        WHISPER_N_SAMPLES,
        WHISPER_SAMPLE_RATE,
        normalize_mel,
        pad_or_trim,
        preprocess_audio,
        preprocess_audio_batch,
    )
    from pygpukit.asr.result import TranscriptionResult, TranscriptionSegment, Word
    from pygpukit.asr.streaming import StreamingTranscriber, StreamUpdate
    from pygpukit.asr.tokens import WhisperTokens

__all__ = [
    "FORMATS",
    "WHISPER_CHUNK_LENGTH",
    "WHISPER_CONFIGS",
    "WHISPER_HOP_LENGTH",
    "WHISPER_N_FFT",
    "WHISPER_N_FRAMES",
    "WHISPER_N_MELS",
    "WHISPER_N_SAMPLES",
    "WHISPER_SAMPLE_RATE",
    "StreamUpdate",
    "StreamingTranscriber",
    "TranscribeOptions",
    "TranscriptionResult",
    "TranscriptionSegment",
    "WhisperConfig",
    "WhisperDecoder",
    "WhisperEncoder",
    "WhisperModel",
    "WhisperTokens",
    "Word",
    "format_transcript",
    "normalize_mel",
    "pad_or_trim",
    "preprocess_audio",
    "preprocess_audio_batch",
]
if not TYPE_CHECKING:
    __getattr__ = lazy_names("pygpukit.asr", _HOMES)

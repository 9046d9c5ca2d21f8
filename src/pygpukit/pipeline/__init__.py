"""Voice pipelines: language model to speech, and speech to speech.

>>> pipeline = gp.pipeline.LLMToTTSPipeline(model, kokoro)
>>> for chunk in pipeline.generate_speech("Tell me about the sea."):
...     play(chunk.audio, chunk.sample_rate)

Every stage (recognition, generation, synthesis) runs as tasks of a scheduler, each on a stream of
its own and in a class of service, so that the next sentence is generated while one is spoken.
"""

from pygpukit.pipeline.audio_queue import AudioBuffer
from pygpukit.pipeline.speech import LLMToTTSPipeline, StreamingTTSCallback, TTSChunk
from pygpukit.pipeline.stages import PipelineStats, StageStats
from pygpukit.pipeline.voice import (
    ConversationTurn,
    PipelineState,
    VoicePipeline,
    VoicePipelineCallback,
    create_voice_pipeline,
)
from pygpukit.pipeline.voice_activity import VADConfig, VADEvent, VoiceActivityDetector
from pygpukit.tts.sentences import SentenceSplitter

__all__ = [
    "AudioBuffer",
    "ConversationTurn",
    "LLMToTTSPipeline",
    "PipelineState",
    "PipelineStats",
    "SentenceSplitter",
    "StageStats",
    "StreamingTTSCallback",
    "TTSChunk",
    "VADConfig",
    "VADEvent",
    "VoiceActivityDetector",
    "VoicePipeline",
    "VoicePipelineCallback",
    "create_voice_pipeline",
]

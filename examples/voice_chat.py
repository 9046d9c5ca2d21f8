"""A conversation from sound files: each one is heard, answered, and the reply written beside it.

usage: voice_chat.py --asr WHISPER --llm MODEL --tts KOKORO FILE.wav [FILE.wav ...]

Folders are those of Hugging Face. Latencies of every stage are printed at the end.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import pygpukit as gp
from pygpukit.ops import audio
from pygpukit.pipeline import ConversationTurn, TTSChunk, VoicePipelineCallback


class Recorder(VoicePipelineCallback):
    """Prints the conversation and keeps the sound of the reply."""

    def __init__(self) -> None:
        self.chunks: list[TTSChunk] = []

    def on_transcription(self, text: str) -> None:
        print(f"> {text}")

    def on_audio(self, chunk: TTSChunk) -> None:
        self.chunks.append(chunk)
        print(f"  {chunk.text}")

    def on_turn(self, turn: ConversationTurn) -> None:
        print(f"  [first sound after {turn.latencies_ms.get('response', 0.0):.0f} ms]")

    def save(self, path: Path) -> None:
        if self.chunks:
            sound = np.concatenate([chunk.audio for chunk in self.chunks])
            audio.save(path, gp.from_numpy(sound), self.chunks[0].sample_rate)
        self.chunks.clear()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("asr", "llm", "tts"):
        parser.add_argument(f"--{name}", required=True, help="folder of the model")
    parser.add_argument("--language", default="en")
    parser.add_argument("files", nargs="+", type=Path)
    options = parser.parse_args()
    recorder = Recorder()
    voice = gp.pipeline.create_voice_pipeline(
        options.asr, options.llm, options.tts, callback=recorder, language=options.language
    )
    with voice:
        for file in options.files:
            sound = audio.load(file).to_mono().resample(16000).to_numpy()
            for start in range(0, sound.size, 1600):  # as a microphone gives it
                voice.process_audio(sound[start : start + 1600])
            voice.finish()
            voice.wait()
            recorder.save(file.with_suffix(".reply.wav"))
    for name, stage in voice.stats.latencies.items():
        print(
            f"{name:12} {stage.count:4} x, {stage.mean_ms:8.1f} ms, at most {stage.max_ms:.1f} ms"
        )


if __name__ == "__main__":
    main()

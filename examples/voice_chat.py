"""A conversation from sound files: each one is heard, answered, and the reply written beside it.

usage: voice_chat.py --asr WHISPER --llm MODEL --tts KOKORO [--voice NAME] FILE.wav [FILE.wav ...]

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


def load_voice(folder: str, voice: str | None, device: str | None) -> gp.tts.KokoroModel:
    dtype = "bfloat16" if gp.is_cuda_available() and device != "cpu" else "float32"
    model = gp.tts.KokoroModel.from_pretrained(folder, None, dtype, device=device)
    names = model.available_voices
    model.set_voice(voice or ("af_heart" if "af_heart" in names or not names else names[0]))
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("asr", "llm", "tts"):
        parser.add_argument(f"--{name}", required=True, help="folder of the model")
    parser.add_argument("--voice", help="default: af_heart, or the first that --tts has")
    parser.add_argument("--language", default="en")
    parser.add_argument("--device", help="cuda, cuda:1, cpu")
    parser.add_argument("--max-new-tokens", type=int, default=256, metavar="N")
    parser.add_argument("files", nargs="+", type=Path)
    options = parser.parse_args()
    recorder = Recorder()
    voice = gp.pipeline.VoicePipeline(
        gp.asr.WhisperModel.from_pretrained(options.asr, device=options.device),
        gp.llm.load(options.llm, device=options.device),
        load_voice(options.tts, options.voice, options.device),
        callback=recorder,
        language=options.language,
        generation={"max_new_tokens": options.max_new_tokens},
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

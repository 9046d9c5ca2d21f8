"""Text-to-speech on the command line: say."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from pygpukit._cli.text import read_text

COMMANDS = ("say",)


def add_parsers(commands: Any) -> None:
    """The command, below ``python -m pygpukit``."""
    say = commands.add_parser("say", help="speak a text into a WAV file")
    say.add_argument("text", metavar="TEXT", nargs="?", help="default: standard input")
    say.add_argument("--file", type=Path, help="a file with the text")
    say.add_argument("--out", type=Path, required=True, metavar="FILE", help="the WAV file")
    say.add_argument(
        "--model", type=Path, default=Path("Kokoro-82M"), help="folder of a Kokoro model"
    )
    say.add_argument(
        "--voice", default="af_heart", help="a voice, or several, 'af_heart,af_bella', mixed"
    )
    say.add_argument("--lang", default="a", help="a: American, b: British English, e, f, h, ...")
    say.add_argument("--speed", type=float, default=1.0, metavar="S", help="default 1")
    say.add_argument("--phonemes", action="store_true", help="the text is phonemes")
    say.add_argument("--dtype", default="auto", help="float32, float16, bfloat16 (on a GPU)")
    say.add_argument("--device", help="cuda, cuda:1, cpu")
    say.add_argument("--seed", type=int, default=0, metavar="S", help="of the noise in the voice")


def main(args: argparse.Namespace) -> int:
    """Runs the command."""
    import numpy as np

    from pygpukit.core.device import is_cuda_available
    from pygpukit.tts.kokoro.model import KokoroModel
    from pygpukit.tts.wav import to_wav

    if args.out.suffix.lower() not in ("", ".wav", ".wave"):
        raise ValueError(
            f"say: --out is {str(args.out)!r}, expected a name that ends in .wav: it becomes a WAV "
            "file"
        )
    if args.out.is_dir():
        raise ValueError(f"say: --out is {str(args.out)!r}, a folder; expected a file")
    if not args.out.absolute().parent.is_dir():  # before the work, not after it
        raise ValueError(f"say: --out is {str(args.out)!r}, whose folder does not exist")
    on_gpu = is_cuda_available() and args.device != "cpu"
    dtype = ("bfloat16" if on_gpu else "float32") if args.dtype == "auto" else args.dtype
    model = KokoroModel.from_pretrained(
        args.model, args.voice, dtype, lang=args.lang, device=args.device
    )
    text = _text(args)
    if not args.phonemes:
        model.tokenizer.phonemize("")  # without a phonemizer an error, not phonemes
    start = time.perf_counter()
    parts, first = [], 0.0
    for sentence in model.synthesize_stream(
        text, speed=args.speed, phonemes=args.phonemes, seed=args.seed
    ):
        parts.append(sentence.to_numpy())
        first = first or time.perf_counter() - start
    seconds = time.perf_counter() - start
    samples = np.concatenate(parts)
    rate = model.config.sample_rate
    to_wav(samples, args.out, rate)
    spoken = len(samples) / rate
    print(
        f"{args.out}: {spoken:.2f} s of speech, first sentence after {first * 1e3:.0f} ms, "
        f"{spoken / seconds:.1f}x real time",
        file=sys.stderr,
    )
    return 0


def _text(args: argparse.Namespace) -> str:
    if args.text is not None and args.file is not None:
        raise ValueError("say: TEXT and --file were given, expected one of them")
    return read_text("say", args.file) if args.text is None else str(args.text)

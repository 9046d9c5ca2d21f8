"""Speech recognition on the command line: transcribe."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pygpukit._cli.terminal import ProgressLine

if TYPE_CHECKING:
    from pygpukit.asr.result import TranscriptionResult

COMMANDS = ("transcribe",)


def add_parsers(commands: Any) -> None:
    """The command, below ``python -m pygpukit``."""
    parser = commands.add_parser("transcribe", help="sound files to text and subtitles")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="sound files")
    parser.add_argument("--model", required=True, metavar="FOLDER", help="a Hugging Face folder")
    parser.add_argument(
        "--format", default="txt", metavar="LIST", help="txt, srt, vtt, json, with commas; txt"
    )
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="default: standard output")
    parser.add_argument("--language", metavar="CODE", help="default: detected")
    parser.add_argument("--task", default="transcribe", choices=("transcribe", "translate"))
    parser.add_argument("--beams", type=int, default=1, metavar="N", help="of beam search")
    parser.add_argument(
        "--temperature", type=float, nargs="+", default=[0.0], metavar="T", help="one or several"
    )
    parser.add_argument("--words", action="store_true", help="times of words (json)")
    parser.add_argument("--prompt", metavar="TEXT", help="ahead of the first window")
    parser.add_argument("--hotwords", metavar="TEXT", help="ahead of every window")
    parser.add_argument(
        "--batch", type=int, default=0, metavar="N", help="cut at pauses, N at once"
    )
    parser.add_argument("--dtype", default="auto", help="float32, float16, bfloat16")
    parser.add_argument("--device", help="cuda, cuda:1, cpu")
    parser.add_argument("--quiet", action="store_true", help="no progress")


def main(args: argparse.Namespace) -> int:
    """Runs the command."""
    from pygpukit.asr import FORMATS, WhisperModel, format_transcript

    kinds = [kind.strip() for kind in args.format.split(",")]
    for kind in kinds:
        if kind not in FORMATS:
            raise ValueError(f"transcribe: --format {kind!r}, expected {', '.join(FORMATS)}")
    if args.out is None and len(kinds) > 1:
        raise ValueError("transcribe: several formats need --out FOLDER")
    line = ProgressLine(quiet=args.quiet)
    model = WhisperModel.from_pretrained(
        args.model,
        args.dtype,
        device=args.device,
        max_batch=max(args.batch, 1),
        max_beams=args.beams,
        progress=lambda done, total: line.steps(done >> 20, total >> 20, "MiB of weights"),
    )
    failed = False
    for number, file in enumerate(args.files, 1):
        what = f"{file.name} ({number} of {len(args.files)})"
        try:
            result = model.transcribe(file, progress=_seconds(line, what), **_options(args))
        except (OSError, ValueError, TypeError, ImportError) as error:
            line.clear()
            print(f"pygpukit: {file}: {error}", file=sys.stderr)
            failed = True
            continue
        line.clear()
        for kind in kinds:
            _write(result, file, kind, args.out, format_transcript)
    return 1 if failed else 0


def _options(args: argparse.Namespace) -> dict[str, Any]:
    return {
        "language": args.language,
        "task": args.task,
        "num_beams": args.beams,
        "temperature": tuple(args.temperature),
        "word_timestamps": args.words,
        "initial_prompt": args.prompt,
        "hotwords": args.hotwords,
        "method": "batched" if args.batch else "sequential",
    }


def _seconds(line: ProgressLine, what: str) -> Callable[[int, int], None]:
    """Shares of the whole; units do not matter."""
    return lambda done, total: line.steps(100 * done // max(total, 1), 100, f"% of {what}")


def _write(
    result: TranscriptionResult,
    file: Path,
    kind: str,
    folder: Path | None,
    format_transcript: Callable[[TranscriptionResult, str], str],
) -> None:
    text = format_transcript(result, kind)
    if folder is None:
        sys.stdout.write(text)
        return
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{file.stem}.{kind}").write_text(text, encoding="utf-8")

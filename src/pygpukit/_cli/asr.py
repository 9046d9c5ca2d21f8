"""Speech recognition on the command line: transcribe."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pygpukit._cli.terminal import ProgressLine
from pygpukit._cli.text import message_of

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
    parser.add_argument(
        "--out", type=Path, metavar="FOLDER", help="a file for each; default: standard output"
    )
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
    if args.batch < 0:
        raise ValueError(f"transcribe: --batch is {args.batch}, expected 0 or more")
    _check_output(args.files, kinds, args.out)
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
            text = message_of(error).removeprefix(f"{file}: ")
            print(f"pygpukit: {file}: {text}", file=sys.stderr)
            failed = True
            continue
        line.clear()
        for kind in kinds:
            if args.out is not None:
                _target(args.out, file, kind).write_text(
                    format_transcript(result, kind), encoding="utf-8"
                )
            elif kind == "json" and len(args.files) > 1:
                print(_line_of(file, result))
            else:
                sys.stdout.write(format_transcript(result, kind))
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


def _check_output(files: list[Path], kinds: list[str], folder: Path | None) -> None:
    """Before the work: everything has a place, and nothing is overwritten by the next file."""
    if folder is None:
        if len(kinds) > 1:
            raise ValueError("transcribe: several formats need --out FOLDER")
        if len(files) > 1 and kinds[0] in ("srt", "vtt"):
            raise ValueError(f"transcribe: several files as {kinds[0]} need --out FOLDER")
        return
    stands = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not stands.is_dir():
        raise ValueError(f"transcribe: --out is {str(folder)!r}, but {stands} is no folder")
    if not os.access(stands, os.W_OK):
        raise ValueError(f"transcribe: --out is {str(folder)!r}, but {stands} is not writable")
    seen: dict[str, Path] = {}
    for file in files:
        other = seen.setdefault(file.stem, file)
        if other is not file:
            raise ValueError(
                f"transcribe: {other} and {file} would both become "
                f"{_target(folder, file, kinds[0])}; give them different names or folders"
            )
    folder.mkdir(parents=True, exist_ok=True)


def _target(folder: Path, file: Path, kind: str) -> Path:
    return folder / f"{file.stem}.{kind}"


def _line_of(file: Path, result: TranscriptionResult) -> str:
    """A transcript as a line of JSON Lines."""
    values = {"file": str(file), **dataclasses.asdict(result)}
    return json.dumps(values, ensure_ascii=False)

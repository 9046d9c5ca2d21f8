"""Language models on the command line: chat, generate, perplexity."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pygpukit.llm.language_model import LanguageModel

COMMANDS = ("chat", "generate", "perplexity")
_HELP = "/stats: speed of the last reply   /reset: a new conversation   /exit: end"


def add_parsers(commands: Any) -> None:
    """The three commands, below ``python -m pygpukit``."""
    chat = _with_model(commands.add_parser("chat", help="talk to a language model"))
    chat.add_argument("--system", metavar="TEXT", help="the first message of the conversation")
    generate = _with_model(commands.add_parser("generate", help="continue a text or JSON lines"))
    generate.add_argument("-p", "--prompt", metavar="TEXT", help="default: standard input")
    generate.add_argument(
        "--json-lines", action="store_true", help='read {"prompt": ...} and write {"text": ...}'
    )
    perplexity = _with_model(commands.add_parser("perplexity", help="how it predicts a text"))
    perplexity.add_argument("--window", type=int, default=512, metavar="N", help="tokens at a time")
    for parser in (generate, perplexity):
        parser.add_argument("--file", type=Path, help="a file with the text")
    for parser in (chat, generate):
        parser.add_argument("--max-new-tokens", type=int, metavar="N")
        parser.add_argument("--temperature", type=float, metavar="T")
        parser.add_argument("--top-k", type=int, metavar="K")
        parser.add_argument("--top-p", type=float, metavar="P")
        parser.add_argument("--seed", type=int, metavar="S")


def _with_model(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser.add_argument("model", metavar="MODEL", help="a Hugging Face model folder")
    parser.add_argument("--dtype", default="auto", help="float32, float16, bfloat16")
    parser.add_argument("--device", help="cuda, cuda:1, cpu")
    parser.add_argument("--max-length", type=int, metavar="N", help="longest text in tokens")
    return parser


def main(args: argparse.Namespace) -> int:
    """Runs one of COMMANDS."""
    from pygpukit.llm.language_model import load

    model = load(
        args.model,
        args.dtype,
        device=args.device,
        max_length=args.max_length,
        max_batch=1,
        progress=sys.stderr.isatty(),
    )
    return {"chat": _chat, "generate": _generate, "perplexity": _perplexity}[args.command](
        model, args
    )


def _options(args: argparse.Namespace) -> dict[str, Any]:
    names = ("max_new_tokens", "temperature", "top_k", "top_p", "seed")
    return {name: getattr(args, name) for name in names if getattr(args, name) is not None}


def _chat(model: LanguageModel, args: argparse.Namespace) -> int:
    first = [{"role": "system", "content": args.system}] if args.system else []
    messages, stats = list(first), "no reply yet"
    print(_HELP, file=sys.stderr)
    while (line := _question()) is not None:
        if line == "/exit":
            break
        if line == "/reset":
            messages = list(first)
        elif line == "/stats":
            print(stats, file=sys.stderr)
        elif line:
            messages.append({"role": "user", "content": line})
            reply, stats = _print_timed(model.chat(messages, **_options(args)))
            messages.append({"role": "assistant", "content": reply})
    return 0


def _question() -> str | None:
    try:
        return input("> " if sys.stdin.isatty() else "").strip()
    except EOFError:
        return None


def _print_timed(pieces: Iterator[str]) -> tuple[str, str]:
    """Prints as it comes; all of it, and how fast it was."""
    start = time.perf_counter()
    first, reply = None, []
    for piece in pieces:
        first = first or time.perf_counter() - start
        reply.append(piece)
        print(piece, end="", flush=True)
    print()
    seconds = time.perf_counter() - start
    stats = (
        f"first piece after {(first or seconds) * 1e3:.0f} ms, {len(reply)} pieces in "
        f"{seconds:.2f} s ({len(reply) / seconds:.1f} per second)"
    )
    return "".join(reply), stats


def _generate(model: LanguageModel, args: argparse.Namespace) -> int:
    options = _options(args)
    if args.json_lines:
        for line in sys.stdin:
            if not line.strip():
                continue
            request = json.loads(line)
            text = model.generate(request["prompt"], **{**options, **request.get("options", {})})
            print(json.dumps({"prompt": request["prompt"], "text": text}), flush=True)
        return 0
    prompt = args.prompt
    if args.file is not None:
        prompt = args.file.read_text(encoding="utf-8")
    elif prompt is None:
        prompt = sys.stdin.read()
    for piece in model.generate_stream(prompt, **options):
        print(piece, end="", flush=True)
    print()
    return 0


def _perplexity(model: LanguageModel, args: argparse.Namespace) -> int:
    import math

    text = args.file.read_text(encoding="utf-8") if args.file is not None else sys.stdin.read()
    ids = model.tokenizer.encode(text)
    window = max(2, min(args.window, model.max_length))
    total, count = 0.0, 0
    for at in range(0, len(ids), window):
        part = ids[at : at + window]
        if len(part) < 2:
            continue
        total += math.log(model.perplexity(part)) * (len(part) - 1)
        count += len(part) - 1
    if not count:
        raise ValueError(f"perplexity: the text has {len(ids)} tokens, expected 2 or more")
    print(f"{math.exp(total / count):.4f} over {count} tokens")
    return 0

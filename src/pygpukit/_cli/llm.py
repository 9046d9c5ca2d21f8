"""Language models on the command line: chat, generate, perplexity."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pygpukit._cli.text import read_text

if TYPE_CHECKING:
    from pygpukit.llm.language_model import LanguageModel
    from pygpukit.llm.text_stream import TextStream

COMMANDS = ("chat", "generate", "perplexity")
_HELP = "/stats: speed of the last reply   /reset: a new conversation   /exit: end"
_OPTIONS: dict[str, tuple[type, str, str]] = {
    "max_new_tokens": (int, "N", "how many tokens at most"),
    "temperature": (float, "T", "0: the likeliest token"),
    "top_k": (int, "K", "draw from so many of the likeliest tokens"),
    "top_p": (float, "P", "draw from tokens of that probability together"),
    "min_p": (float, "P", "draw from tokens of that probability of the likeliest one's"),
    "typical_p": (float, "P", "draw from typical tokens of that probability together"),
    "repetition_penalty": (float, "X", "above 1: less of what the text has"),
    "presence_penalty": (float, "X", "subtracted from logits of tokens that the text has"),
    "frequency_penalty": (float, "X", "subtracted for each time that the text has a token"),
    "seed": (int, "S", "the same seed gives the same text"),
}


def add_parsers(commands: Any) -> None:
    """The three commands, below ``python -m pygpukit``."""
    chat = _with_model(commands.add_parser("chat", help="talk to a language model"))
    chat.add_argument("--system", metavar="TEXT", help="the first message of the conversation")
    generate = _with_model(commands.add_parser("generate", help="continue a text or JSON lines"))
    generate.add_argument("-p", "--prompt", metavar="TEXT", help="default: standard input")
    generate.add_argument(
        "--json-lines", action="store_true", help='read {"prompt": ...} and write {"text": ...}'
    )
    chat.add_argument(
        "--template-option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a variable of the chat template, as JSON: enable_thinking=false",
    )
    perplexity = _with_model(commands.add_parser("perplexity", help="how it predicts a text"))
    perplexity.add_argument("--window", type=int, default=512, metavar="N", help="tokens at a time")
    for parser in (generate, perplexity):
        parser.add_argument("--file", type=Path, help="a file with the text")
    for parser in (chat, generate):
        for name, (kind, metavar, text) in _OPTIONS.items():
            flag = "--" + name.replace("_", "-")
            parser.add_argument(flag, type=kind, metavar=metavar, help=text)
        parser.add_argument(
            "--stop",
            action="append",
            metavar="TEXT",
            help="ends a text; may be given several times",
        )


def _with_model(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser.add_argument("model", metavar="MODEL", help="a Hugging Face model folder")
    parser.add_argument("--dtype", default="auto", help="float32, float16, bfloat16")
    parser.add_argument("--device", help="cuda, cuda:1, cpu")
    parser.add_argument("--max-length", type=int, metavar="N", help="longest text in tokens")
    parser.add_argument("--max-memory", metavar="BYTES", help='limit of the pool: "8GiB", "50%%"')
    parser.add_argument("--quantization", metavar="FORMAT", help="fp8, int8, int4, nvfp4, ...")
    parser.add_argument("--kv-dtype", metavar="DTYPE", help="fp8: keys and values in 8 bits")
    parser.add_argument("--persistent", action="store_true", help="decode steps in one kernel")
    return parser


def main(args: argparse.Namespace) -> int:
    """Runs one of COMMANDS."""
    from pygpukit.llm.language_model import load

    if args.command == "generate" and args.json_lines and (args.prompt or args.file):
        given = "--prompt" if args.prompt else "--file"
        raise ValueError(f"generate: --json-lines and {given} were given, expected one of them")
    model = load(
        args.model,
        args.dtype,
        device=args.device,
        max_length=args.max_length,
        max_batch=1,
        max_memory=args.max_memory,
        quantization=args.quantization,
        kv_dtype=args.kv_dtype,
        persistent=args.persistent,
        progress=sys.stderr.isatty(),
    )
    return {"chat": _chat, "generate": _generate, "perplexity": _perplexity}[args.command](
        model, args
    )


def _options(args: argparse.Namespace) -> dict[str, Any]:
    names = (*_OPTIONS, "stop")
    return {name: getattr(args, name) for name in names if getattr(args, name) is not None}


def _chat(model: LanguageModel, args: argparse.Namespace) -> int:
    first = [{"role": "system", "content": args.system}] if args.system else []
    messages, stats = list(first), "no reply yet"
    template = _template_options(args.template_option)
    print(_HELP, file=sys.stderr)
    while (line := _question()) is not None:
        if line == "/exit":
            break
        if line == "/reset":
            messages = list(first)
        elif line == "/stats":
            print(stats, file=sys.stderr)
        elif line.startswith("/") and " " not in line and line.count("/") == 1:
            print(f"pygpukit: unknown command {line}; {_HELP}", file=sys.stderr)
        elif line:
            question = {"role": "user", "content": line}
            try:
                pieces = model.chat(
                    [*messages, question], template_options=template, **_options(args)
                )
                reply, stats = _print_timed(pieces)
            except ValueError as error:  # the conversation is too long
                print(f"pygpukit: {error}; /reset starts a new conversation", file=sys.stderr)
                if not sys.stdin.isatty():
                    return 1
                continue
            messages += [question, {"role": "assistant", "content": reply}]
    return 0


def _template_options(given: list[str]) -> dict[str, Any]:
    """Of NAME=VALUE, where what is no JSON is a string."""
    options: dict[str, Any] = {}
    for option in given:
        name, equals, value = option.partition("=")
        if not name or not equals:
            raise ValueError(f"chat: --template-option is {option!r}, expected NAME=VALUE")
        try:
            options[name] = json.loads(value)
        except json.JSONDecodeError:
            options[name] = value
    return options


def _question() -> str | None:
    try:
        return input("> " if sys.stdin.isatty() else "").strip()
    except EOFError:
        return None


def _print_timed(pieces: TextStream) -> tuple[str, str]:
    """Prints as it comes, up to Ctrl-C; all of it, and how fast it was."""
    start = time.perf_counter()
    first, reply = None, []
    try:
        for piece in pieces:
            first = first or time.perf_counter() - start
            reply.append(piece)
            print(piece, end="", flush=True)
    except KeyboardInterrupt:
        if not sys.stdin.isatty():
            raise
    print()
    seconds = time.perf_counter() - start
    stats = (
        f"first piece after {(first or seconds) * 1e3:.0f} ms, {len(pieces.tokens)} tokens in "
        f"{seconds:.2f} s ({len(pieces.tokens) / seconds:.1f} per second)"
    )
    return "".join(reply), stats


def _generate(model: LanguageModel, args: argparse.Namespace) -> int:
    options = _options(args)
    if args.json_lines:
        return _json_lines(model, options)
    if args.prompt is not None and args.file is not None:
        raise ValueError("generate: --prompt and --file were given, expected one of them")
    prompt = read_text("generate", args.file) if args.prompt is None else args.prompt
    for piece in model.generate_stream(prompt, **options):
        print(piece, end="", flush=True)
    print()
    return 0


def _json_lines(model: LanguageModel, options: dict[str, Any]) -> int:
    """An answer for each line, in order; 1 where some of them are errors."""
    failed = False
    for number, line in enumerate(sys.stdin, 1):
        if not line.strip():
            continue
        try:
            answer = _answer(model, line, options)
        except (ValueError, TypeError) as error:
            failed = True
            answer = {"error": f"line {number}: {error}"}
        print(json.dumps(answer), flush=True)
    return int(failed)


def _answer(model: LanguageModel, line: str, options: dict[str, Any]) -> dict[str, Any]:
    from pygpukit.llm.generation_options import NAMES, refuse_unknown

    try:
        request = json.loads(line)
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    if not isinstance(request, dict) or "prompt" not in request:
        raise ValueError('expected an object with "prompt"')
    prompt = request.pop("prompt")
    own = request.pop("options", {})
    if not isinstance(own, Mapping):
        raise ValueError(f'"options" is {own!r}, expected an object')
    refuse_unknown("generate", [*request, *own], (*NAMES, "stop", "use_graph"))
    if twice := sorted(request.keys() & own.keys()):
        raise ValueError(f'"{twice[0]}" is given beside "options" and in it, expected it once')
    return {"prompt": prompt, "text": model.generate(prompt, **{**options, **request, **own})}


def _perplexity(model: LanguageModel, args: argparse.Namespace) -> int:
    import math

    if args.window < 2:
        raise ValueError(f"perplexity: --window is {args.window}, expected 2 or more")
    ids = model.tokenizer.encode(read_text("perplexity", args.file))
    window = min(args.window, model.max_length)
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

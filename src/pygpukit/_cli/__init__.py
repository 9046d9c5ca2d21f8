"""``python -m pygpukit``: a report, kernel cache, live view, checks, language models, speech."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import pygpukit
from pygpukit._cli import asr, check, llm, tts
from pygpukit._cli.text import message_of
from pygpukit.core.errors import PyGPUkitError


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m pygpukit",
        description="Reports what PyGPUkit found on this machine.",
    )
    parser.add_argument("--version", action="version", version=f"pygpukit {pygpukit.__version__}")
    parser.add_argument("--json", action="store_true", help="write the report as JSON")
    commands = parser.add_subparsers(dest="command", metavar="command")
    cache = commands.add_parser("cache", help="the cache of compiled kernels")
    actions = cache.add_subparsers(dest="action", metavar="action", required=True)
    actions.add_parser("dir", help="print the folder")
    stat = actions.add_parser("stat", help="print its size")
    stat.add_argument("--json", action="store_true", help="write JSON")
    actions.add_parser("clear", help="remove all cached kernels")
    warm = actions.add_parser("warm", help="compile every built-in kernel into it")
    warm.add_argument(
        "--sm",
        type=int,
        action="append",
        metavar="90",
        help="architecture to compile for (may be repeated); default: the GPU's",
    )
    warm.add_argument(
        "--op",
        action="append",
        metavar="add",
        help="only the kernels of this op (may be repeated); default: all, which takes minutes",
    )
    top = commands.add_parser("top", help="a live view of processes that publish (PYGPUKIT_TOP=1)")
    top.add_argument("--once", action="store_true", help="print once and exit")
    top.add_argument("--interval", type=float, default=1.0, metavar="S", help="seconds; default 1")
    top.add_argument("--pid", type=int, help="only this process")
    top.add_argument("--json", action="store_true", help="write JSON, one document per line")
    check.add_parsers(commands)
    llm.add_parsers(commands)
    asr.add_parsers(commands)
    tts.add_parsers(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit code: 0, 1 for a failure, 2 for bad usage."""
    parser = _parser()
    args = parser.parse_args(argv)
    if args.command == "top" and not args.interval > 0:
        parser.error(f"top: --interval {args.interval}: expected seconds above 0")
    from pygpukit._cli import cache

    try:
        if args.command is None:
            from pygpukit._cli import report

            return report.main(as_json=args.json)
        if args.command == "top":
            from pygpukit._cli import top

            return top.main(once=args.once, interval=args.interval, as_json=args.json, pid=args.pid)
        if args.command in check.COMMANDS:
            return check.main(args)
        if args.command in llm.COMMANDS:
            return llm.main(args)
        if args.command in asr.COMMANDS:
            return asr.main(args)
        if args.command in tts.COMMANDS:
            return tts.main(args)
        return cache.main(
            args.action, as_json=getattr(args, "json", False), sms=_sms(args), ops=_ops(args)
        )
    except cache.UsageError as error:
        parser.error(str(error))
    except BrokenPipeError:
        raise  # as terminal.run() has it
    except (PyGPUkitError, RuntimeError, ValueError, OSError, ImportError, MemoryError) as error:
        print(f"pygpukit: {message_of(error)}", file=sys.stderr)
        return 1


def _ops(args: argparse.Namespace) -> list[str]:
    return getattr(args, "op", None) or []


def _sms(args: argparse.Namespace) -> list[int]:
    return list(getattr(args, "sm", None) or [])

"""``python -m pygpukit.benchmark.strategies MODEL --draft SMALL``: decoding strategies.

Each strategy continues the same prompts, greedily, and is checked against plain decoding, token for
token. The speed-up is that of whole texts, prefill included; plain decoding and the strategies take
turns, and the median of the rounds counts.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from pygpukit._cli.terminal import run
from pygpukit.llm.language_model import LanguageModel, load
from pygpukit.llm.strategies import (
    DraftModel,
    Jacobi,
    Lookahead,
    NgramLookup,
    SelfSpeculation,
    Strategy,
)

PROMPTS = (
    "In the beginning",
    "KING RICHARD:\n",
    "My fellow citizens, the state of the Union is",
    "And it came to pass, and it came to pass, and it came",
)
_ROUNDS = 5


@dataclass(frozen=True)
class StrategyResult:
    """Figures of one strategy over all prompts."""

    name: str
    acceptance: float  # the share of guesses that were right
    tokens_per_step: float
    tokens_per_second: float
    speedup: float  # over plain decoding
    worst_speedup: float  # of one prompt
    same_tokens: bool


def strategies_of(model: LanguageModel, draft: LanguageModel | None) -> dict[str, Strategy]:
    """Those that the model can take, by name."""
    found: dict[str, Strategy] = {
        "n-gram": NgramLookup(),
        "self": SelfSpeculation(max(model._model.num_layers // 2, 1)),
        "jacobi": Jacobi(),
        "lookahead": Lookahead(),
    }
    return found if draft is None else {"draft model": DraftModel(draft)} | found


def measure_strategies(
    model: LanguageModel,
    prompts: Sequence[str] | Sequence[Sequence[int]] = PROMPTS,
    *,
    draft: LanguageModel | None = None,
    new: int = 128,
    rounds: int = _ROUNDS,
) -> list[StrategyResult]:
    """One result for each strategy."""
    ways: dict[str, Strategy | None] = {"none": None, **strategies_of(model, draft)}
    seconds: dict[str, list[float]] = {name: [] for name in ways}  # by prompt, the median
    counts = {name: [0, 0, 0, 0] for name in ways}  # steps, tokens, drafted, accepted
    same = dict.fromkeys(ways, True)
    for prompt in prompts:
        times: dict[str, list[float]] = {name: [] for name in ways}
        texts: dict[str, object] = {}
        for _ in range(rounds + 1):  # the first loads kernels and graphs
            for name, strategy in ways.items():
                began = time.perf_counter()
                texts[name] = model.generate(
                    prompt, max_new_tokens=new, stop_tokens=[], strategy=strategy
                )
                times[name].append(time.perf_counter() - began)
        for name, strategy in ways.items():
            seconds[name].append(statistics.median(times[name][1:]))
            same[name] &= texts[name] == texts["none"]
            stats = strategy.stats if strategy is not None else None
            if stats is not None:
                new_counts = (stats.steps, stats.tokens - 1, stats.drafted, stats.accepted)
                counts[name] = [a + b for a, b in zip(counts[name], new_counts, strict=True)]
    results = []
    for name in list(ways)[1:]:
        steps, tokens, drafted, accepted = counts[name]
        each = [plain / own for plain, own in zip(seconds["none"], seconds[name], strict=True)]
        results.append(
            StrategyResult(
                name,
                accepted / max(drafted, 1),
                tokens / max(steps, 1),
                len(prompts) * new / sum(seconds[name]),
                sum(seconds["none"]) / sum(seconds[name]),
                min(each),
                same[name],
            )
        )
    return results


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; exit code 1 if a strategy changed a text."""
    parser = argparse.ArgumentParser(prog="python -m pygpukit.benchmark.strategies")
    parser.add_argument("model", metavar="MODEL", help="a Hugging Face model folder")
    parser.add_argument("--draft", metavar="FOLDER", help="a smaller model, same vocabulary")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--device")
    parser.add_argument("--prompt", action="append", help="once or more; default: four texts")
    parser.add_argument("--new", type=int, default=128, help="tokens of a text")
    parser.add_argument("--rounds", type=int, default=_ROUNDS)
    parser.add_argument("--save", metavar="FILE", help="results as JSON")
    args = parser.parse_args(argv)
    sizes = {"device": args.device, "max_length": args.new + 256, "max_batch": 1}
    model = load(args.model, args.dtype, **sizes)
    draft = load(args.draft, args.dtype, **sizes) if args.draft else None
    results = measure_strategies(
        model, args.prompt or PROMPTS, draft=draft, new=args.new, rounds=args.rounds
    )
    print("strategy     acceptance  tokens/step  tokens/s  speed-up  worst  same tokens")
    for row in results:
        print(
            f"{row.name:11s}  {row.acceptance:10.2f}  {row.tokens_per_step:11.2f}"
            f"  {row.tokens_per_second:8.0f}  {row.speedup:7.2f}x  {row.worst_speedup:4.2f}x"
            f"  {'yes' if row.same_tokens else 'NO'}"
        )
    if args.save:
        with open(args.save, "w", encoding="utf-8") as file:
            json.dump([asdict(row) for row in results], file, indent=1)
    return 0 if all(row.same_tokens for row in results) else 1


if __name__ == "__main__":
    sys.exit(run(main))

"""``python -m pygpukit.benchmark.serving MODEL``: the engine of language models under load.

Throughput counts new tokens while as many requests as the batch has room for are running, and
twice as many wait. The time to the first token of an urgent request is measured alone and beside a
saturated batch of others. Prompts are random ids, so that nothing is in the prefix cache.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pygpukit._cli.terminal import run
from pygpukit.llm.engine import Engine
from pygpukit.llm.language_model import LanguageModel, load
from pygpukit.llm.request import Request

CONCURRENCY = (1, 8, 64, 256)
_WARMUP = 32  # requests, of many lengths: each loads kernels
_ROUNDS = 3  # requests for each place in the batch


@dataclass(frozen=True)
class Throughput:
    """New tokens per second with so many requests at a time."""

    concurrency: int
    requests: int
    tokens_per_second: float
    requests_per_second: float
    seconds: float


@dataclass(frozen=True)
class FirstToken:
    """Seconds from submission to the first token."""

    alone: float  # medians
    loaded: float
    worst_loaded: float

    @property
    def ratio(self) -> float:
        """How much longer it takes under load."""
        return self.loaded / self.alone


def _prompt(rng: random.Random, model: LanguageModel, length: int) -> list[int]:
    return [rng.randrange(model.vocab_size) for _ in range(length)]


def _lengths(rng: random.Random, mean: int) -> int:
    return rng.randint(max(mean // 2, 1), mean + mean // 2)


def measure_throughput(
    model: LanguageModel,
    concurrency: Iterable[int] = CONCURRENCY,
    *,
    prompt: int = 256,
    new: int = 128,
    seed: int = 0,
    kv_memory: int | None = None,
) -> list[Throughput]:
    """Prompts and texts have random lengths around ``prompt`` and ``new`` tokens."""
    results = []
    for count in concurrency:
        rng = random.Random(seed)
        with Engine(model, max_batch=count, kv_memory=kv_memory) as engine:

            def submit(rng: random.Random = rng, engine: Engine = engine) -> Request:
                return engine.submit(
                    _prompt(rng, model, _lengths(rng, prompt)),
                    max_new_tokens=_lengths(rng, new),
                    stop_tokens=[],
                )

            # Kernels and graphs of all buckets.
            for request in [submit() for _ in range(max(count, _WARMUP))]:
                request.result()
            began = time.perf_counter()
            requests = [submit() for _ in range(_ROUNDS * count)]
            for request in requests:
                request.result()
            seconds = time.perf_counter() - began
        tokens = sum(len(request.tokens) for request in requests)
        results.append(
            Throughput(count, len(requests), tokens / seconds, len(requests) / seconds, seconds)
        )
    return results


def measure_first_token(
    model: LanguageModel,
    *,
    load: int = 64,
    prompt: int = 512,
    samples: int = 20,
    seed: int = 0,
    kv_memory: int | None = None,
) -> FirstToken:
    """Guaranteed requests, alone and while a batch of ``load`` others is full and more wait."""
    rng = random.Random(seed)
    with Engine(model, max_batch=load, kv_memory=kv_memory) as engine:
        room = model.max_length - prompt

        def sample() -> float:
            request = engine.submit(
                _prompt(rng, model, prompt), max_new_tokens=2, stop_tokens=[], qos="guaranteed"
            )
            request.result()
            time.sleep(rng.random() * 0.02)  # at any point of a step
            assert request.time_to_first_token is not None
            return request.time_to_first_token

        def background() -> list[Request]:
            return [
                engine.submit(
                    _prompt(rng, model, _lengths(rng, prompt // 2)),
                    max_new_tokens=_lengths(rng, room // 2),
                    stop_tokens=[],
                )
                for _ in range(4 * load)
            ]

        for _ in range(3):
            sample()
        alone = [sample() for _ in range(samples)]
        others = background()
        while engine.metrics().running < load:
            time.sleep(0.01)
        for _ in range(3):
            sample()
        loaded = []
        for _ in range(samples):
            if sum(not request.done for request in others) < 2 * load:
                others += background()
            loaded.append(sample())
    return FirstToken(statistics.median(alone), statistics.median(loaded), max(loaded))


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m pygpukit.benchmark.serving")
    parser.add_argument("model", metavar="MODEL", help="a Hugging Face model folder")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--device")
    parser.add_argument("--max-length", type=int, default=2048)
    parser.add_argument("--concurrency", default="1,8,64,256", metavar="1,8,64,256")
    parser.add_argument("--prompt", type=int, default=256, help="mean tokens of a prompt")
    parser.add_argument("--new", type=int, default=128, help="mean tokens of a text")
    parser.add_argument("--load", type=int, default=64, help="batch beside an urgent request")
    parser.add_argument("--samples", type=int, default=20, help="urgent requests")
    parser.add_argument("--kv-memory", type=int, metavar="BYTES")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(argv)
    counts = [int(part) for part in args.concurrency.split(",")]
    model = load(
        args.model, args.dtype, device=args.device, max_length=args.max_length, max_batch=1
    )
    print("concurrency  requests  tokens/s  requests/s")
    for row in measure_throughput(
        model, counts, prompt=args.prompt, new=args.new, seed=args.seed, kv_memory=args.kv_memory
    ):
        print(
            f"{row.concurrency:11d}  {row.requests:8d}  {row.tokens_per_second:8.0f}"
            f"  {row.requests_per_second:10.2f}",
            flush=True,
        )
    for length in (args.prompt, 4 * args.prompt):
        first = measure_first_token(
            model,
            load=args.load,
            prompt=length,
            samples=args.samples,
            seed=args.seed,
            kv_memory=args.kv_memory,
        )
        print(
            f"first token of {length} tokens: {first.alone * 1e3:.2f} ms alone, "
            f"{first.loaded * 1e3:.2f} ms beside {args.load} others ({first.ratio:.2f}x, "
            f"worst {first.worst_loaded * 1e3:.2f} ms)",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(run(main))

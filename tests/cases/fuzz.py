"""Calls everything public with hostile values: python -m cases.fuzz SEED SECONDS STATE_FILE.

Prints a JSON object: calls, errors, and the findings (errors that no user should see). The state
file names the call in progress, for whoever finds this process dead, or not getting on.
"""

from __future__ import annotations

import faulthandler
import importlib
import inspect
import json
import mmap
import os
import random
import signal
import sys
import time
import types
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from cases.hostile import Corpus, Evil, shown

LONG_SECONDS = 0.5  # a call that can be interrupted is
MAX_TEXT = 1_000_000  # characters
ARRAY_BYTES = 1 << 27
OTHER_BYTES = 1 << 30

MODULES = (
    "pygpukit",
    "pygpukit.dispatch",
    "pygpukit.jit",
    "pygpukit.memory",
    "pygpukit.profiling",
    "pygpukit.random",
    "pygpukit.special",
    "pygpukit.scheduler",
    "pygpukit.transfer",
)
# Not called, and why.
EXCLUDED = {
    "pygpukit.benchmark": "measures for minutes",
    "pygpukit.core": "the same names again",
    "pygpukit.ops": "the same names again",
    "pygpukit.save": "writes files of any name",
    "pygpukit.savetxt": "writes files of any name",
    "pygpukit.savez": "writes files of any name",
    "pygpukit.savez_compressed": "writes files of any name",
    "pygpukit.set_matmul_precision": "changes what later calls compute",
    "pygpukit.set_printoptions": "changes what later calls print",
    "pygpukit.seterr": "changes what NumPy warns of in later calls",
    "pygpukit.with_matmul_plan": "changes what later calls compute",
    "pygpukit.warmup": "compiles on a thread of its own",
    "pygpukit.jit.warmup": "compiles on a thread of its own",
    "pygpukit.memory.freeze": "forbids allocations to all later calls",
    "pygpukit.memory.set_limit": "limits the memory of all later calls",
    "pygpukit.memory.set_default_pool": "changes where later calls allocate",
    "pygpukit.memory.set_evictable_default": "changes where later calls allocate",
    "pygpukit.profiling.profile_matmul": "measures as long as it is told to",
    "pygpukit.scheduler.Client": "waits for a service",
}
# Methods that wait for something no other thread will do, or run for as long as requested.
EXCLUDED_METHODS = {"acquire", "drain", "join", "run", "serve", "simulate", "wait", "wait_all"}

# pybind11's own words.
RAW = (
    "incompatible function arguments",
    "incompatible constructor arguments",
    "Invoked with",
    "Unable to cast",
    "Unable to convert",
    "PYBIND11",
    "std::",
)
TYPED = (
    TypeError,
    ValueError,
    LookupError,
    ArithmeticError,
    AttributeError,
    BufferError,
    MemoryError,
    NotImplementedError,
    TimeoutError,
    StopIteration,
    RecursionError,
    OSError,
)


class TooLong(BaseException):
    """Raised by a timer in a call that does what was requested, such as 2**64 steps."""


def too_long(*_: object) -> None:
    raise TooLong


# --- what is called -------------------------------------------------------------------------------


def public_callables() -> Iterator[tuple[str, Any]]:
    for module in MODULES:
        home = importlib.import_module(module)
        for name in home.__all__:
            path = f"{module}.{name}"
            member = getattr(home, name)
            if path in EXCLUDED or not callable(member) or isinstance(member, types.ModuleType):
                continue
            yield path, member


def members(of: type) -> list[str]:
    """Public methods, operators and properties; not what every object has."""
    skipped = {
        "__class_getitem__",
        "__new__",
        "__init__",
        "__init_subclass__",
        "__subclasshook__",
        "__class__",
    }
    skipped |= {"__reduce__", "__reduce_ex__", "__getattribute__", "__setattr__", "__delattr__"}
    skipped |= {"__dict__", "__weakref__", "__module__", "__doc__", *EXCLUDED_METHODS}
    found = []
    for name in sorted({name for base in of.__mro__[:-1] for name in vars(base)} - skipped):
        private = name.startswith("_") and not name.startswith("__")
        member = getattr(of, name, None)
        if not private and "pybind11" not in name and member is not getattr(object, name, None):
            found.append(name)
    return found


def parameters(function: Any) -> tuple[list[int], list[str]]:
    """How many arguments it takes by position, and the names of the others."""
    try:
        found = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # pybind11 has no signature
        return [0, 1, 2, 3], ["axis", "out", "dtype", "device"]
    if any(p.kind is p.VAR_POSITIONAL for p in found):
        return [1, 2, 3], [p.name for p in found if p.kind is p.KEYWORD_ONLY]
    positional = [p for p in found if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = sum(p.default is p.empty for p in positional)
    names = [p.name for p in found if p.kind is not p.POSITIONAL_ONLY][required:]
    return list(range(required, len(positional) + 1)), names


class Call:
    """One call: what it does and how it is written in a report."""

    def __init__(self, words: str, run: Callable[[], Any]) -> None:
        self.words = words
        self.run = run


class Fuzzer:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.corpus = Corpus(self.rng)
        self.callables = list(public_callables())
        self.classes = sorted(
            {c for _, c in self.callables if isinstance(c, type) and not issubclass(c, Exception)},
            key=lambda c: c.__qualname__,
        )
        import pygpukit as gp

        self.classes += [gp.GPUArray] * 30  # it has most of the methods

    def arguments(self, path: str, function: Any) -> tuple[list[Any], dict[str, Any]]:
        """Mostly as many as fit; often all but one are harmless, so that the call gets further."""
        own = path.split(".")[-1]
        by_position, by_name = parameters(function)
        if self.rng.random() < 0.8:
            count = self.rng.choice(by_position)
        else:
            count = self.rng.randrange(7)
        args = [self.corpus.value(own) for _ in range(count)]
        if count > 0 and self.rng.random() < 0.5:
            odd = self.rng.randrange(count)
            args = [a if i == odd else self.corpus.harmless() for i, a in enumerate(args)]
        kwargs: dict[str, Any] = {}
        for _ in range(self.rng.choice((0, 0, 0, 1, 2))):
            known = by_name if by_name and self.rng.random() < 0.9 else ["no_such_name"]
            kwargs[self.rng.choice(known)] = self.corpus.value(own)
        return args, kwargs

    def next_call(self) -> Call:
        if self.rng.random() < 0.5:
            name, function = self.rng.choice(self.callables)
            return self.call(name, function)
        of = self.rng.choice(self.classes)
        name = self.rng.choice(members(of))
        instance = self.corpus.instance(of, name)
        path = f"{of.__qualname__}.{name}"
        if instance is None:
            return self.call(of.__qualname__, of)
        if not callable(getattr(of, name)):  # a property
            if self.rng.random() < 0.5:
                return Call(path, lambda: getattr(instance, name))
            value = self.corpus.value()
            return Call(f"{path} = {shown(value)}", lambda: setattr(instance, name, value))
        return self.call(path, getattr(instance, name))

    def call(self, name: str, function: Any) -> Call:
        args, kwargs = self.arguments(name, function)
        words = [shown(a) for a in args] + [f"{k}={shown(v)}" for k, v in kwargs.items()]
        return Call(f"{name}({', '.join(words)})", lambda: function(*args, **kwargs))


# --- judging --------------------------------------------------------------------------------------


def text_of(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException:
        return "<no text>"


def complaint(error: BaseException) -> str | None:
    """What is wrong with an error, if a user should not see it."""
    import pygpukit as gp

    text = text_of(error)
    found = next((raw for raw in RAW if raw in text), None)
    if found is not None:
        return f"the words {found!r}"
    if len(text) > MAX_TEXT:
        return f"a text of {len(text)} characters"
    if isinstance(error, (Evil, gp.PyGPUkitError, *TYPED)):
        return None
    return f"{type(error).__name__} is not a type of error that says what was wrong"


def limit_memory() -> None:
    """Of arrays, and of everything else: the pool has its own address space."""
    import pygpukit as gp

    gp.memory.set_limit(ARRAY_BYTES)
    try:
        import resource
    except ImportError:  # Windows
        return
    with open("/proc/self/statm", encoding="ascii") as statm:
        used = int(statm.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + OTHER_BYTES,) * 2)


def set_timer(seconds: float) -> None:
    if hasattr(signal, "setitimer"):  # not on Windows
        signal.setitimer(signal.ITIMER_REAL, seconds)


def main(seed: int, seconds: float, state_file: str) -> None:
    faulthandler.enable()
    warnings.simplefilter("ignore")
    sys.setrecursionlimit(500)
    with open(state_file, "wb") as made:
        made.write(bytes(mmap.PAGESIZE))
    with open(state_file, "r+b") as opened:
        state = mmap.mmap(opened.fileno(), mmap.PAGESIZE)
    if hasattr(signal, "SIGALRM"):
        signal.signal(signal.SIGALRM, too_long)
    fuzzer = Fuzzer(seed)
    limit_memory()
    counts: Counter[str] = Counter()
    errors: Counter[str] = Counter()
    findings: dict[str, str] = {}
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        call = fuzzer.next_call()
        counts["calls"] += 1
        words = f"{counts['calls']}: {call.words}".encode("ascii", "replace")
        state[:] = words[: mmap.PAGESIZE - 1].ljust(mmap.PAGESIZE, b"\0")
        try:
            set_timer(LONG_SECONDS)
            fuzzer.corpus.keep(call.run())
            set_timer(0)
        except TooLong:
            counts["long"] += 1
        except BaseException as error:
            set_timer(0)
            errors[type(error).__name__] += 1
            wrong = complaint(error)
            if wrong is not None:
                where = call.words.split("(")[0].split(" = ")[0]
                findings.setdefault(f"{where} {wrong}", f"{call.words}: {text_of(error)[:300]}")
    report = {**counts, "errors": errors, "findings": findings}
    print(json.dumps(report), flush=True)
    os._exit(0)  # threads of schedulers may be busy; leaving is tested elsewhere


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3])

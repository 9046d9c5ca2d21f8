"""Stages of a pipeline as tasks of a scheduler, and how long they take."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

if TYPE_CHECKING:
    from pygpukit.scheduler import Scheduler, TaskFuture

T = TypeVar("T")

# What a listener waits for comes first: sound that is due, then what was said, then more text.
_CLASSES: dict[str, Literal["guaranteed", "burstable"]] = {
    "synthesize": "guaranteed",
    "transcribe": "guaranteed",
    "generate": "burstable",
}


@dataclass
class StageStats:
    """Latencies of a stage, in milliseconds."""

    count: int = 0
    total_ms: float = 0.0
    max_ms: float = 0.0
    last_ms: float = 0.0

    @property
    def mean_ms(self) -> float:
        """0 before the first one."""
        return self.total_ms / self.count if self.count else 0.0

    def add(self, seconds: float) -> None:
        """One more."""
        self.last_ms = seconds * 1e3
        self.count += 1
        self.total_ms += self.last_ms
        self.max_ms = max(self.max_ms, self.last_ms)


@dataclass
class PipelineStats:
    """Counts, and latencies by name.

    ``transcribe`` and ``synthesize`` are whole calls, ``first_token`` is the time from the start of
    a reply to its first piece of text. ``response`` is that from the end of an utterance to the
    first sound of the reply.
    """

    turns: int = 0
    interruptions: int = 0
    errors: int = 0
    sentences: int = 0
    audio_seconds: float = 0.0
    latencies: dict[str, StageStats] = field(default_factory=dict)


class Stages:
    """Runs the stages, each on a stream of its own, and measures them. Thread-safe."""

    def __init__(self, scheduler: Scheduler | None = None) -> None:
        self._scheduler = scheduler
        self._lock = threading.Lock()
        self._stats = PipelineStats()

    def submit(self, stage: str, function: Callable[..., T], *args: Any) -> TaskFuture[T]:
        """A task of the stage's class."""
        from pygpukit.scheduler import default_scheduler

        scheduler = default_scheduler() if self._scheduler is None else self._scheduler
        return scheduler.submit(function, *args, name=stage, qos=_CLASSES[stage])

    def timed(self, stage: str, function: Callable[..., T], *args: Any) -> TaskFuture[T]:
        """The same, and its latency counts: from now to its last kernel.

        It has been counted when later done callbacks run, which may be after result() returned.
        """
        started = time.perf_counter()
        task = self.submit(stage, function, *args)
        task.add_done_callback(lambda _: self.note(stage, time.perf_counter() - started))
        return task

    def note(self, name: str, seconds: float) -> None:
        """A latency."""
        with self._lock:
            self._stats.latencies.setdefault(name, StageStats()).add(seconds)

    def count(self, **more: float) -> None:
        """Adds to the counts of PipelineStats."""
        with self._lock:
            for name, value in more.items():
                setattr(self._stats, name, getattr(self._stats, name) + value)

    def stats(self) -> PipelineStats:
        """A copy."""
        with self._lock:
            latencies = {name: replace(one) for name, one in self._stats.latencies.items()}
            return replace(self._stats, latencies=latencies)

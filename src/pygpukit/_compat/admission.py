"""0.2's admission control: the scheduler's rule (`decide_admission`) with figures of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from pygpukit._compat.common import Locked, forward, sum_shares
from pygpukit._native import safe_repr
from pygpukit._runtime import AdmissionDecision, decide_admission
from pygpukit.core.errors import InvalidValueError

COUNTS = {"Admit": "admitted_count", "Reject": "rejected_count", "Queue": "queued_count"}


class AdmissionConfig(NamedTuple):
    """Limits of an AdmissionController; memory in bytes, bandwidth as a share of the device."""

    max_memory: int
    max_bandwidth: float = 1.0
    max_pending_tasks: int = 1000
    enable_best_effort: bool = True  # what does not fit now is queued, not rejected


@dataclass(frozen=True)
class AdmissionStats:
    """Decisions so far and what is reserved now."""

    admitted_count: int
    rejected_count: int
    queued_count: int
    pending_count: int  # tasks admitted or queued now
    reserved_memory: int
    reserved_bandwidth: float
    available_memory: int
    available_bandwidth: float

    used_memory, used_bandwidth = forward("reserved_memory"), forward("reserved_bandwidth")


class AdmissionController(Locked):
    """Decides who may take memory and bandwidth. Thread safe."""

    def __init__(self, config: AdmissionConfig) -> None:
        self.config = config
        self._held: dict[str, tuple[int, float]] = {}  # by admitted task: bytes and share
        self._queued: set[str] = set()
        self._counts = dict.fromkeys(COUNTS.values(), 0)
        self._decide(0, 0.0, 0)  # checks the limits

    def _decide(self, memory: int, bandwidth: float, pending: int) -> AdmissionDecision:
        reserved_memory, reserved_bandwidth = self._reserved()
        return decide_admission(
            memory,
            bandwidth,
            **self.config._asdict(),
            reserved_memory=reserved_memory,
            reserved_bandwidth=reserved_bandwidth,
            pending_count=pending,
        )

    def _reserved(self) -> tuple[int, float]:
        held = self._held.values()
        return sum(memory for memory, _ in held), sum_shares(share for _, share in held)

    def try_admit(self, task_id: str, memory: int, bandwidth: float = 0.0) -> AdmissionDecision:
        """Decides and reserves. A bandwidth of 0 is estimated: memory / max_memory.

        A queued task may be tried again.
        """
        if task_id in self._held:
            raise InvalidValueError(f"try_admit: task {safe_repr(task_id)} is admitted already")
        pending = len(self._held) + len(self._queued - {task_id})
        decision = self._decide(memory, bandwidth, pending)
        if not (task_id in self._queued and decision.is_queued()):
            self._counts[COUNTS[decision.decision_type]] += 1
        self._queued.discard(task_id)
        if decision.is_admitted():
            self._held[task_id] = (decision.reserved_memory, decision.reserved_bandwidth)
        elif decision.is_queued():
            self._queued.add(task_id)
        return decision

    def release(self, task_id: str) -> None:
        """Gives back exactly what the task's admission reserved, or its place in the queue."""
        if task_id in self._queued:
            self._queued.remove(task_id)
        elif self._held.pop(task_id, None) is None:
            raise InvalidValueError(f"release: task {safe_repr(task_id)} is not known")

    def stats(self) -> AdmissionStats:
        memory, share = self._reserved()
        return AdmissionStats(
            **self._counts,
            pending_count=len(self._held) + len(self._queued),
            reserved_memory=memory,
            reserved_bandwidth=share,
            available_memory=self.config.max_memory - memory,
            available_bandwidth=sum_shares((self.config.max_bandwidth, -share)),
        )

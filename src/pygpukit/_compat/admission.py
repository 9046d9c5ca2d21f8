"""0.2's admission control and its evaluator of QoS policies: who may have what, as arithmetic.

AdmissionController has the scheduler's rule (`decide_admission`) with figures of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from pygpukit._compat.common import Locked, check_fields, forward, sum_shares
from pygpukit._native import safe_repr
from pygpukit._runtime import AdmissionDecision, QosClass, decide_admission
from pygpukit.core.arguments import amount
from pygpukit.core.errors import InvalidValueError, OperationError

if TYPE_CHECKING:
    from typing_extensions import Self

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
        limits = {**self.config._asdict(), **self._reserved()}
        return decide_admission(memory, bandwidth, **limits, pending_count=pending)

    def _reserved(self) -> dict[str, Any]:
        memory = sum(size for size, _ in self._held.values())
        share = sum_shares(share for _, share in self._held.values())
        return {"reserved_memory": memory, "reserved_bandwidth": share}

    def try_admit(self, task_id: str, memory: int, bandwidth: float = 0.0) -> AdmissionDecision:
        """Decides and reserves. Bandwidth 0: memory / max_memory. What is queued may try again."""
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
        now = self._reserved()
        return AdmissionStats(
            **self._counts,
            **now,
            pending_count=len(self._held) + len(self._queued),
            available_memory=self.config.max_memory - now["reserved_memory"],
            available_bandwidth=sum_shares((self.config.max_bandwidth, -now["reserved_bandwidth"])),
        )


@dataclass
class ResourceRequirements:
    """What a task needs (request) and what it may grow to (limit)."""

    memory_request: int
    memory_limit: Any = None  # an int; None: the request
    bandwidth_request: float = 0.0
    bandwidth_limit: float = 1.0
    qos_class: QosClass = field(default=QosClass.BestEffort, compare=False)

    def __post_init__(self) -> None:
        if self.memory_limit is None:
            self.memory_limit = self.memory_request
        check_fields(self, memory_request=0, bandwidth_request=0.0)
        check_fields(self, memory_limit=self.memory_request)
        check_fields(self, bandwidth_limit=float(self.bandwidth_request))

    @classmethod
    def guaranteed(cls, memory: int) -> Self:
        return cls(memory, qos_class=QosClass.Guaranteed)

    @classmethod
    def burstable(cls, request: int, ratio: float) -> Self:
        """The limit is request * ratio."""
        ratio = amount("ResourceRequirements.burstable", "ratio", ratio, 1.0)
        return cls(request, int(request * ratio), qos_class=QosClass.Burstable)

    @classmethod
    def best_effort(cls) -> Self:
        return cls(0)


class QosPolicy(ResourceRequirements):
    """Guaranteed reserves its limit, burstable its request, best effort nothing."""

    def memory_to_reserve(self) -> int:
        return (self.memory_limit, self.memory_request, 0)[int(self.qos_class)]

    def bandwidth_to_reserve(self) -> float:
        return (self.bandwidth_limit, self.bandwidth_request, 0.0)[int(self.qos_class)]


@dataclass
class QosTaskMeta:
    """A task as QoS sees it; memory in bytes, bandwidth as a share of the device."""

    id: str
    name: str
    qos_class: QosClass
    memory_request: int
    memory_limit: int
    burst_ratio: float = 1.0
    bandwidth_request: float = 0.0
    bandwidth_limit: float = 1.0
    priority: int = 0

    @staticmethod
    def guaranteed(id: str, name: str, memory: int) -> QosTaskMeta:
        return QosTaskMeta(id, name, QosClass.Guaranteed, memory, memory)

    @staticmethod
    def burstable(id: str, name: str, request: int, burst_ratio: float) -> QosTaskMeta:
        limit = ResourceRequirements.burstable(request, burst_ratio).memory_limit
        return QosTaskMeta(id, name, QosClass.Burstable, request, limit, burst_ratio)

    @staticmethod
    def best_effort(id: str, name: str) -> QosTaskMeta:
        return QosTaskMeta(id, name, QosClass.BestEffort, 0, 0)

    def effective_priority(self) -> int:
        """Its own and the class's."""
        return self.priority + self.qos_class.priority()


def _is(decision: str) -> Callable[[QosEvaluation], bool]:
    return lambda self: self.decision_type == decision


@dataclass(frozen=True)
class QosEvaluation:
    """What was decided for a task. One that is throttled may not grow to its limit."""

    decision_type: str  # "Admit", "Throttle", "Queue" or "Reject"
    qos_class: QosClass
    reserved_memory: int = 0
    reserved_bandwidth: float = 0.0
    reject_reason: str | None = None

    is_admitted, is_throttled = _is("Admit"), _is("Throttle")
    is_queued, is_rejected = _is("Queue"), _is("Reject")


@dataclass
class QosStats:
    """What is reserved; memory in bytes, bandwidth as a share of the device."""

    total_memory: int
    total_bandwidth: float
    guaranteed_memory: int = 0
    guaranteed_bandwidth: float = 0.0
    burstable_memory: int = 0
    best_effort_queue: int = 0

    available_memory = property(
        lambda self: self.total_memory - self.guaranteed_memory - self.burstable_memory
    )
    available_bandwidth = property(
        lambda self: sum_shares((self.total_bandwidth, -self.guaranteed_bandwidth))
    )


class QosPolicyEvaluator(Locked):
    """Decides by class and keeps the reservations, which never pass the totals. Thread safe."""

    def __init__(self, total_memory: int, total_bandwidth: float = 1.0) -> None:
        amount("QosPolicyEvaluator", "total_bandwidth", total_bandwidth)
        self._now = QosStats(total_memory, total_bandwidth)

    def evaluate(self, task: QosTaskMeta) -> QosEvaluation:
        """Decides; reserves nothing.

        Guaranteed reserves its memory limit and what is left of its bandwidth limit. Burstable
        is throttled where its limits do not fit. Best effort waits until something is left.
        """
        now, qos = self._now, task.qos_class
        memory, bandwidth = now.available_memory, now.available_bandwidth
        if qos == QosClass.BestEffort:
            return QosEvaluation("Admit" if memory > 0 and bandwidth > 0 else "Queue", qos)
        guaranteed = qos == QosClass.Guaranteed
        asked = task.memory_limit if guaranteed else task.memory_request
        check_fields(task, bandwidth_request=0.0)
        if asked > memory or task.bandwidth_request > bandwidth:
            wanted = f"asks for {asked} bytes and a bandwidth of {task.bandwidth_request}"
            left = f"{memory} bytes and a bandwidth of {bandwidth} are left"
            return QosEvaluation("Reject", qos, reject_reason=f"{wanted}, {left}")
        if guaranteed:
            given = min(max(task.bandwidth_limit, task.bandwidth_request), bandwidth)
            return QosEvaluation("Admit", qos, asked, given)
        if task.memory_limit > memory or task.bandwidth_limit > bandwidth:
            return QosEvaluation("Throttle", qos)
        return QosEvaluation("Admit", qos, asked)

    def reserve(self, evaluation: QosEvaluation) -> None:
        """Makes the reservation of an evaluation. RuntimeError when it no longer fits."""
        now, memory = self._now, evaluation.reserved_memory
        share = evaluation.reserved_bandwidth
        now.best_effort_queue += evaluation.is_queued()
        if memory > now.available_memory or share > now.available_bandwidth:
            left = f"{now.available_memory} and {now.available_bandwidth} are left"
            raise OperationError(f"reserve: {memory} bytes and a share of {share}, now {left}")
        self._add(evaluation.qos_class, memory, share)

    def _add(self, qos: QosClass, memory: int, bandwidth: float) -> None:
        now = self._now
        if qos == QosClass.Guaranteed:
            now.guaranteed_memory += memory
            now.guaranteed_bandwidth = sum_shares((now.guaranteed_bandwidth, bandwidth))
        elif qos == QosClass.Burstable:
            now.burstable_memory += memory

    def release(self, qos_class: QosClass, memory: int, bandwidth: float = 0.0) -> None:
        """Gives back. Of BestEffort it ends one wait, if there is one."""
        amount("release", "bandwidth", bandwidth)
        now = self._now
        if qos_class == QosClass.BestEffort:
            now.best_effort_queue = max(0, now.best_effort_queue - 1)
            return
        guaranteed = qos_class == QosClass.Guaranteed
        held = now.guaranteed_memory if guaranteed else now.burstable_memory
        if not 0 <= memory <= held or (guaranteed and bandwidth > now.guaranteed_bandwidth):
            what = f"{memory} bytes and a share of {bandwidth}, {qos_class.name}"
            raise InvalidValueError(f"release: {what} holds {held} and {now.guaranteed_bandwidth}")
        self._add(qos_class, -memory, -bandwidth)

    def stats(self) -> QosStats:
        return replace(self._now)

    def reset(self) -> None:
        self._now = QosStats(self._now.total_memory, self._now.total_bandwidth)

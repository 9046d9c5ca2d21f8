"""0.2's evaluator of QoS policies: who could be promised what, as plain arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pygpukit._compat.common import Locked, check_fields, sum_shares
from pygpukit._runtime import QosClass
from pygpukit.core.arguments import amount
from pygpukit.core.errors import InvalidValueError, OperationError

if TYPE_CHECKING:
    from typing_extensions import Self


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
    """What was decided for a task, and why. One that is throttled may not grow to its limit."""

    decision_type: str  # "Admit", "Throttle", "Queue" or "Reject"
    qos_class: QosClass
    reason: str
    reserved_memory: int = 0
    reserved_bandwidth: float = 0.0

    is_admitted, is_throttled = _is("Admit"), _is("Throttle")
    is_queued, is_rejected = _is("Queue"), _is("Reject")
    reject_reason = property(lambda self: self.reason if self.is_rejected() else None)

    def __str__(self) -> str:
        return f"{self.decision_type} ({self.qos_class.name}): {self.reason}"


@dataclass
class QosStats:
    """What is reserved; memory in bytes, bandwidth as a share of the device."""

    total_memory: int
    total_bandwidth: float
    guaranteed_memory: int = 0
    guaranteed_bandwidth: float = 0.0
    burstable_memory: int = 0
    best_effort_queue: int = 0

    @property
    def available_memory(self) -> int:
        """What no task holds."""
        return self.total_memory - self.guaranteed_memory - self.burstable_memory

    @property
    def available_bandwidth(self) -> float:
        """What no guaranteed task holds."""
        return sum_shares((self.total_bandwidth, -self.guaranteed_bandwidth))


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
        now, qos = self.stats(), task.qos_class
        memory, bandwidth = now.available_memory, now.available_bandwidth
        if qos == QosClass.BestEffort:
            if memory > 0 and bandwidth > 0:
                return QosEvaluation("Admit", qos, "reserves nothing")
            return QosEvaluation("Queue", qos, f"no {'bandwidth' if memory else 'memory'} left")
        guaranteed = qos == QosClass.Guaranteed
        asked = task.memory_limit if guaranteed else task.memory_request
        left = f"{memory} bytes and a bandwidth of {bandwidth} left"
        check_fields(task, bandwidth_request=0.0)
        if asked > memory or task.bandwidth_request > bandwidth:
            text = f"asks for {asked} bytes and a bandwidth of {task.bandwidth_request}, {left}"
            return QosEvaluation("Reject", qos, text)
        if guaranteed:
            given = min(max(task.bandwidth_limit, task.bandwidth_request), bandwidth)
            text = f"reserves {asked} bytes and a bandwidth of {given}"
            return QosEvaluation("Admit", qos, text, asked, given)
        if task.memory_limit > memory or task.bandwidth_limit > bandwidth:
            return QosEvaluation("Throttle", qos, f"may grow to {task.memory_limit} bytes, {left}")
        return QosEvaluation("Admit", qos, f"reserves {asked} bytes", asked)

    def reserve(self, evaluation: QosEvaluation) -> None:
        """Makes the reservation of an evaluation. RuntimeError when it no longer fits."""
        now, share = self._now, evaluation.reserved_bandwidth
        now.best_effort_queue += evaluation.is_queued()
        if not evaluation.is_admitted():
            return
        if evaluation.reserved_memory > now.available_memory or share > now.available_bandwidth:
            raise OperationError(
                f"reserve: evaluation reserves {evaluation.reserved_memory} bytes and a "
                f"bandwidth of {share}, now {now.available_memory} and "
                f"{now.available_bandwidth} are left"
            )
        self._add(evaluation.qos_class, evaluation.reserved_memory, share)

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
            raise InvalidValueError(
                f"release: {memory} bytes and a bandwidth of {bandwidth} of class "
                f"{qos_class.name}, which holds {held} and {now.guaranteed_bandwidth}"
            )
        self._add(qos_class, -memory, -bandwidth)

    def stats(self) -> QosStats:
        return replace(self._now)

    def reset(self) -> None:
        """Forgets all reservations."""
        self._now = QosStats(self._now.total_memory, self._now.total_bandwidth)

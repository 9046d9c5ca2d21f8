"""0.2's evaluator of QoS policies: who could be promised what, as plain arithmetic."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass, replace

from pygpukit._runtime import QosClass
from pygpukit.core.errors import InvalidValueError, OperationError

_DIGITS = 9  # of a share: sums are rounded, so that what comes back brings them to zero


def _share(value: float, what: str) -> float:
    if not (value >= 0.0 and math.isfinite(value)):
        raise InvalidValueError(f"{what} is {value}, expected a share of 0 or more")
    return value


@dataclass(init=False)
class ResourceRequirements:
    """What a task needs (request) and what it may grow to (limit)."""

    memory_request: int
    memory_limit: int
    bandwidth_request: float
    bandwidth_limit: float

    def __init__(
        self,
        memory_request: int,
        memory_limit: int | None = None,  # None: the request
        bandwidth_request: float = 0.0,
        bandwidth_limit: float = 1.0,
    ) -> None:
        self.memory_request = memory_request
        self.memory_limit = memory_request if memory_limit is None else memory_limit
        self.bandwidth_request = _share(
            bandwidth_request, "ResourceRequirements: bandwidth_request"
        )
        self.bandwidth_limit = _share(bandwidth_limit, "ResourceRequirements: bandwidth_limit")
        if not 0 <= memory_request <= self.memory_limit or bandwidth_request > bandwidth_limit:
            raise InvalidValueError(
                f"ResourceRequirements: requests are {memory_request} bytes and a bandwidth of "
                f"{bandwidth_request}, limits {memory_limit} and {bandwidth_limit}, expected "
                "0 <= request <= limit"
            )

    @staticmethod
    def guaranteed(memory: int) -> ResourceRequirements:
        """Limit and request are the same."""
        return ResourceRequirements(memory)

    @staticmethod
    def burstable(request: int, ratio: float) -> ResourceRequirements:
        """The limit is request * ratio."""
        if not 1.0 <= ratio < math.inf:
            raise InvalidValueError(
                f"ResourceRequirements: burst ratio is {ratio}, expected at least 1"
            )
        return ResourceRequirements(request, int(request * ratio))

    @staticmethod
    def best_effort() -> ResourceRequirements:
        """Nothing is asked for."""
        return ResourceRequirements(0)


@dataclass(frozen=True)
class QosPolicy:
    """A class with its requirements."""

    qos_class: QosClass
    requirements: ResourceRequirements

    @staticmethod
    def guaranteed(memory: int) -> QosPolicy:
        """Reserves its limit."""
        return QosPolicy(QosClass.Guaranteed, ResourceRequirements.guaranteed(memory))

    @staticmethod
    def burstable(request: int, ratio: float) -> QosPolicy:
        """Reserves its request."""
        return QosPolicy(QosClass.Burstable, ResourceRequirements.burstable(request, ratio))

    @staticmethod
    def best_effort() -> QosPolicy:
        """Reserves nothing."""
        return QosPolicy(QosClass.BestEffort, ResourceRequirements.best_effort())

    def memory_to_reserve(self) -> int:
        """Bytes."""
        needs = self.requirements
        if self.qos_class == QosClass.Guaranteed:
            return needs.memory_limit
        return needs.memory_request if self.qos_class == QosClass.Burstable else 0

    def bandwidth_to_reserve(self) -> float:
        """Share of the device."""
        needs = self.requirements
        if self.qos_class == QosClass.Guaranteed:
            return needs.bandwidth_limit
        return needs.bandwidth_request if self.qos_class == QosClass.Burstable else 0.0


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
        """A guaranteed task."""
        return QosTaskMeta(id, name, QosClass.Guaranteed, memory, memory)

    @staticmethod
    def burstable(id: str, name: str, request: int, burst_ratio: float) -> QosTaskMeta:
        """A burstable task."""
        limit = ResourceRequirements.burstable(request, burst_ratio).memory_limit
        return QosTaskMeta(id, name, QosClass.Burstable, request, limit, burst_ratio)

    @staticmethod
    def best_effort(id: str, name: str) -> QosTaskMeta:
        """A best-effort task."""
        return QosTaskMeta(id, name, QosClass.BestEffort, 0, 0)

    def effective_priority(self) -> int:
        """Its own and the class's."""
        return self.priority + self.qos_class.priority()


@dataclass(frozen=True)
class QosEvaluation:
    """What was decided for a task, and why."""

    decision_type: str  # "Admit", "Throttle", "Queue" or "Reject"
    qos_class: QosClass
    reason: str
    reserved_memory: int = 0
    reserved_bandwidth: float = 0.0

    def is_admitted(self) -> bool:
        """It may run as promised."""
        return self.decision_type == "Admit"

    def is_throttled(self) -> bool:
        """It may run, but not grow to its limit."""
        return self.decision_type == "Throttle"

    def is_queued(self) -> bool:
        """It waits."""
        return self.decision_type == "Queue"

    def is_rejected(self) -> bool:
        """It was rejected."""
        return self.decision_type == "Reject"

    @property
    def reject_reason(self) -> str | None:
        """Why it was rejected, or None."""
        return self.reason if self.is_rejected() else None

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
        return round(self.total_bandwidth - self.guaranteed_bandwidth, _DIGITS)


class QosPolicyEvaluator:
    """Decides by class and keeps the reservations, which never pass the totals. Thread safe."""

    def __init__(self, total_memory: int, total_bandwidth: float = 1.0) -> None:
        _share(total_bandwidth, "QosPolicyEvaluator: total_bandwidth")
        self._now = QosStats(total_memory, total_bandwidth)
        self._lock = threading.Lock()

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
        if asked > memory or _share(task.bandwidth_request, "bandwidth_request") > bandwidth:
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
        with self._lock:
            now, share = self._now, evaluation.reserved_bandwidth
            if evaluation.is_queued():
                now.best_effort_queue += 1
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
            now.guaranteed_bandwidth = round(now.guaranteed_bandwidth + bandwidth, _DIGITS)
        elif qos == QosClass.Burstable:
            now.burstable_memory += memory

    def release(self, qos_class: QosClass, memory: int, bandwidth: float = 0.0) -> None:
        """Gives back. Of BestEffort it ends one wait, if there is one."""
        _share(bandwidth, "release: bandwidth")
        with self._lock:
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
        """The figures now."""
        with self._lock:
            return replace(self._now)

    def reset(self) -> None:
        """Forgets all reservations."""
        with self._lock:
            self._now = QosStats(self._now.total_memory, self._now.total_bandwidth)


__all__ = [
    "QosEvaluation",
    "QosPolicy",
    "QosPolicyEvaluator",
    "QosStats",
    "QosTaskMeta",
    "ResourceRequirements",
]

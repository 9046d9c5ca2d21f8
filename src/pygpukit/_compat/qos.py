"""0.2's evaluator of QoS policies: who could be promised what, as plain arithmetic."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass

from pygpukit._runtime import QosClass
from pygpukit.core.errors import InvalidValueError, OperationError

_PPB = 1_000_000_000  # shares are summed as integers, so that what comes back brings them to zero


def _share(value: float, what: str) -> int:
    if not (value >= 0.0 and math.isfinite(value)):
        raise InvalidValueError(f"{what} is {value}, expected a share of 0 or more")
    return round(value * _PPB)


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
        self.bandwidth_request = bandwidth_request
        self.bandwidth_limit = bandwidth_limit
        if not 0 <= self.memory_request <= self.memory_limit:
            raise InvalidValueError(
                f"ResourceRequirements: memory_request is {self.memory_request}, memory_limit "
                f"{self.memory_limit}, expected 0 <= request <= limit"
            )
        request = _share(self.bandwidth_request, "ResourceRequirements: bandwidth_request")
        if request > _share(self.bandwidth_limit, "ResourceRequirements: bandwidth_limit"):
            raise InvalidValueError(
                f"ResourceRequirements: bandwidth_limit is {self.bandwidth_limit}, expected at "
                f"least bandwidth_request {self.bandwidth_request}"
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
    """A task as QoS sees it."""

    id: str
    name: str
    policy: QosPolicy
    burst_ratio: float = 1.0
    priority: int = 0

    @staticmethod
    def guaranteed(id: str, name: str, memory: int) -> QosTaskMeta:
        """A guaranteed task."""
        return QosTaskMeta(id, name, QosPolicy.guaranteed(memory))

    @staticmethod
    def burstable(id: str, name: str, request: int, burst_ratio: float) -> QosTaskMeta:
        """A burstable task."""
        return QosTaskMeta(id, name, QosPolicy.burstable(request, burst_ratio), burst_ratio)

    @staticmethod
    def best_effort(id: str, name: str) -> QosTaskMeta:
        """A best-effort task."""
        return QosTaskMeta(id, name, QosPolicy.best_effort())

    @property
    def qos_class(self) -> QosClass:
        """The class."""
        return self.policy.qos_class

    @property
    def memory_request(self) -> int:
        """Bytes."""
        return self.policy.requirements.memory_request

    @property
    def memory_limit(self) -> int:
        """Bytes."""
        return self.policy.requirements.memory_limit

    @property
    def bandwidth_request(self) -> float:
        """Share of the device."""
        return self.policy.requirements.bandwidth_request

    @bandwidth_request.setter
    def bandwidth_request(self, share: float) -> None:
        _share(share, "QosTaskMeta: bandwidth_request")
        needs = self.policy.requirements
        needs.bandwidth_request = share
        needs.bandwidth_limit = max(needs.bandwidth_limit, share)

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
        """It was turned away."""
        return self.decision_type == "Reject"

    @property
    def reject_reason(self) -> str | None:
        """Why it was turned away, or None."""
        return self.reason if self.is_rejected() else None

    def __str__(self) -> str:
        return f"{self.decision_type} ({self.qos_class.name}): {self.reason}"


@dataclass(frozen=True)
class QosStats:
    """What is reserved now; memory in bytes, bandwidth as a share of the device."""

    total_memory: int
    total_bandwidth: float
    guaranteed_memory: int
    guaranteed_bandwidth: float
    burstable_memory: int
    best_effort_queue: int
    available_memory: int
    available_bandwidth: float


@dataclass
class _Held:
    guaranteed: int = 0
    burstable: int = 0
    share: int = 0
    queued: int = 0


class QosPolicyEvaluator:
    """Decides by class and keeps the reservations, which never pass the totals. Thread safe."""

    def __init__(self, total_memory: int, total_bandwidth: float = 1.0) -> None:
        self._total = total_memory
        self._total_share = _share(total_bandwidth, "QosPolicyEvaluator: total_bandwidth")
        self._lock = threading.Lock()
        self._held = _Held()

    def _left(self) -> tuple[int, int]:
        held = self._held
        return self._total - held.guaranteed - held.burstable, self._total_share - held.share

    def evaluate(self, task: QosTaskMeta) -> QosEvaluation:
        """Decides; reserves nothing.

        Guaranteed reserves its memory limit and what is left of its bandwidth limit. Burstable
        is throttled where its limits do not fit. Best effort waits until something is left.
        """
        with self._lock:
            memory, share = self._left()
        qos, needs = task.qos_class, task.policy.requirements
        if qos == QosClass.BestEffort:
            if memory > 0 and share > 0:
                return QosEvaluation("Admit", qos, "reserves nothing")
            return QosEvaluation("Queue", qos, f"no {'bandwidth' if memory else 'memory'} left")
        asked = task.policy.memory_to_reserve()
        if asked > memory:
            text = f"asks for {asked} bytes, {memory} left"
            return QosEvaluation("Reject", qos, text)
        if _share(needs.bandwidth_request, "QosTaskMeta: bandwidth_request") > share:
            text = f"asks for a bandwidth of {needs.bandwidth_request}, {share / _PPB} left"
            return QosEvaluation("Reject", qos, text)
        limit = _share(needs.bandwidth_limit, "QosTaskMeta: bandwidth_limit")
        if qos == QosClass.Guaranteed:
            given = min(limit, share) / _PPB
            text = f"reserves {asked} bytes and a bandwidth of {given}"
            return QosEvaluation("Admit", qos, text, asked, given)
        if needs.memory_limit > memory or limit > share:
            text = (
                f"may grow to {needs.memory_limit} bytes and a bandwidth of "
                f"{needs.bandwidth_limit}, {memory} and {share / _PPB} left"
            )
            return QosEvaluation("Throttle", qos, text)
        return QosEvaluation("Admit", qos, f"reserves {asked} bytes", asked)

    def reserve(self, evaluation: QosEvaluation) -> None:
        """Makes the reservation of an evaluation. RuntimeError when it no longer fits."""
        with self._lock:
            if evaluation.is_queued():
                self._held.queued += 1
            if not evaluation.is_admitted():
                return
            memory, left = self._left()
            share = round(evaluation.reserved_bandwidth * _PPB)
            if evaluation.reserved_memory > memory or share > left:
                raise OperationError(
                    f"reserve: evaluation reserves {evaluation.reserved_memory} bytes and a "
                    f"bandwidth of {evaluation.reserved_bandwidth}, now {memory} and "
                    f"{left / _PPB} are left"
                )
            self._add(evaluation.qos_class, evaluation.reserved_memory, share)

    def _add(self, qos: QosClass, memory: int, share: int) -> None:
        if qos == QosClass.Guaranteed:
            self._held.guaranteed += memory
            self._held.share += share
        elif qos == QosClass.Burstable:
            self._held.burstable += memory

    def release(self, qos_class: QosClass, memory: int, bandwidth: float = 0.0) -> None:
        """Gives back. Of BestEffort it ends one wait, if there is one."""
        share = _share(bandwidth, "release: bandwidth")
        with self._lock:
            held = self._held
            if qos_class == QosClass.BestEffort:
                held.queued = max(0, held.queued - 1)
                return
            guaranteed = qos_class == QosClass.Guaranteed
            most = held.guaranteed if guaranteed else held.burstable
            if not 0 <= memory <= most or (guaranteed and share > held.share):
                raise InvalidValueError(
                    f"release: {memory} bytes and a bandwidth of {bandwidth} of class "
                    f"{qos_class.name}, which holds {most} and {held.share / _PPB}"
                )
            self._add(qos_class, -memory, -share)

    def stats(self) -> QosStats:
        """The figures now."""
        with self._lock:
            memory, share = self._left()
            held = self._held
            return QosStats(
                total_memory=self._total,
                total_bandwidth=self._total_share / _PPB,
                guaranteed_memory=held.guaranteed,
                guaranteed_bandwidth=held.share / _PPB,
                burstable_memory=held.burstable,
                best_effort_queue=held.queued,
                available_memory=memory,
                available_bandwidth=share / _PPB,
            )

    def reset(self) -> None:
        """Forgets all reservations."""
        with self._lock:
            self._held = _Held()


__all__ = [
    "QosEvaluation",
    "QosPolicy",
    "QosPolicyEvaluator",
    "QosStats",
    "QosTaskMeta",
    "ResourceRequirements",
]

"""Partitions: parts of a device whose limits are enforced.

>>> p = gp.scheduler.partition("batch", compute=0.25, memory="8GiB", qos="best_effort")
>>> with p:                       # this thread works in the partition
...     y = model(x)
>>> gp.scheduler.submit(train, partition="batch")    # a task runs in it
>>> print(p.report())
>>> p.close()
"""

from __future__ import annotations

import math
import re
import threading
import weakref
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from pygpukit import _native
from pygpukit.core.arguments import amount, is_whole, whole
from pygpukit.core.errors import InvalidTypeError, InvalidValueError

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY_UNITS = {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


def memory_bytes(memory: int | float | str | None, total: int) -> int:
    """Bytes from a count, a fraction of `total` (a float, or "50%") or a string like "8GiB"."""
    if memory is None:
        return 0
    size: float
    if isinstance(memory, str):
        match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(%|[kmgt]?i?b?)\s*", memory.lower())
        unit = match.group(2).removesuffix("b") if match else "?"
        scale = {**_UNITS, **_BINARY_UNITS, "%": total / 100}.get(unit)
        if match is None or scale is None:
            raise InvalidValueError(
                f"partition: memory is {_native.safe_repr(memory)}, "
                "expected bytes, a fraction or a string such as "
                "'8GiB' or '50%'"
            )
        size = float(match.group(1)) * scale
    elif is_whole(memory):
        size = whole("partition", "memory", memory, 1)
    else:
        share = amount("partition", "memory", memory, -math.inf)
        if not 0 < share <= 1:
            raise InvalidValueError(
                f"partition: memory is {share}, expected a fraction above 0 and at most 1 "
                "(bytes are an int)"
            )
        size = share * total
    if size < 1:
        raise InvalidValueError(
            f"partition: memory is {_native.safe_repr(memory)}, expected at least one byte"
        )
    return int(size)


@dataclass(frozen=True)
class LimitReport:
    """One limit of a partition: what was requested and what is in force.

    `hard` limits cannot be exceeded. The others are cooperative: they apply to work that this
    library submits, within a tolerance.
    """

    asked: float | int | None  # None: not limited
    given: float | int | None
    how: str
    hard: bool
    granule: float | int | None = None  # `given` is a multiple of this, apart from the remainder
    used: float | int | None = None
    note: str = ""


@dataclass(frozen=True)
class PartitionReport:
    """What a partition requested, was granted and used. str() is a table."""

    name: str
    device: str
    qos: str
    compute: LimitReport  # shares of the multiprocessors
    memory: LimitReport  # bytes
    bandwidth: LimitReport  # shares of the link to the host; used: bytes
    streams: LimitReport
    given_sms: int  # 0: no exclusive multiprocessors
    total_sms: int
    memory_peak: int
    memory_refused: int  # allocations refused
    stream_priority: int  # the driver's value: lower is more urgent
    eviction_rank: int  # 0 is evicted first
    launches: int
    launches_held: int  # that waited for work of a higher class
    held_s: float
    window_limit: int  # launches in flight per stream; 0: unbounded
    window_waits: int
    window_wait_s: float

    def __str__(self) -> str:
        lines = [f"partition {self.name} on {self.device}, {self.qos}"]
        for name in ("compute", "memory", "bandwidth", "streams"):
            limit: LimitReport = getattr(self, name)
            if limit.asked is None:
                lines.append(f"  {name:<10} not limited")
                continue
            kind = "hard" if limit.hard else "cooperative"
            text = (
                f"  {name:<10} asked {limit.asked:g}, given {limit.given:g} ({limit.how}, {kind})"
            )
            if name == "compute" and self.given_sms:
                text += f": {self.given_sms} of {self.total_sms} SMs"
            if limit.granule:
                text += f", granule {limit.granule:g}"
            if limit.used is not None:
                text += f", used {limit.used:g}"
            lines.append(f"{text}; {limit.note}" if limit.note else text)
        return "\n".join(lines)


def _report(facts: dict[str, Any]) -> PartitionReport:
    def asked(name: str) -> Any:
        return facts[name] or None

    green = facts["compute_how"] == "green context"
    granule = facts["granule_sms"] / facts["total_sms"] if green else None
    return PartitionReport(
        name=facts["name"],
        device=facts["device"],
        qos=facts["qos"],
        compute=LimitReport(
            asked("compute_asked"),
            asked("compute_given"),
            facts["compute_how"],
            green,
            granule=granule,
            used=facts["paced_s"] if facts["compute_how"] == "pacing" else None,
            note=facts["compute_note"],
        ),
        memory=LimitReport(
            asked("memory_limit"),
            asked("memory_limit"),
            "account of the pool",
            True,
            granule=1,
            used=facts["memory_used"],
        ),
        bandwidth=LimitReport(
            asked("bandwidth_asked"),
            asked("bandwidth_asked"),
            "pacing",
            False,
            used=facts["bandwidth_bytes"],
            note="a share while others want theirs; for copies through the transfer engine",
        ),
        streams=LimitReport(
            facts["max_streams"],
            facts["max_streams"],
            "count",
            True,
            granule=1,
            used=facts["open_streams"],
        ),
        given_sms=facts["given_sms"],
        total_sms=facts["total_sms"],
        memory_peak=facts["memory_peak"],
        memory_refused=facts["memory_refused"],
        stream_priority=facts["stream_priority"],
        eviction_rank=facts["eviction_rank"],
        launches=facts["launches"],
        launches_held=facts["launches_held"],
        held_s=facts["held_s"],
        window_limit=facts["window_limit"],
        window_waits=facts["window_waits"],
        window_wait_s=facts["window_wait_s"],
    )


_lock = threading.Lock()
_made: weakref.WeakSet[DevicePartition] = weakref.WeakSet()


def open_partitions() -> list[DevicePartition]:
    """Those that are not closed, by name."""
    with _lock:
        made = list(_made)
    return sorted((p for p in made if not p.closed), key=lambda p: (p.device, p.name))


def find_partition(
    wanted: str | DevicePartition, device: str, op: str = "submit"
) -> DevicePartition:
    """An open partition of `device`, by name or passed through."""
    there = [p for p in open_partitions() if p.device == device]
    for found in there:
        if found is wanted or found.name == wanted:
            return found
    names = ", ".join(p.name for p in there) or "none"
    raise InvalidValueError(
        f"{op}: partition is {_native.safe_repr(wanted)}, open on {device}: {names}"
    )


class DevicePartition:
    """A partition of a device. ``with partition:`` makes the calling thread work in it.

    Inside, the thread's current stream is one of the partition: its launches run on the
    partition's multiprocessors, its allocations are charged to its memory, its copies use
    its share of the link. Several threads may be inside at once, each on its own stream.
    """

    def __init__(self, native: _native.DevicePartition) -> None:
        if not isinstance(native, _native.DevicePartition):
            raise InvalidTypeError(
                f"DevicePartition: native is of type {type(native).__name__}, expected what "
                "partition() makes"
            )
        self._native = native
        with _lock:
            _made.add(self)

    @property
    def name(self) -> str:
        """Its name, unique among the open partitions of the device."""
        return self._native.name

    @property
    def device(self) -> str:
        """Where it is: "cuda:0" or "cpu"."""
        return self._native.device

    @property
    def qos(self) -> str:
        """Its class: "guaranteed", "burstable" or "best_effort"."""
        return self._native.qos

    @property
    def native(self) -> _native.DevicePartition:
        """The C++ partition behind this one."""
        return self._native

    @property
    def closed(self) -> bool:
        """True when everything has been released."""
        return self._native.closed

    def __enter__(self) -> DevicePartition:
        self._native.enter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._native.leave()

    def report(self) -> PartitionReport:
        """What was requested, what was granted, and what is hard or cooperative."""
        return _report(self._native.report())

    def facts(self) -> dict[str, Any]:
        """The raw figures of report(); does not trigger the division of multiprocessors."""
        return self._native.report(divide=False)

    def close(self) -> None:
        """Waits for its work and releases everything.

        RuntimeError, with nothing changed, while a thread is inside, arrays created in it live, or
        tasks of it run or hold memory.
        """
        self._native.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else "open"
        return f"DevicePartition({self.name!r}, device={self.device!r}, {state})"


def partition(
    name: str,
    *,
    compute: float | None = None,
    memory: int | float | str | None = None,
    bandwidth: float | None = None,
    max_streams: int = 16,
    qos: str = "burstable",
    device: str | int | None = None,
) -> DevicePartition:
    """Creates a partition. None means not limited.

    - `compute`: share of the multiprocessors. Partitions created before the first one is used are
      divided together, which comes closest to the shares.
    - `memory`: bytes, a fraction (float) of the device's memory, or a string such as "8GiB".
    - `bandwidth`: share of the link between host and device under contention.
    - `qos`: "guaranteed" and "burstable" work goes before "best_effort" work, which is held
      back while there is any on the device, and never has more than a few launches in flight.

    RuntimeError when more is requested than is left, ValueError for a name in use.
    """
    total = _native.memory_info(device)[1]
    for what, share in (("compute", compute), ("bandwidth", bandwidth)):
        if share is None:
            continue
        given = f"partition: {what} of {name!r} is {_native.safe_repr(share)}"
        try:
            fits = bool(0 < share <= 1)
        except (TypeError, ValueError):
            raise InvalidTypeError(f"{given}, expected a number") from None
        if not fits:
            raise InvalidValueError(f"{given}, expected a share above 0 and at most 1")
    return DevicePartition(
        _native.DevicePartition(
            name,
            compute=compute or 0.0,
            memory=memory_bytes(memory, total),
            bandwidth=bandwidth or 0.0,
            max_streams=max_streams,
            qos=qos,
            device=device,
        )
    )


__all__ = [
    "DevicePartition",
    "LimitReport",
    "PartitionReport",
    "find_partition",
    "memory_bytes",
    "open_partitions",
    "partition",
]

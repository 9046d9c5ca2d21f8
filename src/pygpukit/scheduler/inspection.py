"""Snapshots of a scheduler, as data and as a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit._cli.terminal import human_bytes
from pygpukit.core.errors import InvalidTypeError
from pygpukit.scheduler.partition import DevicePartition, open_partitions

if TYPE_CHECKING:
    from pygpukit._runtime import Scheduler as NativeScheduler
    from pygpukit._runtime import SchedulerSnapshot, TaskInfo

UNLIMITED = 2**64 - 1
_MAX_ROWS = 20


@dataclass(frozen=True)
class TaskSummary:
    """A task that has not ended; times in seconds, memory in bytes."""

    id: int
    name: str
    state: str
    qos: str
    priority: int
    partition: str
    memory: int
    reserved_memory: int
    wait_time: float
    exec_time: float
    reason: str


@dataclass(frozen=True)
class ReservationSummary:
    """The reservations of one partition's tasks; memory in bytes."""

    partition: str
    reserved: int
    available: int
    capacity: int
    task_count: int
    queued_count: int


@dataclass(frozen=True)
class PartitionSummary:
    """An open partition: what it was granted and what it uses."""

    name: str
    device: str
    qos: str
    compute_share: float  # granted; 0: not limited
    compute_how: str
    sms: int  # exclusive; 0: none
    total_sms: int
    memory_limit: int  # 0: not limited
    memory_used: int
    memory_peak: int
    refused_count: int
    bandwidth_share: float  # requested; 0: not limited
    copied_bytes: int
    streams: int
    launches: int
    launches_held: int
    held_time: float


@dataclass(frozen=True)
class TransferSummary:
    """The copies of one direction through the transfer engine, and how fast they were."""

    direction: str  # "h2d", "d2h" or "d2d"
    rate: float  # bytes per second while any was in flight: the measured link rate
    copied_bytes: int
    in_flight_bytes: int
    queued_count: int
    completed_count: int
    failed_count: int
    cancelled_count: int
    busy_time: float
    max_wait_time: float


@dataclass(frozen=True)
class MemorySummary:
    """Use of the device's memory; bytes."""

    device: str
    total: int
    used: int
    cached: int
    peak: int
    limit: int
    evicted: int = 0


@dataclass(frozen=True)
class Snapshot:
    """A snapshot of a scheduler. `counts` is by state; `tasks` are those that have not ended."""

    time: float
    device: str
    policy: str
    counts: dict[str, int]
    tasks: list[TaskSummary]
    reservations: list[ReservationSummary]
    partitions: list[PartitionSummary]
    memory: MemorySummary
    reserved_memory: int
    available_memory: int
    reserved_bandwidth: float
    available_bandwidth: float
    avg_wait_time: float
    avg_exec_time: float
    missed_deadlines: int
    workers: int
    streams_in_use: int
    max_streams: int
    sections: dict[str, dict[str, Any]] = field(default_factory=dict)
    transfers: list[TransferSummary] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, suitable for JSON."""
        return asdict(self)

    @staticmethod
    def from_dict(data: dict[str, Any]) -> Snapshot:
        """The inverse of to_dict()."""
        known = {entry.name for entry in fields(Snapshot)}
        rest = {name: value for name, value in data.items() if name in known}
        rest["tasks"] = [TaskSummary(**row) for row in data["tasks"]]
        rest["reservations"] = [ReservationSummary(**row) for row in data["reservations"]]
        rest["partitions"] = [PartitionSummary(**row) for row in data["partitions"]]
        rest["memory"] = MemorySummary(**data["memory"])
        rest["transfers"] = [TransferSummary(**row) for row in data.get("transfers", [])]
        return Snapshot(**rest)

    def __str__(self) -> str:
        return render(self)


_sources: dict[str, Callable[[], dict[str, Any]]] = {}


def add_section(name: str, source: Callable[[], dict[str, Any]]) -> None:
    """Adds `source()` (a dict of plain data) to every later snapshot as sections[name].

    Where it raises, or returns something else, the section is {"error": message}.
    """
    if not isinstance(name, str):
        raise InvalidTypeError(f"add_section: name is of type {type(name).__name__}, expected str")
    if not callable(source):
        raise InvalidTypeError(
            f"add_section: source is of type {type(source).__name__}, expected a function"
        )
    _sources[name] = source


def _section_data(source: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    try:
        data: Any = source()
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    if not isinstance(data, dict):
        return {"error": f"source returned a {type(data).__name__}, expected a dict"}
    return dict(data)


def take_snapshot(native: NativeScheduler, workers: int) -> Snapshot:
    """The native snapshot, completed with device and section data."""
    now = native.snapshot()
    stats = now.stats
    reasons = {entry.id: entry.reason for entry in now.queue}
    order = {entry.id: entry.position for entry in now.queue}
    live = [info for info in now.tasks if not info.is_terminal]
    live.sort(key=lambda info: (order.get(info.id, -1), info.id))
    return Snapshot(
        time=now.time,
        device=native.device,
        policy=now.policy,
        counts=_counts(now),
        tasks=[_task(info, reasons.get(info.id, info.reason)) for info in live],
        reservations=[
            ReservationSummary(
                r.account, r.reserved, r.available, r.capacity, r.task_count, r.queued_count
            )
            for r in now.reservations
        ],
        partitions=[_partition(p) for p in open_partitions()],
        memory=_memory(native.device),
        reserved_memory=stats.reserved_memory,
        available_memory=stats.available_memory,
        reserved_bandwidth=stats.reserved_bandwidth,
        available_bandwidth=stats.available_bandwidth,
        avg_wait_time=stats.avg_wait_time,
        avg_exec_time=stats.avg_exec_time,
        missed_deadlines=stats.num_missed_deadlines,
        workers=workers,
        streams_in_use=native.streams_in_use,
        max_streams=native.max_streams,
        sections={name: _section_data(source) for name, source in list(_sources.items())},
        transfers=_transfers(native.device),
    )


def _counts(now: SchedulerSnapshot) -> dict[str, int]:
    stats = now.stats
    counts = dict.fromkeys(("pending", "queued", "admitted"), 0)
    for entry in now.queue:
        counts[entry.state] += 1
    counts["running"] = stats.running_count
    counts["completed"] = stats.completed_count
    counts["failed"] = stats.failed_count
    counts["cancelled"] = stats.cancelled_count
    return counts


def _task(info: TaskInfo, reason: str) -> TaskSummary:
    return TaskSummary(
        id=info.id,
        name=info.name,
        state=info.state,
        qos=info.qos.name,
        priority=info.priority,
        partition=info.account,
        memory=info.memory,
        reserved_memory=info.reserved_memory,
        wait_time=info.wait_time,
        exec_time=info.exec_time,
        reason=reason,
    )


def _partition(p: DevicePartition) -> PartitionSummary:
    facts = p.facts()
    return PartitionSummary(
        name=facts["name"],
        device=facts["device"],
        qos=facts["qos"],
        compute_share=facts["compute_given"],
        compute_how=facts["compute_how"],
        sms=facts["given_sms"],
        total_sms=facts["total_sms"],
        memory_limit=facts["memory_limit"],
        memory_used=facts["memory_used"],
        memory_peak=facts["memory_peak"],
        refused_count=facts["memory_refused"],
        bandwidth_share=facts["bandwidth_asked"],
        copied_bytes=int(facts["bandwidth_bytes"]),
        streams=facts["open_streams"],
        launches=facts["launches"],
        launches_held=facts["launches_held"],
        held_time=facts["held_s"],
    )


def _transfers(device: str) -> list[TransferSummary]:
    return [
        TransferSummary(
            direction=direction,
            rate=facts["gb_s"] * 1e9,
            copied_bytes=facts["bytes"],
            in_flight_bytes=facts["in_flight_bytes"],
            queued_count=facts["queue_depth"],
            completed_count=facts["completed"],
            failed_count=facts["failed"],
            cancelled_count=facts["cancelled"],
            busy_time=facts["busy_s"],
            max_wait_time=facts["max_wait_s"],
        )
        for direction, facts in _native.transfer_stats(device).items()
        if facts["submitted"]
    ]


def _memory(device: str) -> MemorySummary:
    stats = _native.memory_stats(device)
    return MemorySummary(
        device=device,
        total=_native.device_traits(device)["total_memory"],
        used=stats["used"],
        cached=stats["cached"],
        peak=stats["peak_used"],
        limit=stats["limit"],
        evicted=stats["evicted"],
    )


# --- text ---------------------------------------------------------------------------------------


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns as wide as their widest cell; the first row is the header."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        lines.append("  ".join(cells).rstrip())
    return lines


def size_text(size: int) -> str:
    """Bytes as readable text."""
    return "unlimited" if size == UNLIMITED else human_bytes(size)


def time_text(seconds: float) -> str:
    """0.0015 as "1.50 ms"."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} us"
    if seconds < 1.0:
        return f"{seconds * 1e3:.2f} ms"
    return f"{seconds:.2f} s"


def bar(fraction: float, width: int = 20) -> str:
    """[#####...............]"""
    filled = round(width * min(max(fraction, 0.0), 1.0))
    return f"[{'#' * filled}{'.' * (width - filled)}]"


def render(snapshot: Snapshot) -> str:
    """The snapshot as text."""
    counts = ", ".join(f"{count} {state}" for state, count in snapshot.counts.items() if count)
    memory = snapshot.memory
    share = memory.used / memory.total if memory.total else 0.0
    wait, run = time_text(snapshot.avg_wait_time), time_text(snapshot.avg_exec_time)
    reserved, left = size_text(snapshot.reserved_memory), size_text(snapshot.available_memory)
    used, cached, total = (size_text(n) for n in (memory.used, memory.cached, memory.total))
    cached += " cached"
    if memory.evicted:
        cached += f", {size_text(memory.evicted)} evicted"
    missed = snapshot.missed_deadlines
    streams = f"{snapshot.streams_in_use} of {snapshot.max_streams} in use"
    lines = [
        f"tasks       {counts or 'none'}; order {snapshot.policy}",
        f"times       wait {wait}, run {run} on average; {missed} missed deadlines",
        f"reserved    {reserved}, {left} left; bandwidth {snapshot.reserved_bandwidth:.0%}",
        f"memory      {bar(share)} {used} used, {cached}, {total} on {memory.device}",
        f"streams     {streams}, {snapshot.workers} workers",
    ]
    lines += _section("partitions", _partition_rows(snapshot.partitions))
    lines += _section("transfers", _transfer_rows(snapshot.transfers))
    lines += _section("reservations", _reservation_rows(snapshot.reservations))
    lines += _section("tasks", _task_rows(snapshot.tasks))
    hidden = len(snapshot.tasks) - _MAX_ROWS
    if hidden > 0:
        lines.append(f"... and {hidden} more")
    for name, data in snapshot.sections.items():
        lines += ["", name, *(f"  {key}  {value}" for key, value in data.items())]
    return "\n".join(lines)


def _section(title: str, rows: list[list[str]]) -> list[str]:
    return ["", title, *(f"  {line}" for line in table(rows))] if len(rows) > 1 else []


def _partition_rows(partitions: Iterable[PartitionSummary]) -> list[list[str]]:
    head = ["name", "class", "compute", "memory", "link", "copied", "streams", "launches", "held"]
    return [head, *(_partition_row(p) for p in partitions)]


def _partition_row(p: PartitionSummary) -> list[str]:
    compute = f"{p.compute_share:.0%}" if p.compute_share else "-"
    if p.sms:
        compute = f"{p.sms} of {p.total_sms} SMs"
    limit = size_text(p.memory_limit) if p.memory_limit else "no limit"
    return [
        p.name,
        p.qos,
        compute,
        f"{size_text(p.memory_used)} / {limit}",
        f"{p.bandwidth_share:.0%}" if p.bandwidth_share else "-",
        size_text(p.copied_bytes),
        str(p.streams),
        str(p.launches),
        f"{p.launches_held}, {time_text(p.held_time)}" if p.launches_held else "-",
    ]


_DIRECTIONS = {"h2d": "to the device", "d2h": "to the host", "d2d": "on the device"}


def _transfer_rows(transfers: Iterable[TransferSummary]) -> list[list[str]]:
    head = ["direction", "rate", "copied", "in flight", "queued", "done", "failed", "longest wait"]
    return [head, *(_transfer_row(t) for t in transfers)]


def _transfer_row(t: TransferSummary) -> list[str]:
    return [
        _DIRECTIONS.get(t.direction, t.direction),
        f"{t.rate / 1e9:.1f} GB/s" if t.copied_bytes else "-",
        size_text(t.copied_bytes),
        size_text(t.in_flight_bytes),
        str(t.queued_count),
        str(t.completed_count),
        str(t.failed_count),
        time_text(t.max_wait_time),
    ]


def _reservation_rows(reservations: Iterable[ReservationSummary]) -> list[list[str]]:
    head = ["partition", "reserved", "left", "of", "tasks", "queued"]
    return [head, *(_reservation_row(r) for r in reservations)]


def _reservation_row(r: ReservationSummary) -> list[str]:
    sizes = [size_text(size) for size in (r.reserved, r.available, r.capacity)]
    return [r.partition or "-", *sizes, str(r.task_count), str(r.queued_count)]


def _task_rows(tasks: Sequence[TaskSummary]) -> list[list[str]]:
    head = ["id", "name", "state", "class", "priority", "memory", "waited", "ran", "reason"]
    return [head, *(_task_row(t) for t in tasks[:_MAX_ROWS])]


def _task_row(t: TaskSummary) -> list[str]:
    ran = time_text(t.exec_time) if t.exec_time else "-"
    what = [str(t.id), t.name[:24] or "-", t.state, t.qos, str(t.priority)]
    return [*what, size_text(t.memory), time_text(t.wait_time), ran, t.reason]


__all__ = [
    "MemorySummary",
    "PartitionSummary",
    "ReservationSummary",
    "Snapshot",
    "TaskSummary",
    "TransferSummary",
    "add_section",
    "take_snapshot",
]

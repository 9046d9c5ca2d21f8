"""Streams and events."""

from __future__ import annotations

from enum import IntEnum
from typing import Literal

from pygpukit._native import (
    CudaEvent,
    Stream,
    current_stream,
    default_stream,
    event_elapsed_ms,
    event_elapsed_us,
)


class StreamPriority(IntEnum):
    """Work on HIGH streams is scheduled before work on LOW ones."""

    HIGH = 0
    LOW = 1


class StreamManager:
    """Creates streams and keeps track of them."""

    def __init__(self) -> None:
        self._streams: list[Stream] = []

    def create_stream(self, priority: Literal["high", "low"] | int = "low") -> Stream:
        """A new stream of priority "high", "low" or a StreamPriority."""
        stream = Stream(priority=priority)
        self._streams.append(stream)
        return stream

    def destroy_stream(self, stream: Stream) -> None:
        """Waits for the stream's work and releases it."""
        stream.synchronize()
        self._streams = [kept for kept in self._streams if kept is not stream]

    def get_default_stream(self) -> Stream:
        """The device's default stream, the same every time."""
        return default_stream()

    def synchronize_all(self) -> None:
        """Waits for all streams created here, and for the default stream."""
        for stream in [*self._streams, default_stream()]:
            stream.synchronize()


_manager: StreamManager | None = None


def get_stream_manager() -> StreamManager:
    """The manager of the process."""
    global _manager
    if _manager is None:
        _manager = StreamManager()
    return _manager


__all__ = [
    "CudaEvent",
    "Stream",
    "StreamManager",
    "StreamPriority",
    "current_stream",
    "default_stream",
    "event_elapsed_ms",
    "event_elapsed_us",
    "get_stream_manager",
]

"""Streams and events on CPU simulation: contracts, per-thread current stream, foreign streams."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

import pygpukit as gp
from pygpukit.core.stream import StreamManager, StreamPriority, get_stream_manager


class Foreign:
    """Another library's stream."""

    def __init__(self, result: Any) -> None:
        self.result = result

    def __cuda_stream__(self) -> Any:
        return self.result


# --- streams ---


def test_priority_enum() -> None:
    assert (StreamPriority.HIGH, StreamPriority.LOW) == (0, 1)
    assert StreamPriority.HIGH < StreamPriority.LOW


@pytest.mark.parametrize(
    ("given", "want"),
    [
        ("high", StreamPriority.HIGH),
        ("HIGH", StreamPriority.HIGH),
        ("low", StreamPriority.LOW),
        (StreamPriority.HIGH, StreamPriority.HIGH),
        (StreamPriority.LOW, StreamPriority.LOW),
        (0, StreamPriority.HIGH),
    ],
)
def test_priority(given: Any, want: StreamPriority) -> None:
    stream = gp.Stream(priority=given)
    assert stream.priority is want
    assert want.name in repr(stream)
    assert stream.device == "cpu"


@pytest.mark.parametrize("given", ["mid", "", 2, -1, None, 0.5, 2**40])
def test_bad_priority(given: Any) -> None:
    with pytest.raises(ValueError, match="Stream: priority is "):
        gp.Stream(priority=given)


def test_default_stream_is_one_object_of_low_priority() -> None:
    assert gp.default_stream().priority is StreamPriority.LOW
    assert gp.default_stream() is gp.default_stream()
    assert gp.default_stream().handle == 0


def test_stream_basics() -> None:
    a, b = gp.Stream(), gp.Stream()
    assert a.handle != b.handle != 0
    assert a.__cuda_stream__() == (0, a.handle)
    a.synchronize()
    assert a.query() is True
    a.wait(b)
    a.wait(Foreign((0, 77)))
    event = gp.CudaEvent()
    event.record(b)
    a.wait(event)
    with pytest.raises(TypeError, match=r"Stream\.wait: stream is 3\.0"):
        a.wait(3.0)


def test_a_new_stream_is_never_the_default_one(run_python) -> None:
    """Handles 0, 1 and 2 mean the default streams."""
    code = "import pygpukit as gp; print(*[gp.Stream().handle for _ in range(3)])"
    assert min(map(int, run_python(code).stdout.split())) > 2


def test_wrapped_streams() -> None:
    assert gp.Stream(1234).handle == 1234
    assert gp.Stream(Foreign((0, 99))).handle == 99
    assert gp.Stream(0) is gp.default_stream()
    assert gp.Stream(1) is gp.default_stream()
    for bad in (-1, "x", 1.5, True, Foreign(5), Foreign((0,)), Foreign((0, "x")), Foreign((0, -1))):
        with pytest.raises((TypeError, ValueError)) as caught:
            gp.Stream(bad)
        assert isinstance(caught.value, gp.InvalidArgument)


def test_unknown_version_of_the_stream_protocol() -> None:
    with pytest.raises(gp.InvalidArgument, match="__cuda_stream__"):
        gp.Stream(Foreign((7, 99)))


def test_current_stream_nests() -> None:
    default = gp.current_stream()
    assert default is gp.default_stream()
    a, b = gp.Stream(), gp.Stream()
    with a as inner:
        assert inner is a
        assert gp.current_stream() is a
        with b:
            assert gp.current_stream() is b
        assert gp.current_stream() is a
        with pytest.raises(KeyError), b:
            raise KeyError
        assert gp.current_stream() is a
    assert gp.current_stream() is default
    with pytest.raises(RuntimeError, match="__exit__ without __enter__"):
        a.__exit__(None, None, None)


def test_current_stream_is_per_thread() -> None:
    seen: dict[str, Any] = {}

    def work() -> None:
        seen["before"] = gp.current_stream()
        with gp.Stream() as mine:
            seen["inside"] = gp.current_stream() is mine

    with gp.Stream() as outer:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert gp.current_stream() is outer
    assert seen == {"before": gp.default_stream(), "inside": True}


def test_manager() -> None:
    manager = StreamManager()
    a = manager.create_stream("high")
    b = manager.create_stream()
    manager.create_stream(StreamPriority.LOW)
    assert (a.priority, b.priority) == (StreamPriority.HIGH, StreamPriority.LOW)
    assert manager._streams[:2] == [a, b]
    manager.synchronize_all()
    manager.destroy_stream(a)
    assert a not in manager._streams
    assert len(manager._streams) == 2
    assert manager.get_default_stream() is gp.default_stream()
    assert get_stream_manager() is get_stream_manager()


# --- events ---


def test_events_time_the_host() -> None:
    a, b = gp.CudaEvent(), gp.CudaEvent(blocking_sync=True)
    a.record()
    time.sleep(0.02)
    b.record(gp.Stream())
    b.synchronize()
    assert a.query()
    assert b.query()
    ms = gp.event_elapsed_ms(a, b)
    assert 19 < ms < 2000
    assert gp.event_elapsed_us(a, b) == pytest.approx(ms * 1000)
    assert gp.event_elapsed_ms(b, a) == pytest.approx(-ms)


def test_events_that_cannot_be_timed() -> None:
    a, b = gp.CudaEvent(), gp.CudaEvent()
    with pytest.raises(RuntimeError, match="must have been recorded"):
        gp.event_elapsed_ms(a, b)
    a.record()
    with pytest.raises(RuntimeError, match="must have been recorded"):
        gp.event_elapsed_us(a, b)
    silent = gp.CudaEvent(timing=False)
    silent.record()
    with pytest.raises(RuntimeError, match="without timing"):
        gp.event_elapsed_ms(a, silent)


@pytest.mark.parametrize("bad", ["x", 1.5, Foreign(None)])
def test_event_on_a_bad_stream(bad: Any) -> None:
    with pytest.raises(TypeError, match=r"CudaEvent\.record: stream is "):
        gp.CudaEvent().record(bad)


# --- graphs ---

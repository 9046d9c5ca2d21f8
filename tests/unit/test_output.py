"""out= and assignment never write where writing is not allowed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pygpukit as gp

Write = Callable[[Any], object]


def source() -> Any:
    return gp.asarray(np.arange(12, dtype=np.float32).reshape(3, 4), device="cpu")


# Every way to write into an array of shape (3, 4).
WRITES: dict[str, Write] = {
    "add": lambda out: gp.add(source(), 1, out=out),
    "sum": lambda out: gp.sum(gp.stack([source()] * 2), axis=0, out=out),
    "cumsum": lambda out: gp.cumsum(source(), axis=0, out=out),
    "sort": lambda out: gp.sort(source(), out=out),
    "take": lambda out: gp.take(source(), [2, 1, 0], axis=0, out=out),
    "concatenate": lambda out: gp.concatenate([source()[:1], source()[1:]], out=out),
    "matmul": lambda out: gp.matmul(source()[:, :3], source()[:3], out=out),
    "einsum": lambda out: gp.einsum("ij->ij", source(), out=out),
    "random": lambda out: gp.random.default_rng(1).random(out=out),
    "setitem": lambda out: out.__setitem__(..., 1),
    "setitem by mask": lambda out: out.__setitem__(source() > 3, 1),
    "setitem by index": lambda out: out.__setitem__(gp.asarray([0, 2], device="cpu"), 1),
    "iadd": lambda out: out.__iadd__(1),
    "fill": lambda out: out.fill(1),
    "copyto": lambda out: gp.copyto(out, source()),
}


@pytest.mark.parametrize("write", list(WRITES.values()), ids=list(WRITES))
def test_memory_lent_for_reading_is_not_written(write: Write) -> None:
    host = np.zeros((3, 4), np.float32)
    host.flags.writeable = False
    lent = gp.from_dlpack(host)
    with pytest.raises(ValueError, match="is read-only"):
        write(lent)
    assert not host.any()


@pytest.mark.parametrize("write", list(WRITES.values()), ids=list(WRITES))
def test_broadcast_views_are_not_written(write: Write) -> None:
    row = gp.zeros(4, device="cpu")
    with pytest.raises(ValueError, match="is a broadcast view whose elements share memory"):
        write(gp.broadcast_to(row, (3, 4)))
    assert not row.to_numpy().any()


@pytest.mark.parametrize("write", list(WRITES.values()), ids=list(WRITES))
def test_the_same_writes_reach_memory_of_others(write: Write) -> None:
    host = np.full((3, 4), -1, np.float32)
    write(gp.from_dlpack(host))
    assert (host != -1).any()

"""A program of a user: what type checkers must accept as it stands.

Checked by tests/unit/test_typing.py with `mypy --strict` and pyright, and run there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import pygpukit as gp
from pygpukit import scheduler

Host = NDArray[np.float32]


def used(*values: object) -> None:
    assert len(values) > 0


# --- creation -------------------------------------------------------------------------------------


def creations() -> list[gp.GPUArray]:
    grid, step = gp.linspace(0.0, 1.0, 5, retstep=True)
    assert isinstance(step, (float, complex))
    return [
        gp.zeros((2, 3)),
        gp.zeros(3, "bfloat16"),
        gp.ones((2, np.int64(3)), np.float16),
        gp.full([2, 2], 1.5, dtype=gp.float64),
        gp.empty(4, "f4"),
        gp.arange(10),
        gp.arange(0.0, 1.0, 0.25, dtype=float),
        gp.eye(3, 4, k=1),
        gp.linspace(0, 1, 5),
        grid,
        gp.asarray([[1, 2], [3, 4]]),
        gp.array((1.0, 2.0), ndmin=2),
        gp.from_numpy(np.ones((2, 2), np.float32)),
        gp.zeros_like(gp.ones(3), dtype="int8"),
        gp.tri(3),
        gp.identity(2),
    ]


# --- dtypes ---------------------------------------------------------------------------------------


def is_floating(x: gp.GPUArray) -> bool:
    kinds: str = x.dtype.kind + x.dtype.char + x.dtype.str
    size: int = x.dtype.itemsize
    same: bool = x.dtype == "float32" or x.dtype == np.float32 or x.dtype is gp.float32
    numpy_dtype: np.dtype[Any] = x.dtype.to_numpy_dtype()
    limits = gp.finfo("float32")
    eps: float = limits.eps
    lowest: int = gp.iinfo(gp.int8).min
    used(kinds, size, numpy_dtype, eps, lowest)
    return same or gp.issubdtype(x.dtype, np.floating) or gp.isdtype(x.dtype, "real floating")


def scalar(kind: gp.DataType) -> object:
    return kind(3)


# --- functions and methods ------------------------------------------------------------------------


def statistics(x: gp.GPUArray) -> dict[str, float]:
    mask = x > 0
    return {
        "sum": float(gp.sum(x)),
        "rows": float(gp.sum(x, 0, dtype="float64").max()),
        "positive": gp.sum(x, where=mask, initial=0.0).item().real,
        "mean": float(x.mean(axis=(0, 1), keepdims=False)),
        "std": float(gp.std(x, ddof=1)),
        "median": float(gp.median(x)),
        "quantile": float(gp.quantile(x, 0.25, method="lower")),
        "largest": float(gp.max(x, initial=0.0, where=mask)),
    }


def shapes(x: gp.GPUArray) -> gp.GPUArray:
    y = gp.reshape(x, (-1,), order="F")
    y = gp.concatenate([y, [1.0, 2.0]])
    y = gp.stack([y, y], 1).T
    y = gp.take(y, [0, 1], 0)
    y = gp.moveaxis(y, 0, 1)
    y = gp.repeat(y, 2, axis=0)
    parts: list[gp.GPUArray] = gp.split(y, 2)
    rows: tuple[gp.GPUArray, ...] = gp.nonzero(parts[0] > 0)
    assert rows
    return gp.squeeze(gp.expand_dims(parts[1], 0))


def arithmetic(x: gp.GPUArray, y: gp.GPUArray) -> gp.GPUArray:
    z = x + y * 2 - 1.5
    z += gp.exp(-x) / (1 + gp.abs(y))
    z = gp.where(z > 0, z, 0.0)
    z = gp.maximum(z, [0.0, 1.0, 2.0])
    z = gp.add(z, np.float32(1), out=z)
    z = gp.clip(z, -1.0, a_max=1.0)
    return (z @ z.T) ** 2


def ordering(x: gp.GPUArray) -> gp.GPUArray:
    order = gp.argsort(x, 1, kind="stable")
    gathered = gp.take_along_axis(x, order, axis=1)
    best = gp.topk(gathered, 2)
    assert best.values.shape == best.indices.shape
    ordered: gp.GPUArray = gp.sort(x, 0)
    return ordered


def assignments(x: gp.GPUArray, host: Host) -> None:
    x[0] = 1.0
    x[1:2] = host[1:2]
    x[x > 2] = 0
    x[:, None].fill(3.0)
    first: gp.GPUArray = x[0, ...]
    number: complex = first.item(0)
    values: list[Any] = x.tolist()
    back: NDArray[Any] = x.to_numpy()
    used(values, number, back)


# --- neural networks ------------------------------------------------------------------------------


def layer(x: gp.GPUArray, w: gp.GPUArray) -> gp.GPUArray:
    hidden = gp.ops.linear(x, w, activation="gelu")
    hidden = gp.ops.rmsnorm(hidden, gp.ones(hidden.shape[-1]))
    return gp.softmax(hidden, axis=-1)


@gp.fuse
def gate(x: Any, y: Any) -> Any:
    return gp.silu(x) * y


# --- kernels, streams, graphs ---------------------------------------------------------------------

SOURCE = """
extern "C" __global__ void scale(float* x, int n, float a) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= a;
}
"""


def kernel() -> gp.GPUArray:
    def reference(x: Host, n: int, a: float) -> None:
        x *= a

    scale = gp.jit(SOURCE, "scale", reference=reference)
    x = gp.ones(100)
    with gp.Stream(priority="high") as stream:
        scale(x, 100, 2.0, grid=1, block=128)
        done = gp.CudaEvent()
        done.record()
    stream.synchronize()
    return x


# --- tasks ----------------------------------------------------------------------------------------


def tasks() -> list[float]:
    def work(x: float) -> float:
        return 2 * x

    first = scheduler.submit(work, 1.0, name="first", priority=1, memory=scheduler.MB)
    second = scheduler.submit(work, 2.0, after=[first], qos="burstable", deadline=60.0)
    return [first.result(), second.result()]


def guarded(call: Callable[[], object]) -> str:
    try:
        call()
    except gp.InvalidArgument as error:
        return str(error)
    except gp.OutOfMemory as error:
        return str(error.asked)
    return ""


def main() -> None:
    assert all(isinstance(x, gp.GPUArray) for x in creations())
    x = gp.from_numpy(np.arange(6, dtype=np.float32).reshape(2, 3))
    assert is_floating(x)
    assert scalar(gp.float32) == 3
    assert set(statistics(x)) >= {"sum", "mean"}
    assert shapes(x).ndim == 2
    assert arithmetic(x, x).shape == (2, 2)
    assert ordering(x).shape == x.shape
    assignments(x, np.ones((2, 3), np.float32))
    assert layer(x, gp.ones((4, 3))).shape == (2, 4)
    assert gate(x, x).shape == x.shape
    assert float(kernel().sum()) == 200.0
    assert tasks() == [2.0, 4.0]
    assert guarded(lambda: gp.zeros(-1)).startswith("zeros: ")
    with gp.allow_implicit_conversion():
        assert np.asarray(x).shape == (2, 3)
    print("done")


if __name__ == "__main__":
    main()

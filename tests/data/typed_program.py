"""A program of a user: what type checkers must accept as it stands.

Checked by tests/unit/test_typing.py with `mypy --strict` and pyright, and run there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import pygpukit as gp
from pygpukit import memory, scheduler

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
    z = gp.clip(z, -1.0, a_max=1.0) * gp.sqrt(2.0) + gp.full((3,), [1, 2, 3])
    assert 1000.0 not in z
    assert (z @ [1, 2, 3]).ndim == 1
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


def attention(heads: int) -> gp.GPUArray:
    q: gp.GPUArray = gp.random.default_rng(1).normal(size=(4, heads, 8))
    return gp.ops.nn.softmax(gp.ops.sdpa_causal(q, q, q), axis=-1)


# --- linalg, fft, random, special -----------------------------------------------------------------


def linear_algebra(a: gp.GPUArray) -> float:
    gram = a @ a.T + gp.eye(a.shape[0], dtype=a.dtype)
    q, r = gp.linalg.qr(gram)
    values = gp.linalg.eigh(gram).eigenvalues
    u, s, vh = gp.linalg.svd(a, full_matrices=False)
    sign, logarithm = gp.linalg.slogdet(gram)
    lower: gp.GPUArray = gp.linalg.cholesky(gram)
    solution = gp.linalg.solve(gram, lower)
    fit = gp.linalg.lstsq(a, gp.ones((a.shape[0], 1)))
    norm: gp.GPUArray = gp.linalg.norm(a, "fro")
    try:
        gp.linalg.inv(gp.zeros((2, 2)))
    except gp.linalg.LinAlgError as error:
        used(str(error))
    used(q, r, values, u, s, vh, sign, logarithm, solution, fit[0])
    return float(norm)


def spectrum(x: gp.GPUArray) -> gp.GPUArray:
    half = gp.fft.rfft(x, n=16, norm="ortho")
    whole = gp.fft.fftshift(gp.fft.fft2(gp.outer(x, x)))
    frequencies: gp.GPUArray = gp.fft.rfftfreq(16, d=0.5)
    back: gp.GPUArray = gp.fft.irfft(half, 16, norm="ortho")
    used(whole, frequencies, gp.hanning(8), gp.convolve(x, [1.0, 2.0], "same"))
    return back


def numbers(seed: int) -> gp.GPUArray:
    gp.random.seed(seed)
    rng: gp.random.Generator = gp.random.default_rng(seed)
    drawn = [
        gp.random.rand(2, 3),
        gp.random.normal([0.0, 1.0, 2.0], 1.0, (2, 3)),
        rng.uniform(-1.0, 1.0, size=(2, 3), dtype="float64"),
        rng.integers(0, 5, size=(2, 3)),
        rng.poisson(3.0, (2, 3)),
        rng.permuted(gp.ones((2, 3)), axis=1),
    ]
    choice: gp.GPUArray = rng.choice([1, 2, 3], 4, p=[0.2, 0.3, 0.5])
    used(choice, rng.spawn(2), rng.permutation(5))
    return gp.stack([gp.astype(x, "float64") for x in drawn]).mean(0)


def special_functions(x: gp.GPUArray) -> list[gp.GPUArray]:
    weighted = gp.quantile(x, [0.1, 0.9], weights=gp.ones(x.shape), method="inverted_cdf")
    counts, edges = gp.histogram(x, bins="auto")
    return [
        gp.special.erf(x),
        gp.special.expit(x),
        gp.special.logsumexp(x, axis=0, keepdims=True),
        gp.special.gammaln(x + 1.0),
        gp.add.reduceat(x, [0, 1]),
        gp.maximum.accumulate(x),
        gp.add.outer(x, x),
        weighted,
        counts,
        edges,
    ]


def names() -> None:
    kinds: list[gp.DataType] = [gp.half, gp.double, gp.intp, gp.bool_]
    with gp.errstate(divide="ignore"), gp.printoptions(precision=3):
        used(kinds, str(gp.ones(2)))
    array: gp.ndarray = gp.ones(2)
    gp.testing.assert_allclose(array, np.ones(2))


# --- language models ------------------------------------------------------------------------------


def text(folder: str, prompt: list[int]) -> str | list[int]:
    model = gp.llm.load(folder, "float32", max_length=64)
    size: int = model.vocab_size
    used(size, model.family, model.num_parameters)
    return model.generate(prompt, max_new_tokens=4)


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
    with memory.account("typed", "1GiB"):
        results = [first.result(), second.result()]
    assert "completed" in str(scheduler.stats())
    assert memory.stats()["used"] >= 0
    return results


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
    assert attention(2).shape == (4, 2, 8)
    assert linear_algebra(x) > 0
    assert spectrum(gp.ones(16)).shape == (16,)
    assert numbers(3).shape == (2, 3)
    assert len(special_functions(gp.ones(4))) == 10
    names()
    assert callable(text)
    assert float(kernel().sum()) == 200.0
    assert tasks() == [2.0, 4.0]
    assert guarded(lambda: gp.zeros(-1)).startswith("zeros: ")
    with gp.allow_implicit_conversion():
        assert np.asarray(x).shape == (2, 3)
    print("done")


if __name__ == "__main__":
    main()

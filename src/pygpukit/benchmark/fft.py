"""Fourier transforms of batches beyond the L2, beside cuFFT in PyTorch and CuPy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pygpukit as gp
from pygpukit import _native
from pygpukit.benchmark.contest import Arrays, Case, Entry, run_case
from pygpukit.benchmark.measure import Step
from pygpukit.benchmark.oracle import relative_error, sample_indices
from pygpukit.benchmark.session import Session
from pygpukit.benchmark.summary import note_speedups
from pygpukit.random import default_rng

if TYPE_CHECKING:
    from numpy.typing import NDArray

POINTS = 2**25  # of all transforms of a case: 256 MiB of complex64
POWERS = tuple(2**k for k in range(6, 25))
SMOOTH = (96, 100, 400, 480, 1000, 1536, 3000, 6000, 12000, 100000, 1000000)
PRIMES = (97, 1009, 4099, 65537)
REAL = (256, 400, 1024, 4096, 16384, 65536, 2**20, 2**22)
WIDE = (256, 1024, 4096, 65536, 2**20)
SIDES = (512, 2048)  # of images
ROWS_CHECKED = 4


@dataclass(frozen=True)
class Transform:
    """A batch of transforms."""

    op: str  # fft, rfft or fft2
    shape: tuple[int, ...]
    dtype: str

    @property
    def result(self) -> tuple[tuple[int, ...], str]:
        """Shape and dtype."""
        if self.op != "rfft":
            return self.shape, self.dtype
        wide = self.dtype == "float64"
        return (*self.shape[:-1], self.shape[-1] // 2 + 1), "complex128" if wide else "complex64"

    @property
    def bytes(self) -> int:
        """Read and written, once each."""
        sizes = {"float32": 4, "float64": 8, "complex64": 8, "complex128": 16}
        shape, dtype = self.result
        return math.prod(self.shape) * sizes[self.dtype] + math.prod(shape) * sizes[dtype]


def transforms(session: Session) -> dict[str, list[Transform]]:
    """By title."""
    points = POINTS if session.on_gpu else 2**10
    longest = max(POWERS) if session.on_gpu else 2**8

    def batches(op: str, lengths: tuple[int, ...], dtype: str) -> list[Transform]:
        chosen = [n for n in lengths if n <= longest]
        if session.quick:
            chosen = chosen[::4]
        return [Transform(op, (max(1, points // n), n), dtype) for n in chosen]

    sides = [n for n in SIDES if n <= longest]
    return {
        "powers of two": batches("fft", POWERS, "complex64"),
        "smooth lengths": batches("fft", SMOOTH, "complex64"),
        "primes": batches("fft", PRIMES, "complex64"),
        "real": batches("rfft", REAL, "float32"),
        "float64": batches("fft", WIDE, "complex128"),
        "images": [Transform("fft2", (points // n**2, n, n), "complex64") for n in sides],
    }


def run(session: Session) -> None:
    """Runs the suite."""
    for title, cases in transforms(session).items():
        rows = [row for case in cases for row in run_case(session, "fft", fft_case(case))]
        note_speedups(session, f"fft, {title}", rows)


def fft_case(transform: Transform) -> Case:
    """Into a given array; peers allocate theirs from a cache."""
    shape, dtype = transform.result

    def arrays() -> Arrays:
        random = default_rng(6)
        real = "float64" if transform.dtype in ("float64", "complex128") else "float32"
        if transform.dtype == real:
            return random.standard_normal(transform.shape, dtype=real), _native.empty(shape, dtype)
        x = _native.empty(transform.shape, transform.dtype)
        x.real[...] = random.standard_normal(transform.shape, dtype=real)
        x.imag[...] = random.standard_normal(transform.shape, dtype=real)
        return x, _native.empty(shape, dtype)

    def error(given: Arrays, out: Any) -> float:
        import numpy as np

        picked = sample_indices(transform.shape[0], ROWS_CHECKED)
        x = np.stack([_host(given[0][int(i)]) for i in picked])
        want = getattr(np.fft, transform.op)(_wide(x))
        got = np.stack([_host(out[int(i)]) for i in picked])
        return relative_error(_parts(got), _parts(want))

    function = getattr(gp.fft, transform.op)

    def ours(x: Any, out: Any) -> Step:
        return lambda: function(x, out=out)

    def theirs(module: Any, x: Any, out: Any) -> Step:
        call = getattr(module.fft, transform.op)
        return lambda: call(x)

    single = transform.dtype in ("float32", "complex64")
    tolerance = (2e-6 if single else 4e-15) * (3 if transform.shape[-1] in PRIMES else 1)
    entries = [
        Entry(build, error, impl=impl, bytes=transform.bytes, tolerance=tolerance)
        for impl, build in (("pygpukit", ours), ("torch", theirs), ("cupy", theirs))
    ]
    batch, *sizes = transform.shape
    params = {"n": "x".join(map(str, sizes)), "batch": batch, "dtype": transform.dtype}
    return Case(transform.op, params, arrays, entries, rotated_bytes=transform.bytes)


def _host(array: Any) -> NDArray[Any]:
    """A NumPy copy of our array, or of PyTorch's or CuPy's."""
    if hasattr(array, "to_numpy"):
        return array.to_numpy()  # type: ignore[no-any-return]
    return array.get() if hasattr(array, "get") else array.cpu().numpy()  # type: ignore[no-any-return]


def _wide(x: NDArray[Any]) -> NDArray[Any]:
    import numpy as np

    return x.astype(np.complex128 if np.iscomplexobj(x) else np.float64)


def _parts(x: NDArray[Any]) -> NDArray[Any]:
    import numpy as np

    return np.ascontiguousarray(_wide(x)).view(np.float64)

"""Runs the cases of the fft family on a device. Shared by tests/unit and tests/gpu."""

from __future__ import annotations

from typing import Any

import numpy as np

import pygpukit as gp
from cases.fft import FROM_REAL, TO_REAL, Case
from cases.views import VIEWS


def assert_accurate(got: Any, want: Any, points: int, op: str) -> None:
    """Errors of a few eps, relative to the root mean square of all results, as of an FFT."""
    single = got.dtype in (np.float32, np.complex64)
    eps = np.finfo(np.float32 if single else np.float64).eps
    if want.size == 0:
        return
    scale = float(np.sqrt(np.mean(np.abs(want.astype(np.complex128)) ** 2))) or 1.0
    error = float(np.max(np.abs(got.astype(np.clongdouble) - want)))
    # Bluestein's algorithm has three transforms, each twice to four times as long.
    limit = eps * (8 + 3 * np.log2(max(2, points)))
    assert error <= limit * scale, f"{op}: error {error / scale / eps:.1f} eps"


def run_case(case: Case, device: str | None = None) -> None:
    view = VIEWS[case.view]
    host = case.draw(view.base(case.shape))
    x = view.take(gp.from_numpy(host, device=device))
    taken = view.take(host)
    got = getattr(gp.fft, case.op)(x, **case.options)
    want = case.want(taken)
    wide = case.dtype in ("float64", "complex128")
    real = "float64" if wide else "float32"
    complex_ = "complex128" if wide else "complex64"
    assert got.dtype.name == (real if case.op in TO_REAL else complex_)
    assert got.shape == want.shape
    assert got.device == x.device
    assert_accurate(got.to_numpy(), want, case.points, str(case))
    np.testing.assert_array_equal(x.contiguous().to_numpy(), taken)


def run_out(device: str | None = None) -> None:
    rng = np.random.default_rng(0)
    host = (rng.normal(size=(4, 24)) + 1j * rng.normal(size=(4, 24))).astype(np.complex64)

    def make() -> gp.GPUArray:
        return gp.from_numpy(host, device=device)

    want = gp.fft.fft(make()).to_numpy()
    x = make()
    assert gp.fft.fft(x, out=x) is x
    np.testing.assert_array_equal(x.to_numpy(), want)
    wide = gp.zeros((4, 60), "complex64", device=device)
    gp.fft.fft(make(), out=wide[:, 3:51:2])
    np.testing.assert_array_equal(wide.to_numpy()[:, 3:51:2], want)
    turned = gp.zeros((24, 4), "complex64", device=device)
    gp.fft.fft(make(), out=turned.T)
    np.testing.assert_array_equal(turned.to_numpy().T, want)
    double = gp.zeros((4, 24), "complex128", device=device)
    gp.fft.fft(make(), out=double)
    np.testing.assert_array_equal(double.to_numpy(), want.astype(np.complex128))
    reals = gp.zeros(97, device=device)[1:].reshape((4, 24))  # pairs are misaligned
    gp.fft.irfft(make()[:, :13], out=reals)
    np.testing.assert_allclose(
        reals.to_numpy(), np.fft.irfft(host[:, :13].astype(np.complex128)), atol=1e-6
    )


def run_round_trips(device: str | None = None) -> None:
    rng = np.random.default_rng(1)
    host = rng.normal(size=(3, 40, 21)).astype(np.float32)
    x = gp.from_numpy(host, device=device)
    pairs: tuple[tuple[Any, Any], ...] = (
        (gp.fft.rfft, lambda y: gp.fft.irfft(y, 21)),
        (gp.fft.ihfft, lambda y: gp.fft.hfft(y, 21)),
        (gp.fft.rfftn, lambda y: gp.fft.irfftn(y, x.shape, (0, 1, 2))),
        (gp.fft.rfft2, lambda y: gp.fft.irfft2(y, (40, 21))),
        (gp.fft.fftn, lambda y: gp.real(gp.fft.ifftn(y))),
        (gp.fft.fft2, lambda y: gp.real(gp.fft.ifft2(y))),
    )
    for forth, back in pairs:
        np.testing.assert_allclose(back(forth(x)).to_numpy(), host, atol=3e-6)


def run_helpers(device: str | None = None) -> None:
    """fftfreq, rfftfreq, fftshift and ifftshift."""
    for n in (1, 2, 5, 8, 1001):
        for d in (1.0, 0.25, -3.0):
            for name in ("fftfreq", "rfftfreq"):
                want = getattr(np.fft, name)(n, d)
                got = getattr(gp.fft, name)(n, d, dtype="float64", device=device)
                np.testing.assert_allclose(got.to_numpy(), want, rtol=1e-15)
                single = getattr(gp.fft, name)(n, d, device=device)
                assert single.dtype.name == "float32"
                np.testing.assert_array_equal(single.to_numpy(), want.astype(np.float32))
    host = np.arange(60).reshape(3, 4, 5)
    x = gp.from_numpy(host, device=device)
    for axes in (None, 0, -1, (0, 2), [1], ()):
        for name in ("fftshift", "ifftshift"):
            want = getattr(np.fft, name)(host, axes)
            np.testing.assert_array_equal(getattr(gp.fft, name)(x, axes).to_numpy(), want)


assert set(FROM_REAL) | set(TO_REAL) <= set(gp.fft.__all__)

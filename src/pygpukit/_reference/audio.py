"""Audio ops, sample by sample in NumPy. Sums in float64."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BLOCK = 1 << 20  # elements gathered at once


def audio_resample(
    x: NDArray[Any],
    taps: NDArray[Any],
    *,
    up: int,
    down: int,
    before: int,
    edge: bool,
    out: NDArray[Any],
) -> None:
    """each output: the dot product of its phase's taps with the samples around it"""
    n, count = x.shape[-1], out.shape[-1]
    step = max(1, _BLOCK // (taps.shape[0] * max(1, x.size // max(1, n))))
    for first in range(0, count, step):
        m = np.arange(first, min(first + step, count))
        at = (m * down // up - before)[:, None] + np.arange(taps.shape[0])
        samples = x[..., np.clip(at, 0, n - 1)].astype(np.float64)
        if not edge:
            samples *= (at >= 0) & (at < n)
        weights = taps.T[m % up].astype(np.float64)
        out[..., m] = np.einsum("...mk,mk->...m", samples, weights)


def audio_overlap_add(
    frames: NDArray[Any], window: NDArray[Any] | None, *, hop: int, start: int, out: NDArray[Any]
) -> None:
    """frame after frame is added"""
    count, n = frames.shape[-2:]
    total = max((count - 1) * hop + n, start + out.shape[-1])
    sums = np.zeros((*frames.shape[:-2], total), np.float64)
    norm = np.zeros(total, np.float64)
    weights = np.ones(n) if window is None else window.astype(np.float64)
    for f in range(count):
        at = slice(f * hop, f * hop + n)
        sums[..., at] += frames[..., f, :] * weights
        norm[at] += weights**2
    if window is not None:
        sums /= np.where(norm > np.finfo(frames.dtype).tiny, norm, 1.0)
    out[...] = sums[..., start : start + out.shape[-1]]


def audio_spectrogram(
    x: NDArray[Any],
    window: NDArray[Any],
    bank: NDArray[Any] | None,
    *,
    hop: int,
    padding: int,
    pad_mode: Any,
    output: str,
    log: str,
    floor: float,
    transposed: bool,
    out: NDArray[Any],
) -> None:
    """numpy.fft of windowed frames, in float64"""
    widths = [(0, 0)] * (x.ndim - 1) + [(padding, padding)]
    padded = np.pad(x.astype(np.float64), widths, mode=pad_mode)
    count = out.shape[-1] if transposed else out.shape[-2]
    frames = np.lib.stride_tricks.sliding_window_view(padded, window.size, -1)
    y: NDArray[Any] = np.fft.rfft(frames[..., ::hop, :][..., :count, :] * window)
    if output == "complex":
        out[...] = y
        return
    power = np.square(y.real) + np.square(y.imag)
    if bank is None:
        out[...] = power if output == "power" else np.sqrt(power)
        return
    values = power @ bank.T.astype(np.float64)
    if log == "ln":
        values = np.log(values + floor)
    elif log:
        values = np.log10(np.maximum(values, floor))
    if log == "whisper":
        top = values.max((-2, -1), keepdims=True)
        values = (np.maximum(values, top - 8) + 4) / 4
    out[...] = np.swapaxes(values, -1, -2) if transposed else values


def audio_biquad(
    x: NDArray[Any],
    state: NDArray[Any] | None,
    *,
    b0: float,
    b1: float,
    b2: float,
    a1: float,
    a2: float,
    out: tuple[NDArray[Any], NDArray[Any]],
) -> None:
    """block after block: the response to the state before it, and to its samples"""
    block = 256
    before = np.zeros(out[1].shape) if state is None else state.copy()

    def run(samples: NDArray[Any], s1: Any, s2: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        y = np.empty_like(samples)
        for i in range(samples.shape[-1]):
            y[..., i] = b0 * samples[..., i] + s1
            s1, s2 = (
                b1 * samples[..., i] - a1 * y[..., i] + s2,
                b2 * samples[..., i] - a2 * y[..., i],
            )
        return y, np.stack([s1, s2], -1)

    zero = np.zeros(block)
    impulse, _ = run(np.eye(1, block)[0], 0.0, 0.0)
    response = np.stack([impulse[np.maximum(np.arange(block) - i, 0)] for i in range(block)])
    response = np.triu(response)  # [input, output]
    of_state = np.stack([run(zero, 1.0, 0.0)[0], run(zero, 0.0, 1.0)[0]])
    whole = x.shape[-1] // block * block
    for first in range(0, whole, block):
        samples = x[..., first : first + block].astype(np.float64)
        y = samples @ response + before @ of_state
        out[0][..., first : first + block] = y
        # The state is what two more samples of silence would give.
        s2 = b2 * samples[..., -1] - a2 * y[..., -1]
        s1 = b1 * samples[..., -1] - a1 * y[..., -1]
        s1 = s1 + b2 * samples[..., -2] - a2 * y[..., -2]
        before = np.stack([s1, s2], -1)
    rest = x[..., whole:].astype(np.float64)
    out[0][..., whole:], out[1][...] = run(rest, before[..., 0], before[..., 1])


def audio_frame_stats(
    x: NDArray[Any], *, frame: int, hop: int, out: tuple[NDArray[Any], NDArray[Any]]
) -> None:
    """each frame as a row"""
    frames = np.lib.stride_tricks.sliding_window_view(x, frame, -1)[..., ::hop, :]
    out[0][...] = np.square(frames, dtype=np.float64).mean(-1)
    below = frames < -1e-10
    out[1][...] = (below[..., 1:] != below[..., :-1]).sum(-1)


def audio_median(x: NDArray[Any], *, size: int, axis: int, out: NDArray[Any]) -> None:
    """each window sorted"""
    widths = [(0, 0)] * x.ndim
    widths[axis] = (size // 2, size - 1 - size // 2)
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, widths, "symmetric"), size, axis)
    out[...] = np.sort(windows, -1)[..., size // 2]


__all__ = [
    "audio_biquad",
    "audio_frame_stats",
    "audio_median",
    "audio_overlap_add",
    "audio_resample",
    "audio_spectrogram",
]

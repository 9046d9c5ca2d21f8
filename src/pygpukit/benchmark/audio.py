"""Audio of a batch of half-minute signals, beside PyTorch and torchaudio."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pygpukit import _native
from pygpukit.benchmark.contest import Arrays, Case, Entry, run_case
from pygpukit.benchmark.measure import Step
from pygpukit.benchmark.oracle import relative_error
from pygpukit.benchmark.session import Session
from pygpukit.benchmark.summary import note_speedups
from pygpukit.ops import audio
from pygpukit.random import default_rng

RATE = 16000
LINES, SECONDS = 16, 30
N_FFT, HOP, MELS = 400, 160, 80
POLES = (0.2, 0.4, 0.2, 1.0, -0.6, 0.3)


@dataclass(frozen=True)
class Task:
    """Ours, the peer's, and what both must give, in NumPy."""

    name: str
    ours: Callable[[Any], Any]
    theirs: Callable[[Any, Any], Callable[[], Any]] | None  # of torch and a tensor
    want: Callable[[Any], Any]
    tolerance: float = 1e-5
    rate: int = RATE


def _frames(x: Any) -> Any:
    import numpy as np

    padded = np.pad(x.astype(np.float64), ((0, 0), (N_FFT // 2, N_FFT // 2)), mode="reflect")
    frames = np.lib.stride_tricks.sliding_window_view(padded, N_FFT, -1)[:, ::HOP]
    return np.fft.rfft(frames * (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(N_FFT) / N_FFT)))


def _mel(x: Any) -> Any:
    import numpy as np

    bank = audio.mel_filterbank(MELS, N_FFT, RATE).to_numpy().astype(np.float64)
    return np.square(np.abs(_frames(x))) @ bank.T


def _whisper(x: Any) -> Any:
    import numpy as np

    log = np.log10(np.maximum(_mel(x)[:, : x.shape[1] // HOP], 1e-10))
    top = log.max((1, 2), keepdims=True)
    return np.swapaxes((np.maximum(log, top - 8) + 4) / 4, 1, 2)


def _resampled(x: Any) -> Any:
    import numpy as np

    from pygpukit.ops.audio.resampling import sinc_taps

    up, down = 160, 441
    width = math.ceil(6 * down / (up * 0.99))
    taps = sinc_taps(up, down, width, 6, 0.99, "hann", 0.0)
    m = np.arange(-(-x.shape[1] * up // down))
    padded = np.pad(x.astype(np.float64), ((0, 0), (width, 2 * width + 2)))
    at = (m * down // up)[:, None] + np.arange(len(taps))
    return np.stack([(row[at] * taps.T[m % up]).sum(1) for row in padded])


def _filtered(x: Any) -> Any:
    import numpy as np

    from pygpukit._reference import audio_biquad

    b0, b1, b2, _, a1, a2 = POLES
    out = np.empty(x.shape), np.empty((x.shape[0], 2))
    audio_biquad(x, None, b0=b0, b1=b1, b2=b2, a1=a1, a2=a2, out=out)
    return out[0]


def _torch_stft(torch: Any, x: Any) -> Callable[[], Any]:
    window = torch.hann_window(N_FFT, device=x.device)
    return lambda: torch.stft(x, N_FFT, HOP, window=window, return_complex=True).transpose(1, 2)


def _torch_mel(torch: Any, x: Any) -> Callable[[], Any]:
    import torchaudio

    transform = torchaudio.transforms.MelSpectrogram(
        RATE, N_FFT, hop_length=HOP, n_mels=MELS, norm="slaney", mel_scale="slaney"
    ).to(x.device)
    return lambda: transform(x).transpose(1, 2)


def _torch_resample(torch: Any, x: Any) -> Callable[[], Any]:
    import torchaudio

    transform = torchaudio.transforms.Resample(44100, 16000).to(x.device)
    return lambda: transform(x)


TASKS = (
    Task("stft", lambda x: audio.stft(x, N_FFT, HOP), _torch_stft, _frames, 2e-6),
    Task("mel_spectrogram", lambda x: audio.mel_spectrogram(x, N_FFT, HOP, MELS), _torch_mel, _mel),
    Task("whisper_log_mel", lambda x: audio.whisper_log_mel(x, MELS), None, _whisper),
    Task("resample", lambda x: audio.resample(x, 44100, 16000), _torch_resample, _resampled,
         1e-4, 44100),
    Task("biquad", lambda x: audio.biquad(x, *POLES), None, _filtered),
)  # fmt: skip


def run(session: Session) -> None:
    """Runs the suite."""
    rows = []
    for task in TASKS[:2] if session.quick else TASKS:
        lines, seconds = (LINES, SECONDS) if session.on_gpu else (2, 0.2)
        rows += run_case(session, "audio", audio_case(task, lines, int(seconds * task.rate)))
    note_speedups(session, "audio", rows)


def audio_case(task: Task, lines: int, samples: int) -> Case:
    """The task on random signals. torchaudio counts as torch; without it there is no peer."""

    def arrays() -> Arrays:
        return (default_rng(8).standard_normal((lines, samples), dtype="float32"),)

    def error(given: Arrays, out: Any) -> float:
        import numpy as np

        checked = slice(0, 2)
        got, x = _host(out)[checked], _host(given[0])[checked]
        parts = [np.asarray(v) for v in (got, task.want(x))]
        flat = [np.concatenate([v.real, v.imag], -1).astype(np.float64) for v in parts]
        return relative_error(flat[0], flat[1])

    def ours(x: Any) -> Step:
        return lambda: task.ours(x)

    shape = task.want(_host(_native.zeros((1, samples), "float32"))).shape
    item = 8 if task.name == "stft" else 4
    moved = 4 * lines * samples + item * lines * math.prod(shape[1:])
    entries = [Entry(ours, error, bytes=moved, tolerance=task.tolerance)]
    if task.theirs is not None and _has_torchaudio():
        theirs = task.theirs
        entries.append(
            Entry(
                lambda torch, x: theirs(torch, x),
                error,
                impl="torch",
                bytes=moved,
                tolerance=task.tolerance,
            )
        )
    params = {"lines": lines, "samples": samples, "dtype": "float32"}
    return Case(task.name, params, arrays, entries, rotated_bytes=moved)


def _has_torchaudio() -> bool:
    import importlib.util

    return importlib.util.find_spec("torchaudio") is not None


def _host(array: Any) -> Any:
    return array.to_numpy() if hasattr(array, "to_numpy") else array.cpu().numpy()

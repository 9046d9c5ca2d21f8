"""Audio: files and buffers, spectra, mel features, filters, resampling, pitch, rhythm.

>>> speech = gp.ops.audio.load("speech.wav", sample_rate=16000, mono=True)
>>> gp.ops.audio.log_mel_spectrogram(speech)

A signal is a GPUArray with samples along its last axis, all other axes are batches, or an
AudioBuffer of one channel. float32 and float64 keep their dtype. Spectra are [..., frames, bins].
"""

from pygpukit.ops.audio.buffer import AudioBuffer, from_pcm
from pygpukit.ops.audio.cepstrum import delta, mfcc
from pygpukit.ops.audio.constant_q import chroma_cqt, chroma_stft, cqt, cqt_magnitude
from pygpukit.ops.audio.features import (
    autocorrelation,
    rms,
    spectral_bandwidth,
    spectral_centroid,
    spectral_contrast,
    spectral_flatness,
    spectral_rolloff,
    zero_crossing_rate,
)
from pygpukit.ops.audio.files import load, read_wav, save, wav_bytes
from pygpukit.ops.audio.filters import (
    biquad,
    compute_short_term_energy,
    deemphasis,
    design_biquad,
    fftconvolve,
    fir_filter,
    highpass_filter,
    noise_gate,
    preemphasis,
    remove_dc,
    sosfilt,
    spectral_gate,
)
from pygpukit.ops.audio.mel import (
    amplitude_to_db,
    apply_mel_filterbank,
    create_mel_filterbank,
    db_to_power,
    hz_to_mel,
    log_mel,
    log_mel_spectrogram,
    mel_filterbank,
    mel_spectrogram,
    mel_to_hz,
    power_to_db,
    to_decibels,
)
from pygpukit.ops.audio.onset import onset_detect, onset_strength, peak_pick, tempo, tempogram
from pygpukit.ops.audio.pitch import detect_pitch_yin, detect_pitch_yin_frames, yin
from pygpukit.ops.audio.resampling import resample
from pygpukit.ops.audio.ring_buffer import AudioRingBuffer
from pygpukit.ops.audio.separation import harmonic, hpss, median_filter, percussive
from pygpukit.ops.audio.spectrum import frame, istft, magnitude_spectrum, power_spectrum, stft
from pygpukit.ops.audio.stream import AudioStream
from pygpukit.ops.audio.vad import VAD, SpeechSegment
from pygpukit.ops.audio.vocoder import griffin_lim, phase_vocoder, pitch_shift, time_stretch
from pygpukit.ops.audio.whisper import whisper_log_mel
from pygpukit.ops.audio.windows import get_window

__all__ = [
    "VAD",
    "AudioBuffer",
    "AudioRingBuffer",
    "AudioStream",
    "SpeechSegment",
    "amplitude_to_db",
    "apply_mel_filterbank",
    "autocorrelation",
    "biquad",
    "chroma_cqt",
    "chroma_stft",
    "compute_short_term_energy",
    "cqt",
    "cqt_magnitude",
    "create_mel_filterbank",
    "db_to_power",
    "deemphasis",
    "delta",
    "design_biquad",
    "detect_pitch_yin",
    "detect_pitch_yin_frames",
    "fftconvolve",
    "fir_filter",
    "frame",
    "from_pcm",
    "get_window",
    "griffin_lim",
    "harmonic",
    "highpass_filter",
    "hpss",
    "hz_to_mel",
    "istft",
    "load",
    "log_mel",
    "log_mel_spectrogram",
    "magnitude_spectrum",
    "median_filter",
    "mel_filterbank",
    "mel_spectrogram",
    "mel_to_hz",
    "mfcc",
    "noise_gate",
    "onset_detect",
    "onset_strength",
    "peak_pick",
    "percussive",
    "phase_vocoder",
    "pitch_shift",
    "power_spectrum",
    "power_to_db",
    "preemphasis",
    "read_wav",
    "remove_dc",
    "resample",
    "rms",
    "save",
    "sosfilt",
    "spectral_bandwidth",
    "spectral_centroid",
    "spectral_contrast",
    "spectral_flatness",
    "spectral_gate",
    "spectral_rolloff",
    "stft",
    "tempo",
    "tempogram",
    "time_stretch",
    "to_decibels",
    "wav_bytes",
    "whisper_log_mel",
    "yin",
    "zero_crossing_rate",
]

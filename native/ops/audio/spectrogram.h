// Spectra of frames in one kernel: window, transform, powers, mel filters, logarithm.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/array.h"
#include "kernels/args/audio.h"
#include "ops/fft/plan.h"

namespace gpk::ops {

using kernels::AudioPad;
using kernels::SpectrumLog;
using kernels::SpectrumOutput;

// Throw InvalidArgument, starting with `op`, for other words.
AudioPad parse_audio_pad(std::string_view text, const char* op);
SpectrumOutput parse_spectrum_output(std::string_view text, const char* op);
SpectrumLog parse_spectrum_log(std::string_view text, const char* op);

struct SpectrogramRequest {
  const char* name = "stft";  // of the public function
  std::int64_t hop = 1;
  std::int64_t padding = 0;  // samples on both sides
  AudioPad pad = AudioPad::kReflect;
  std::int64_t frames = 0;
  SpectrumOutput output = SpectrumOutput::kComplex;
  SpectrumLog log = SpectrumLog::kNone;
  double floor = 0.0;
  bool transposed = false;  // mel: [..., n_mels, frames]
};

struct MelBank {
  Array weights;  // [n_mels, bins], float32
  Array ranges;   // [n_mels, 2], int32: the first bin of a filter, and the one past its last
};

// x is float32; the window has one of fused_lengths(). Throws InvalidArgument.
Array audio_spectrogram(const Array& x, const Array& window, const std::optional<MelBank>& bank,
                        const SpectrogramRequest& request, const std::optional<Array>& out);

namespace audio {

// Lengths of frames that there are kernels for, ascending.
const std::vector<int>& fused_lengths();
// Whether the kernels can be built: NVRTC is there, or the device is the CPU.
bool is_fused(std::int64_t n_fft, DType dtype, Device device);

// The transforms of a block and its dynamic shared memory.
struct SpectrogramPlan {
  fft::FftShape shape;
  std::size_t shared_bytes = 0;
};
SpectrogramPlan plan_spectrogram(int n_fft);
// "spectrogram(n_fft=400): 8x5x5, 10 frames a block of 250 threads, 27000 bytes"
std::string to_string(const SpectrogramPlan& plan);

}  // namespace audio
}  // namespace gpk::ops

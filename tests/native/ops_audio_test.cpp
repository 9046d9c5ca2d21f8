// Plans and checks of audio ops that need no GPU.
#include <gtest/gtest.h>

#include "base/error.h"
#include "ops/audio/biquad.h"
#include "ops/audio/kernels.h"
#include "ops/audio/resample.h"
#include "ops/audio/spectrogram.h"
#include "ops/audio/statistics.h"

namespace gpk::ops {
namespace {

using namespace audio;

constexpr Device kHost{DeviceKind::kCpu, 0};

Array zeros(const Dims& shape, DType dtype = DType::kFloat32) {
  return Array::empty(shape, dtype, kHost, "test");
}

template <class Call>
std::string message_of(const Call& call) {
  try {
    call();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "no error";
}

TEST(AudioPlan, Spectrogram) {
  EXPECT_EQ(to_string(plan_spectrogram(400)),
            "spectrogram(n_fft=400): 10x10x2, 12 frames a block of 240 threads, 31216 bytes");
  for (const int n_fft : fused_lengths()) {
    const SpectrogramPlan plan = plan_spectrogram(n_fft);
    int product = 1;
    for (int s = 0; s < plan.shape.num_stages; ++s)
      product *= plan.shape.radices[static_cast<std::size_t>(s)];
    EXPECT_EQ(2 * product, n_fft);
    EXPECT_EQ(plan.shape.threads, plan.shape.threads_each * plan.shape.group);
    // Maxima of a block are folded by its first warp, in the memory of the stages.
    EXPECT_GE(plan.shape.threads, 32);
    EXPECT_LE(static_cast<std::size_t>(plan.shape.threads) * 4, plan.shape.shared_bytes);
    EXPECT_LE(plan.shared_bytes, 101376u);  // of SM 86 and 89
  }
}

TEST(AudioPlan, WhatIsFused) {
  EXPECT_TRUE(is_fused(400, DType::kFloat32, kHost));
  EXPECT_FALSE(is_fused(400, DType::kFloat64, kHost));
  EXPECT_FALSE(is_fused(402, DType::kFloat32, kHost));
  EXPECT_FALSE(is_fused(std::int64_t{1} << 40, DType::kFloat32, kHost));
}

TEST(AudioChecks, Messages) {
  const Array x = zeros({2, 100});
  EXPECT_EQ(message_of([&] { audio_resample(x, zeros({3, 4}), {"resample", 5, 4}, {}); }),
            "resample: taps has shape (3, 4), expected (number of taps, 5)");
  EXPECT_EQ(message_of([&] { audio_resample(x, zeros({3, 4}), {"resample", 4, 0}, {}); }),
            "resample: down is 0, expected 1 to 1073741823");
  EXPECT_EQ(message_of([&] { audio_median(x, 3, 2, {}, "median"); }),
            "median: axis 2 is out of bounds for array of dimension 2");
  EXPECT_EQ(message_of([&] { audio_frame_stats(x, 10, 0, "rms"); }),
            "rms: hop is 0, expected 1 to 1073741823");
  EXPECT_EQ(message_of([&] { audio_biquad(zeros({4}, DType::kInt32), {"biquad"}, {}, {}); }),
            "biquad: x has dtype int32, expected float32 or float64");
  SpectrogramRequest request;
  request.frames = 1;
  request.log = SpectrumLog::kLn;
  EXPECT_EQ(message_of([&] { audio_spectrogram(x, zeros({400}), {}, request, {}); }),
            "stft: frames is 1, expected as many as fit 100 samples and 0 on both sides");
  request.padding = 200;
  EXPECT_EQ(message_of([&] { audio_spectrogram(x, zeros({400}), {}, request, {}); }),
            "stft: log and transposed are for output mel alone");
  EXPECT_EQ(message_of([&] { parse_spectrum_log("log2", "stft"); }),
            "stft: log is 'log2', expected one of '', 'ln', 'log10', 'whisper'");
}

}  // namespace
}  // namespace gpk::ops

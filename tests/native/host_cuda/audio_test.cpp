// The kernels of native/kernels/audio on the host, against float64.
#include "host_cuda/host_cuda.h"
// First: CUDA's built-ins.
#include <gtest/gtest.h>

#include <algorithm>
#include <complex>
#include <cstring>
#include <limits>
#include <random>

#include "audio/biquad.cuh"
#include "audio/frame_stats.cuh"
#include "audio/median.cuh"
#include "audio/overlap_add.cuh"
#include "audio/resample.cuh"
#include "audio/spectrogram.cuh"

namespace gpk {
namespace {

std::size_t as_size(long long x) { return static_cast<std::size_t>(x); }

template <class R>
std::vector<R> normal(long long count, unsigned seed) {
  std::mt19937 bits(seed);
  std::normal_distribution<double> draw;
  std::vector<R> values(as_size(count));
  for (R& value : values) value = static_cast<R>(draw(bits));
  return values;
}

template <class R>
void expect_close(const std::vector<R>& got, const std::vector<double>& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  double scale = 1e-30;
  for (const double value : want) scale = std::max(scale, std::abs(value));
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(static_cast<double>(got[i]), want[i], tolerance * scale) << "at " << i;
}

unsigned blocks_of(long long items) {
  return static_cast<unsigned>((items + kAudioThreads - 1) / kAudioThreads);
}

// --- resampling ---------------------------------------------------------------------------------

template <class R>
void check_resample(int up, int down, long long n, long long count, bool edge) {
  constexpr int kTaps = 5;
  constexpr int kLines = 2;
  const auto x = normal<R>(kLines * n, 1);
  const auto taps = normal<R>(kTaps * up, 2);
  std::vector<R> out(as_size(kLines * count));
  ResampleArgs args{};
  args.x = x.data();
  args.out = out.data();
  args.taps = taps.data();
  args.n = n;
  args.count = count;
  args.lines = kLines;
  args.up = up;
  args.down = down;
  args.num_taps = kTaps;
  args.before = 2;
  args.edge = edge ? 1 : 0;
  const long long frames = (count + up - 1) / up;
  const long long threads = (frames + kResampleFrames - 1) / kResampleFrames * up;
  host_cuda::launch(blocks_of(threads), kAudioThreads, [&] { audio_resample<R>(args); });
  std::vector<double> want(out.size());
  for (long long line = 0; line < kLines; ++line)
    for (long long m = 0; m < count; ++m)
      for (int k = 0; k < kTaps; ++k) {
        long long at = m * down / up - 2 + k;
        if (edge) at = std::clamp(at, 0LL, n - 1);
        if (at < 0 || at >= n) continue;
        want[as_size(line * count + m)] += static_cast<double>(taps[as_size(k * up + m % up)]) *
                                           static_cast<double>(x[as_size(line * n + at)]);
      }
  expect_close(out, want, 1e-6);
}

TEST(HostAudio, Resample) {
  check_resample<float>(3, 7, 100, 43, false);
  check_resample<double>(160, 441, 1000, 363, true);
  check_resample<float>(1, 3, 50, 17, false);
  check_resample<float>(300, 1, 3, 900, true);
}

// --- overlap-add --------------------------------------------------------------------------------

TEST(HostAudio, OverlapAdd) {
  constexpr int kN = 50;
  constexpr int kFrames = 7;
  constexpr int kHop = 20;
  const auto frames = normal<float>(2 * kFrames * kN, 3);
  auto window = normal<float>(kN, 4);
  window[0] = 0.0f;
  for (const bool weighted : {false, true}) {
    OverlapAddArgs args{};
    const long long start = 10;
    const long long count = 200;  // past the last frame
    std::vector<float> out(2 * count, -1.0f);
    args.frames = frames.data();
    args.window = weighted ? window.data() : nullptr;
    args.out = out.data();
    args.num_frames = kFrames;
    args.start = start;
    args.count = count;
    args.lines = 2;
    args.n = kN;
    args.hop = kHop;
    host_cuda::launch(blocks_of(count), kAudioThreads, [&] { audio_overlap_add<float>(args); });
    std::vector<double> want(out.size());
    for (int line = 0; line < 2; ++line)
      for (long long t = 0; t < count; ++t) {
        double sum = 0;
        double norm = 0;
        for (int f = 0; f < kFrames; ++f) {
          const long long i = t + start - f * kHop;
          if (i < 0 || i >= kN) continue;
          const double w = weighted ? static_cast<double>(window[as_size(i)]) : 1.0;
          sum += w * static_cast<double>(frames[as_size((line * kFrames + f) * kN + i)]);
          norm += w * w;
        }
        want[as_size(line * count + t)] = weighted && norm > 1e-37 ? sum / norm : sum;
      }
    expect_close(out, want, 1e-5);
  }
}

// --- recursive filters --------------------------------------------------------------------------

Matrix2 times(const Matrix2& m, const Matrix2& n) {
  return {m.a * n.a + m.b * n.c, m.a * n.b + m.b * n.d, m.c * n.a + m.d * n.c,
          m.c * n.b + m.d * n.d};
}

template <class R>
void check_biquad(long long n, bool with_state) {
  constexpr int kLines = 2;
  const auto x = normal<R>(kLines * n, 5);
  const std::vector<double> state = {0.5, -0.25, 2.0, 1.0};
  std::vector<R> out(x.size());
  std::vector<double> state_out(4);
  BiquadArgs args{};
  args.x = x.data();
  args.out = out.data();
  args.state = with_state ? state.data() : nullptr;
  args.state_out = state_out.data();
  args.n = n;
  args.lines = kLines;
  args.tiles = (n + kBiquadTile - 1) / kBiquadTile;
  args.b0 = 0.3;
  args.b1 = -0.5;
  args.b2 = 0.2;
  args.a1 = -1.8;
  args.a2 = 0.9;
  Matrix2 power{-args.a1, 1.0, -args.a2, 0.0};
  for (int run = 1; run < kBiquadRun; run *= 2) power = times(power, power);
  for (Matrix2& of_level : args.powers) {
    of_level = power;
    power = times(power, power);
  }
  std::vector<double> carries(as_size(2 * kLines * args.tiles));
  const auto tiles = static_cast<unsigned>(args.tiles);
  if (args.tiles > 1) {
    args.carries = carries.data();
    host_cuda::launch(tiles, kAudioThreads, [&] { audio_biquad_states<R>(args); });
    host_cuda::launch(1, kAudioThreads, [&] { audio_biquad_combine<R>(args); });
  }
  host_cuda::launch(tiles, kAudioThreads, [&] { audio_biquad_outputs<R>(args); });
  std::vector<double> want(out.size());
  std::vector<double> last(4);
  for (int line = 0; line < kLines; ++line) {
    double s1 = with_state ? state[as_size(2 * line)] : 0.0;
    double s2 = with_state ? state[as_size(2 * line + 1)] : 0.0;
    for (long long i = 0; i < n; ++i) {
      const auto value = static_cast<double>(x[as_size(line * n + i)]);
      const double y = args.b0 * value + s1;
      s1 = args.b1 * value - args.a1 * y + s2;
      s2 = args.b2 * value - args.a2 * y;
      want[as_size(line * n + i)] = y;
    }
    last[as_size(2 * line)] = s1;
    last[as_size(2 * line + 1)] = s2;
  }
  expect_close(out, want, std::is_same_v<R, float> ? 1e-6 : 1e-12);
  expect_close(state_out, last, 1e-12);
}

TEST(HostAudio, Biquad) {
  check_biquad<float>(1, true);
  check_biquad<double>(kBiquadTile, false);
  check_biquad<float>(kBiquadTile + 9, true);
  check_biquad<double>(3 * kBiquadTile - 5, true);
}

// --- statistics ---------------------------------------------------------------------------------

TEST(HostAudio, FrameStats) {
  const long long n = 500;
  auto x = normal<float>(2 * n, 6);
  x[3] = -1e-12f;  // counts as 0
  FrameStatsArgs args{};
  args.x = x.data();
  args.n = n;
  args.lines = 2;
  args.frame = 37;
  args.hop = 10;
  args.num_frames = (n - args.frame) / args.hop + 1;
  std::vector<float> squares(as_size(2 * args.num_frames));
  std::vector<float> crossings(squares.size());
  args.mean_square = squares.data();
  args.crossings = crossings.data();
  host_cuda::launch(blocks_of(32 * args.num_frames), kAudioThreads,
                    [&] { audio_frame_stats<float>(args); });
  std::vector<double> want_squares(squares.size());
  std::vector<double> want_crossings(squares.size());
  for (long long line = 0; line < 2; ++line)
    for (long long f = 0; f < args.num_frames; ++f) {
      const float* const frame = x.data() + line * n + f * args.hop;
      const std::size_t at = as_size(line * args.num_frames + f);
      for (int i = 0; i < args.frame; ++i) {
        want_squares[at] += static_cast<double>(frame[i]) * static_cast<double>(frame[i]) / 37;
        const auto below = [](float value) { return value < -1e-10f; };
        if (i > 0 && below(frame[i]) != below(frame[i - 1])) want_crossings[at] += 1;
      }
    }
  expect_close(squares, want_squares, 1e-6);
  expect_close(crossings, want_crossings, 0.0);
}

template <class R>
void check_median(long long outer, long long n, long long inner, int size) {
  auto x = normal<R>(outer * n * inner, 7);
  x[0] = R(0);
  x[as_size(n / 2)] = -R(0);
  if (x.size() > 4) x[4] = std::numeric_limits<R>::infinity();
  std::vector<R> out(x.size());
  MedianArgs args{};
  args.x = x.data();
  args.out = out.data();
  args.outer = outer;
  args.n = n;
  args.inner = inner;
  args.size = size;
  host_cuda::launch(blocks_of(outer * n * inner), kAudioThreads, [&] { audio_median<R>(args); });
  for (long long o = 0; o < outer; ++o)
    for (long long i = 0; i < n; ++i)
      for (long long k = 0; k < inner; ++k) {
        std::vector<R> window;
        for (int j = 0; j < size; ++j) {
          long long at = i - size / 2 + j;
          while (at < 0 || at >= n) at = at < 0 ? -1 - at : 2 * n - 1 - at;
          window.push_back(x[as_size((o * n + at) * inner + k)]);
        }
        std::sort(window.begin(), window.end());
        EXPECT_EQ(out[as_size((o * n + i) * inner + k)], window[as_size(size / 2)]);
      }
}

TEST(HostAudio, Median) {
  check_median<float>(2, 9, 3, 5);
  check_median<double>(1, 7, 2, 4);
  check_median<float>(1, 3, 1, 17);
  check_median<float>(1, 6, 1, 1);
}

// --- spectrograms -------------------------------------------------------------------------------

struct Signal {
  std::vector<float> x;
  std::vector<float> window;
  SpectrogramArgs args{};
};

double padded(const Signal& signal, long long line, long long i) {
  const SpectrogramArgs& args = signal.args;
  if (i < 0 || i >= args.n) {
    if (args.pad == AudioPad::kConstant) return 0;
    if (args.pad == AudioPad::kEdge || args.n == 1) i = std::clamp(i, 0LL, args.n - 1);
    while (i < 0 || i >= args.n) i = i < 0 ? -i : 2 * (args.n - 1) - i;
  }
  return static_cast<double>(signal.x[as_size(line * args.n + i)]);
}

std::vector<std::complex<double>> spectrum(const Signal& signal, long long line, long long frame) {
  const auto n = static_cast<long long>(signal.window.size());
  std::vector<std::complex<double>> y(as_size(n / 2 + 1));
  for (long long k = 0; k <= n / 2; ++k)
    for (long long i = 0; i < n; ++i) {
      const double value = padded(signal, line, frame * signal.args.hop - signal.args.padding + i) *
                           static_cast<double>(signal.window[as_size(i)]);
      const double angle = -2 * M_PI * static_cast<double>(i * k % n) / static_cast<double>(n);
      y[as_size(k)] += value * std::complex<double>(std::cos(angle), std::sin(angle));
    }
  return y;
}

template <int kT, int kG, int... kRadices>
unsigned run_spectrogram(const SpectrogramArgs& args) {
  constexpr int kN = fft_product(kRadices...);
  const auto blocks = static_cast<unsigned>((args.num_frames + kG - 1) / kG);
  host_cuda::launch(blocks, kT * kG,
                    [&] { audio_spectrogram<kT, kG, kN + kN / 16 + 1, kRadices...>(args); });
  return blocks;
}

Signal signal_of(int n_fft, long long n, AudioPad pad) {
  Signal signal{normal<float>(2 * n, 8), normal<float>(n_fft, 9), {}};
  signal.args.x = signal.x.data();
  signal.args.window = signal.window.data();
  signal.args.n = n;
  signal.args.lines = 2;
  signal.args.hop = 13;
  signal.args.padding = n_fft / 2;
  signal.args.num_frames = n / signal.args.hop + 1;
  signal.args.pad = pad;
  return signal;
}

template <int kT, int kG, int... kRadices>
void check_spectra(long long n, AudioPad pad) {
  constexpr int kBins = fft_product(kRadices...) + 1;
  Signal signal = signal_of(2 * (kBins - 1), n, pad);
  const long long rows = 2 * signal.args.num_frames;
  std::vector<Complex<float>> complex(as_size(rows * kBins));
  std::vector<float> power(complex.size());
  signal.args.out = complex.data();
  run_spectrogram<kT, kG, kRadices...>(signal.args);
  signal.args.out = power.data();
  signal.args.output = SpectrumOutput::kPower;
  run_spectrogram<kT, kG, kRadices...>(signal.args);
  std::vector<float> got;
  std::vector<double> want;
  std::vector<double> powers;
  for (long long row = 0; row < rows; ++row) {
    const auto y = spectrum(signal, row / signal.args.num_frames, row % signal.args.num_frames);
    for (int k = 0; k < kBins; ++k) {
      const Complex<float> z = complex[as_size(row * kBins + k)];
      got.insert(got.end(), {z.re, z.im});
      want.insert(want.end(), {y[as_size(k)].real(), y[as_size(k)].imag()});
      powers.push_back(std::norm(y[as_size(k)]));
    }
  }
  expect_close(got, want, 1e-6);
  expect_close(power, powers, 2e-6);
}

TEST(HostAudio, Spectra) {
  check_spectra<5, 4, 8, 5>(200, AudioPad::kReflect);
  check_spectra<5, 2, 5, 5>(160, AudioPad::kConstant);
  check_spectra<8, 4, 8, 8>(150, AudioPad::kEdge);
  check_spectra<5, 4, 8, 5>(11, AudioPad::kReflect);  // several times back and forth
  check_spectra<8, 4, 8, 8>(1, AudioPad::kReflect);
}

void check_mel(SpectrumLog log, bool transposed) {
  constexpr int kBins = 41;
  constexpr int kMels = 7;
  Signal signal = signal_of(80, 300, AudioPad::kReflect);
  SpectrogramArgs& args = signal.args;
  std::vector<float> bank(kMels * kBins);
  std::vector<int> ranges;
  for (int m = 0; m < kMels; ++m) {
    const int first = m == 6 ? 0 : 5 * m;
    const int past = m == 6 ? 0 : 5 * m + 11;  // the last filter is empty
    ranges.insert(ranges.end(), {first, past});
    for (int k = first; k < past; ++k)
      bank[as_size(m * kBins + k)] = 0.1f * static_cast<float>(k - first + 1);
  }
  std::vector<float> out(as_size(2 * args.num_frames * kMels));
  std::vector<float> maxima(1000);
  args.bank = bank.data();
  args.ranges = ranges.data();
  args.out = out.data();
  args.maxima = maxima.data();
  args.num_mels = kMels;
  args.transposed = transposed ? 1 : 0;
  args.floor = 1e-10f;
  args.output = SpectrumOutput::kMel;
  args.log = log;
  const unsigned blocks = run_spectrogram<8, 4, 8, 5>(args);
  if (log == SpectrumLog::kWhisper) {
    WhisperScaleArgs scale{out.data(), maxima.data(), args.num_frames * kMels, 2, blocks};
    host_cuda::launch(1, kAudioThreads, [&] { audio_whisper_scale(scale); });
  }
  std::vector<double> want(out.size());
  for (long long line = 0; line < 2; ++line) {
    double top = -1e30;
    std::vector<std::size_t> places;
    for (long long f = 0; f < args.num_frames; ++f) {
      const auto y = spectrum(signal, line, f);
      for (long long m = 0; m < kMels; ++m) {
        double sum = 0;
        for (int k = 0; k < kBins; ++k)
          sum += static_cast<double>(bank[as_size(m * kBins + k)]) * std::norm(y[as_size(k)]);
        if (log == SpectrumLog::kLn) sum = std::log(sum + 1e-10);
        if (log == SpectrumLog::kWhisper) sum = std::log10(std::max(sum, 1e-10));
        const long long at = transposed ? m * args.num_frames + f : f * kMels + m;
        places.push_back(as_size(line * args.num_frames * kMels + at));
        want[places.back()] = sum;
        top = std::max(top, sum);
      }
    }
    if (log == SpectrumLog::kWhisper)
      for (const std::size_t place : places) want[place] = (std::max(want[place], top - 8) + 4) / 4;
  }
  expect_close(out, want, 3e-6);
}

TEST(HostAudio, Mel) {
  check_mel(SpectrumLog::kNone, false);
  check_mel(SpectrumLog::kLn, true);
  check_mel(SpectrumLog::kWhisper, true);
  check_mel(SpectrumLog::kWhisper, false);
}

}  // namespace
}  // namespace gpk

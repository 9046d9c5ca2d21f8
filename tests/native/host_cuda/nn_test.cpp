// The kernels of native/kernels/nn on the host, against float64.
#include "host_cuda/host_cuda.h"
// First: CUDA's built-ins.
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <random>

#include "nn/log_likelihood.cuh"
#include "nn/norm.cuh"
#include "nn/rope.cuh"
#include "nn/softmax.cuh"

namespace gpk {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <class T>
std::vector<T> normal(std::size_t count, unsigned seed, float spread = 1.0f) {
  std::mt19937 bits(seed);
  std::normal_distribution<float> draw(0.0f, spread);
  std::vector<T> values(count);
  for (T& value : values) value = convert<T>(draw(bits));
  return values;
}

template <class T>
std::vector<double> wide(const std::vector<T>& values) {
  std::vector<double> result;
  for (const T value : values) result.push_back(to_compute(value));
  return result;
}

template <class T>
constexpr double kTolerance = sizeof(T) == 4        ? 3e-6
                              : kIsSame<T, float16> ? 2e-3
                                                    : 1e-2;

void expect_close(const std::vector<double>& got, const std::vector<double>& want,
                  double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::isfinite(want[i])) {
      ASSERT_NEAR(got[i], want[i], tolerance * (1 + std::fabs(want[i]))) << "at " << i;
    } else if (std::isnan(want[i])) {
      ASSERT_TRUE(std::isnan(got[i])) << "at " << i;
    } else {
      ASSERT_EQ(got[i], want[i]) << "at " << i;
    }
  }
}

// Persistent ones have several rows each.
unsigned blocks(std::int64_t rows, int group, bool ahead) {
  const std::int64_t per_block = group > 32 ? 1 : kRowBlock / group;
  const std::int64_t all = (rows + per_block - 1) / per_block;
  return static_cast<unsigned>(ahead ? (all + 2) / 3 : all);
}
unsigned threads(int group) { return static_cast<unsigned>(group > 32 ? group : kRowBlock); }

// --- norms --------------------------------------------------------------------------------------

struct NormShape {
  int rows;
  int width;
  int group;
};

template <class T, NormMode kMode, unsigned kFlags, int kV, int kA>
void check_norm(const NormShape& shape) {
  const auto count = static_cast<std::size_t>(shape.rows) * shape.width;
  const auto x = normal<T>(count, 1, 3.0f);
  const auto residual = normal<T>(count, 2);
  const auto weight = normal<float>(static_cast<std::size_t>(shape.width), 3);
  const auto bias = normal<float>(static_cast<std::size_t>(shape.width), 4);
  std::vector<T> out(count);
  std::vector<T> sum(count);
  std::vector<float8_e4m3fn> values(count);
  std::vector<float> scales(static_cast<std::size_t>(shape.rows));
  constexpr bool kQuantized = (kFlags & kNormQuantize) != 0;
  NormArgs args{};
  args.x = x.data();
  args.residual = residual.data();
  args.weight = weight.data();
  args.bias = kMode == NormMode::kLayer ? bias.data() : nullptr;
  args.out = kQuantized ? static_cast<void*>(values.data()) : out.data();
  args.sum = sum.data();
  args.scales = scales.data();
  args.x_row = args.residual_row = args.out_row = args.sum_row = shape.width;
  args.rows = shape.rows;
  args.width = shape.width;
  args.group = shape.group;
  args.eps = 1e-5f;
  args.offset = 0.5f;
  constexpr bool kAhead = RowStream < T, kV, kA, (kFlags & kNormResidual) != 0 ? 2 : 1 > ::kAhead;
  host_cuda::launch(blocks(shape.rows, shape.group, kAhead), threads(shape.group),
                    [&] { norm_rows<T, float, kMode, kFlags, kV, kA>(args); });

  std::vector<double> want;
  std::vector<double> sums;
  for (int r = 0; r < shape.rows; ++r) {
    std::vector<double> row;
    for (int i = 0; i < shape.width; ++i) {
      const std::size_t at = static_cast<std::size_t>(r) * shape.width + i;
      const float plain = to_compute(x[at]);
      row.push_back((kFlags & kNormResidual) == 0
                        ? plain
                        : to_compute(convert<T>(plain + to_compute(residual[at]))));
    }
    sums.insert(sums.end(), row.begin(), row.end());
    double mean = 0;
    for (const double e : row) mean += e / shape.width;
    if (kMode == NormMode::kRms) mean = 0;
    double variance = 0;
    for (const double e : row) variance += (e - mean) * (e - mean) / shape.width;
    for (int i = 0; i < shape.width; ++i) {
      const auto c = static_cast<std::size_t>(i);
      want.push_back((row[c] - mean) / std::sqrt(variance + 1e-5) * (0.5 + weight[c]) +
                     (args.bias != nullptr ? bias[c] : 0.0f));
    }
  }
  std::vector<double> got = kQuantized ? wide(values) : wide(out);
  for (std::size_t i = 0; kQuantized && i < got.size(); ++i)
    got[i] *= scales[i / static_cast<std::size_t>(shape.width)];
  expect_close(got, want, kQuantized ? 0.07 : kTolerance<T>);
  if ((kFlags & kNormResidual) != 0) expect_close(wide(sum), sums, 0.0);
}

TEST(HostNorm, RowsOfAWarpOrLess) {
  check_norm<float, NormMode::kLayer, 0, 1, 4>({7, 33, 16});
  check_norm<bfloat16, NormMode::kRms, 0, 8, 4>({5, 1024, 32});
  check_norm<float16, NormMode::kRms, kNormResidual, 8, 4>({130, 24, 1});
}

TEST(HostNorm, RowsOfSeveralWarps) {
  check_norm<float, NormMode::kLayer, kNormResidual, 4, 4>({2, 1280, 96});
  check_norm<bfloat16, NormMode::kLayer, 0, 8, 8>({1, 4096, 64});
}

TEST(HostNorm, RowsThatAreReadAgain) {
  check_norm<bfloat16, NormMode::kLayer, kNormResidual, 8, 0>({2, 4000, 64});
  check_norm<float, NormMode::kRms, 0, 1, 0>({2, 1001, 64});
}

TEST(HostNorm, Quantized) {
  check_norm<bfloat16, NormMode::kRms, kNormQuantize, 8, 4>({2, 2048, 64});
  check_norm<float, NormMode::kRms, kNormQuantize | kNormResidual, 4, 4>({5, 16, 1});
}

TEST(HostNorm, Channels) {
  // Two samples of six channels in two groups, five elements each.
  const auto x = normal<float>(60, 1);
  const auto weight = normal<float>(6, 2);
  std::vector<float> out(60);
  NormArgs args{};
  args.x = x.data();
  args.weight = weight.data();
  args.out = out.data();
  args.x_row = args.out_row = 15;
  args.rows = 4;
  args.width = 15;
  args.group = 4;
  args.groups = 2;
  args.channels = 3;
  args.span = 5;
  host_cuda::launch(1, kRowBlock,
                    [&] { norm_rows<float, float, NormMode::kLayer, kNormChannels, 1, 4>(args); });
  std::vector<double> want;
  for (int r = 0; r < 4; ++r) {
    double mean = 0;
    double variance = 0;
    for (int i = 0; i < 15; ++i) mean += x[static_cast<std::size_t>(r * 15 + i)] / 15.0;
    for (int i = 0; i < 15; ++i)
      variance += std::pow(x[static_cast<std::size_t>(r * 15 + i)] - mean, 2) / 15;
    for (int i = 0; i < 15; ++i)
      want.push_back((x[static_cast<std::size_t>(r * 15 + i)] - mean) / std::sqrt(variance) *
                     weight[static_cast<std::size_t>(r % 2 * 3 + i / 5)]);
  }
  expect_close(wide(out), want, 1e-5);
}

// --- softmax ------------------------------------------------------------------------------------

// Of `width` elements, `step` apart.
template <class T>
void softmax_oracle(const std::vector<T>& x, const std::vector<char>& mask, std::size_t first,
                    int width, std::size_t step, double scale, bool log,
                    std::vector<double>& want) {
  double largest = -kInfinity;
  double sum = 0;
  const auto score = [&](int i) {
    const std::size_t at = first + static_cast<std::size_t>(i) * step;
    return !mask.empty() && mask[at] == 0 ? -kInfinity : scale * to_compute(x[at]);
  };
  for (int i = 0; i < width; ++i) largest = std::max(largest, score(i));
  for (int i = 0; i < width && largest > -kInfinity; ++i) sum += std::exp(score(i) - largest);
  for (int i = 0; i < width; ++i) {
    const double s = score(i);
    want[first + static_cast<std::size_t>(i) * step] =
        log ? (s == -kInfinity ? s : s - largest - std::log(sum))
            : (s == -kInfinity ? 0.0 : std::exp(s - largest) / sum);
  }
}

template <class T, bool kLog, bool kMasked, int kV, int kA>
void check_softmax(const NormShape& shape) {
  const auto count = static_cast<std::size_t>(shape.rows) * shape.width;
  const auto x = normal<T>(count, 1, 3.0f);
  std::vector<char> mask;
  std::mt19937 bits(5);
  for (std::size_t i = 0; kMasked && i < count; ++i)
    mask.push_back(static_cast<char>(i >= static_cast<std::size_t>(shape.width) && bits() % 3 > 0));
  std::vector<T> out(count);
  SoftmaxArgs args{};
  args.x = x.data();
  args.mask = reinterpret_cast<const bool*>(mask.data());
  args.out = out.data();
  args.x_row = args.out_row = shape.width;
  args.rows = shape.rows;
  args.width = shape.width;
  args.group = shape.group;
  args.scale = 0.5f;
  args.mask_layout.num_dims = 1;
  args.mask_layout.size[0] = shape.rows;
  args.mask_layout.stride[0] = shape.width;
  args.mask_layout.step = 1;
  host_cuda::launch(blocks(shape.rows, shape.group, RowStream<T, kV, kA, 1>::kAhead),
                    threads(shape.group), [&] { softmax_rows<T, kLog, kMasked, kV, kA>(args); });
  std::vector<double> want(count);
  for (std::size_t r = 0; r < static_cast<std::size_t>(shape.rows); ++r)
    softmax_oracle(x, mask, r * shape.width, shape.width, 1, 0.5, kLog, want);
  expect_close(wide(out), want, kTolerance<T>);
}

TEST(HostSoftmax, Rows) {
  check_softmax<float, false, false, 4, 4>({5, 512, 32});
  check_softmax<float, true, true, 4, 4>({3, 1024, 64});
  check_softmax<bfloat16, false, true, 8, 8>({2, 4096, 64});
  check_softmax<float16, true, false, 8, 4>({9, 96, 4});
  check_softmax<float, false, true, 1, 0>({3, 999, 64});
  check_softmax<float, true, false, 1, 0>({3, 1000, 64});
}

TEST(HostSoftmax, Columns) {
  constexpr int kOuter = 2;
  constexpr int kWidth = 50;
  constexpr int kInner = 37;
  const auto x = normal<float>(kOuter * kWidth * kInner, 1, 3.0f);
  for (const bool log : {false, true}) {
    std::vector<float> out(x.size());
    SoftmaxArgs args{};
    args.x = x.data();
    args.out = out.data();
    args.rows = kOuter * kInner;
    args.inner = kInner;
    args.width = kWidth;
    args.scale = 1.0f;
    host_cuda::launch((kOuter * kInner + 31) / 32, 256, [&] {
      if (log) {
        softmax_columns<float, true, false>(args);
      } else {
        softmax_columns<float, false, false>(args);
      }
    });
    std::vector<double> want(x.size());
    for (std::size_t o = 0; o < kOuter; ++o)
      for (std::size_t c = 0; c < kInner; ++c)
        softmax_oracle(x, {}, o * kWidth * kInner + c, kWidth, kInner, 1.0, log, want);
    expect_close(wide(out), want, 3e-6);
  }
}

TEST(HostLogLikelihood, OfTargets) {
  constexpr int kRows = 6;
  constexpr int kWidth = 1000;
  const auto x = normal<bfloat16>(kRows * kWidth, 1, 5.0f);
  const std::vector<long long> targets = {0, 999, 500, -100, 1000, -1};
  std::vector<float> out(kRows);
  LogLikelihoodArgs args{};
  args.x = x.data();
  args.targets = targets.data();
  args.out = out.data();
  args.x_row = kWidth;
  args.rows = kRows;
  args.ignored = -100;
  args.width = kWidth;
  args.group = 64;
  host_cuda::launch(kRows, 64, [&] { log_likelihood_rows<bfloat16, long long, 8>(args); });
  std::vector<double> all(x.size());
  std::vector<double> want;
  for (std::size_t r = 0; r < kRows; ++r) {
    softmax_oracle(x, {}, r * kWidth, kWidth, 1, 1.0, true, all);
    const long long target = targets[r];
    want.push_back(target == -100                   ? 0.0
                   : target < 0 || target >= kWidth ? std::nan("")
                                                    : all[r * kWidth + target]);
  }
  expect_close(wide(out), want, 3e-6);
}

// --- rotary positions ---------------------------------------------------------------------------

template <class T, bool kInterleaved, bool kComputed, int kV>
void check_rope(int heads, int dim, int half) {
  constexpr int kBatch = 2;
  constexpr int kSeq = 3;
  constexpr int kTable = 40;
  const auto x = normal<T>(static_cast<std::size_t>(kBatch * kSeq * heads * dim), 1);
  std::vector<T> out(x.size());
  std::vector<float> frequencies;
  for (int j = 0; j < half; ++j)
    frequencies.push_back(static_cast<float>(std::pow(10000.0, -static_cast<double>(j) / half)));
  std::vector<float> cosines;
  std::vector<float> sines;
  for (int p = 0; p < kTable; ++p)
    for (const float frequency : frequencies) {
      cosines.push_back(static_cast<float>(std::cos(p * static_cast<double>(frequency))));
      sines.push_back(static_cast<float>(std::sin(p * static_cast<double>(frequency))));
    }
  const std::vector<int> positions = {0, 39, 7, kComputed ? 3000 : 40, 12, 1};
  RopeArgs args{};
  args.x = x.data();
  args.out = out.data();
  args.cos = kComputed ? nullptr : cosines.data();
  args.sin = kComputed ? frequencies.data() : sines.data();
  args.positions = positions.data();
  args.x_head = args.out_head = dim;
  args.x_seq = args.out_seq = heads * dim;
  args.x_batch = args.out_batch = static_cast<long long>(kSeq) * heads * dim;
  args.cos_row = args.sin_row = half;
  args.table_rows = kTable;
  args.positions_batch = kSeq;
  args.seq = kSeq;
  args.heads = heads;
  args.half = half;
  args.tail = dim - 2 * half;
  args.factor = 1.0f;
  args.num_items = static_cast<long long>(kBatch) * kSeq * heads * ((half + args.tail) / kV);
  host_cuda::launch(static_cast<unsigned>((args.num_items + 255) / 256), 256,
                    [&] { rope<T, float, int, kInterleaved, kV>(args); });
  std::vector<double> want = wide(x);
  for (int token = 0; token < kBatch * kSeq; ++token)
    for (int h = 0; h < heads; ++h)
      for (int j = 0; j < half; ++j) {
        const auto head = static_cast<std::size_t>((token * heads + h) * dim);
        const std::size_t a = head + static_cast<std::size_t>(kInterleaved ? 2 * j : j);
        const std::size_t b = head + static_cast<std::size_t>(kInterleaved ? 2 * j + 1 : half + j);
        const int position = positions[static_cast<std::size_t>(token)];
        const double angle =
            position * static_cast<double>(frequencies[static_cast<std::size_t>(j)]);
        const bool known = kComputed || position < kTable;
        const double cosine = known ? std::cos(angle) : std::nan("");
        const double sine = known ? std::sin(angle) : std::nan("");
        const double first = want[a];
        const double second = want[b];
        want[a] = first * cosine - second * sine;
        want[b] = second * cosine + first * sine;
      }
  expect_close(wide(out), want, kTolerance<T>);
}

TEST(HostRope, TablesAndComputedAngles) {
  check_rope<float, false, false, 4>(3, 64, 32);
  check_rope<float, true, false, 4>(2, 64, 16);
  check_rope<bfloat16, false, true, 8>(2, 128, 32);
  check_rope<bfloat16, true, true, 8>(1, 128, 64);
  check_rope<float, true, false, 1>(2, 10, 3);
  check_rope<float16, false, true, 1>(2, 10, 3);
}

}  // namespace
}  // namespace gpk

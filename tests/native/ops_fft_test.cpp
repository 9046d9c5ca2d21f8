// Plans and launches of Fourier transforms. Launches are carried out here by the definitions in
// kernels/args/fft.h, in float64, and the result is compared with the sum.
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <random>
#include <set>

#include "ops/fft/launch.h"
#include "ops/fft/layout.h"
#include "ops/fft/shape.h"
#include "ops/op.h"

namespace gpk::ops::fft {
namespace {

using kernels::FftArgs;
using kernels::FftTwist;
using Value = std::complex<double>;

constexpr FftLimits kH200{232448, false};
constexpr FftLimits kBundle{232448, true};
constexpr FftLimits kSmall{101376, false};

std::size_t as_size(std::int64_t x) { return static_cast<std::size_t>(x); }

Value turn(std::int64_t num, std::int64_t den) {
  const double angle = -2 * M_PI * static_cast<double>(num % den) / static_cast<double>(den);
  return {std::cos(angle), std::sin(angle)};
}
Value chirp(std::int64_t i, std::int64_t n) { return turn(i * i % (2 * n), 2 * n); }

std::vector<Value> dft(const std::vector<Value>& x) {
  const auto n = static_cast<std::int64_t>(x.size());
  std::vector<Value> turns(x.size());
  for (std::int64_t i = 0; i < n; ++i) turns[as_size(i)] = turn(i, n);
  std::vector<Value> y(x.size());
  for (std::int64_t k = 0; k < n; ++k)
    for (std::int64_t i = 0; i < n; ++i) y[as_size(k)] += x[as_size(i)] * turns[as_size(i * k % n)];
  return y;
}

// One transform of a launch: its coordinates, added up.
struct Place {
  std::int64_t in = 0, out = 0, in_index = 0, out_index = 0, first = 0;
};

Value fetch(const FftArgs& args, const Place& place, std::int64_t i) {
  const auto* reals = static_cast<const double*>(args.in) + place.in;
  const auto* values = static_cast<const Value*>(args.in) + place.in;
  const auto spectrum = [&](std::int64_t at, bool real) -> Value {
    if (at >= args.valid) return 0;
    const Value x = values[at * args.in_stride];
    return {x.real(), real ? 0 : x.imag() * args.sign};
  };
  const auto real = [&](std::int64_t at) {
    return at < args.valid ? reals[at * args.in_stride] : 0.0;
  };
  switch (args.fetch) {
    case FftFetch::kComplex: return spectrum(i, false);
    case FftFetch::kReal: return real(i);
    case FftFetch::kPacked: return {real(2 * i), real(2 * i + 1)};
    case FftFetch::kHermitian:
      return i <= args.length / 2 ? spectrum(i, i == 0)
                                  : std::conj(spectrum(args.length - i, false));
    case FftFetch::kHalf: {
      const Value x = spectrum(i, i == 0);
      const Value y = std::conj(spectrum(args.length - i, i == 0));
      return x + y + Value(0, 1) * turn(i, 2 * args.length) * (x - y);
    }
    default: {
      const std::int64_t back = args.length - i;
      const std::int64_t n = args.chirp_n;
      return i < n ? std::conj(chirp(i, n)) : back < n ? std::conj(chirp(back, n)) : 0;
    }
  }
}

void put(const FftArgs& args, const Place& place, std::int64_t k, Value y) {
  if (k >= args.count) return;
  y = {y.real() * args.scale_re, y.imag() * args.scale_im};
  auto* reals = static_cast<double*>(args.out) + place.out;
  switch (args.put) {
    case FftPut::kReal: reals[k * args.out_stride] = y.real(); break;
    case FftPut::kPacked:
      reals[2 * k * args.out_stride] = y.real();
      reals[(2 * k + 1) * args.out_stride] = y.imag();
      break;
    default: (static_cast<Value*>(args.out) + place.out)[k * args.out_stride] = y;
  }
}

void put_halves(const FftArgs& args, const Place& place, const std::vector<Value>& z) {
  const auto n = static_cast<std::int64_t>(z.size());
  FftArgs complex = args;
  complex.put = FftPut::kComplex;
  for (std::int64_t k = 0; k <= n; ++k) {
    const Value x = z[as_size(k % n)];
    const Value y = std::conj(z[as_size((n - k) % n)]);
    put(complex, place, k, 0.5 * (x + y) + turn(k, 2 * n) * Value(0, -0.5) * (x - y));
  }
}

void run_transform(const FftArgs& args, const Place& place) {
  std::vector<Value> x(as_size(args.n));
  for (std::int64_t i = 0; i < args.n; ++i) {
    const std::int64_t index = i * args.in_step + place.in_index;
    if (args.chirp == 0) {
      x[as_size(i)] = fetch(args, place, index);
    } else if (index < args.chirp_n) {
      x[as_size(i)] = fetch(args, place, index) * chirp(index, args.chirp_n);
    }
  }
  std::vector<Value> y = dft(x);
  const auto* table = static_cast<const Value*>(args.table);
  if (args.rounds == 2) {
    for (std::size_t k = 0; k < y.size(); ++k) y[k] = std::conj(y[k] * table[k]);
    y = dft(y);
  }
  if (args.put == FftPut::kHalf) {
    put_halves(args, place, y);
    return;
  }
  for (std::int64_t k = 0; k < args.n; ++k) {
    const std::int64_t index = k * args.out_step + place.out_index;
    if (index >= args.count) continue;
    Value value = y[as_size(k)];
    if (args.twist == FftTwist::kTwiddle) value *= turn(place.first * k, args.root);
    if (args.twist == FftTwist::kTable) value *= table[index];
    if (args.twist == FftTwist::kChirp) value = std::conj(value) * chirp(index, args.chirp_n);
    put(args, place, index, value);
  }
}

// Every block of a launch, as kernels find their transforms.
void run_launch(const FftLaunch& launch) {
  const FftArgs& args = launch.args;
  const FftShape& shape = launch.pass.shape;
  const bool merge = launch.kernel == FftKernel::kMerge;
  const int group = merge ? kernels::kFftMergeThreads : shape.group;
  ASSERT_LE(args.num_coords, kernels::kFftMaxCoords);
  ASSERT_LE(launch.config.shared_bytes, 232448u);
  ASSERT_LE(launch.config.block[0], 1024u);
  for (unsigned block = 0; block < launch.config.grid[0]; ++block)
    for (int g = 0; g < group; ++g) {
      std::int64_t rest = block / args.tiles;
      Place place;
      place.first = static_cast<std::int64_t>(block % args.tiles) * group + g;
      if (place.first >= args.coords[0].size) continue;
      for (int d = 0; d < args.num_coords; ++d) {
        const kernels::FftCoord& coord = args.coords[d];
        const std::int64_t at = d == 0 ? place.first : rest % coord.size;
        if (d > 0) rest /= coord.size;
        place.in += at * coord.in;
        place.out += at * coord.out;
        place.in_index += at * coord.in_index;
        place.out_index += at * coord.out_index;
      }
      ASSERT_EQ(rest, 0);
      if (!merge) {
        run_transform(args, place);
      } else if (place.first == 0) {  // a thread has a pair; here one does all
        std::vector<Value> z;
        for (int k = 0; k < args.n; ++k)
          z.push_back((static_cast<const Value*>(args.out) + place.out)[k * args.out_stride]);
        put_halves(args, place, z);
      }
    }
}

Array make(const Dims& shape, bool real, unsigned seed) {
  const Array array = Array::empty(shape, real ? DType::kFloat64 : DType::kComplex128, Device{});
  std::mt19937 bits(seed);
  std::normal_distribution<double> draw;
  auto* values = static_cast<double*>(array.data());
  for (std::int64_t i = 0; i < array.size() * (real ? 1 : 2); ++i) values[i] = draw(bits);
  return array;
}

Value value_at(const Array& array, std::int64_t at) {
  return array.dtype() == DType::kFloat64 ? Value(static_cast<const double*>(array.data())[at])
                                          : static_cast<const Value*>(array.data())[at];
}

// A line of an array along an axis.
std::vector<Value> line(const Array& array, int axis, std::int64_t number) {
  std::int64_t at = 0;
  for (int d = array.ndim() - 1; d >= 0; --d) {
    if (d == axis) continue;
    at += number % array.shape()[d] * array.strides()[d];
    number /= array.shape()[d];
  }
  std::vector<Value> values;
  for (std::int64_t i = 0; i < array.shape()[axis]; ++i)
    values.push_back(value_at(array, at + i * array.strides()[axis]));
  return values;
}

std::vector<Value> expected(std::vector<Value> x, const AxisTransform& step) {
  const std::int64_t n = step.n;
  if (step.conj_in)
    for (Value& value : x) value = std::conj(value);
  const bool to_real = step.kind == FftKind::kToReal;
  x.resize(as_size(to_real ? n / 2 + 1 : n));
  if (to_real) {
    x[0] = x[0].real();
    if (n % 2 == 0) x[as_size(n / 2)] = x[as_size(n / 2)].real();
    for (std::int64_t i = n / 2 + 1; i < n; ++i) x.push_back(std::conj(x[as_size(n - i)]));
  }
  std::vector<Value> y = dft(x);
  if (step.kind == FftKind::kFromReal) y.resize(as_size(n / 2 + 1));
  for (Value& value : y) {
    value *= step.scale;
    if (step.conj_out) value = std::conj(value);
    if (to_real) value = value.real();
  }
  return y;
}

// `shape` is that of the input.
void check(FftKind kind, const Dims& shape, int axis, std::int64_t n, const FftLimits& limits,
           std::size_t num_launches = 0) {
  AxisTransform step;
  step.kind = kind;
  step.axis = axis;
  step.n = n;
  step.scale = 0.25;
  step.conj_in = kind == FftKind::kComplex || kind == FftKind::kToReal;
  step.conj_out = kind != FftKind::kToReal && n % 3 != 0;
  const Array in = make(shape, kind == FftKind::kFromReal || kind == FftKind::kComplexOfReal, 1);
  Dims out_shape = shape;
  out_shape[axis] = kind == FftKind::kFromReal ? n / 2 + 1 : n;
  const Array out = make(out_shape, kind == FftKind::kToReal, 2);
  std::size_t launches = 0;
  launch_axis(in, out, step, limits, "fft", [&](FftLaunch& launch) {
    ++launches;
    run_launch(launch);
  });
  if (num_launches > 0) {
    EXPECT_EQ(launches, num_launches) << n;
  }
  const std::int64_t lines = in.size() / shape[axis];
  for (std::int64_t number = 0; number < lines; ++number) {
    const std::vector<Value> want = expected(line(in, axis, number), step);
    const std::vector<Value> got = line(out, axis, number);
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t k = 0; k < want.size(); ++k)
      ASSERT_NEAR(std::abs(got[k] - want[k]), 0.0, 1e-9 * static_cast<double>(n))
          << "n " << n << ", axis " << axis << ", line " << number << ", output " << k;
  }
}

constexpr FftKind kKinds[] = {FftKind::kComplex, FftKind::kToReal, FftKind::kFromReal,
                              FftKind::kComplexOfReal};

TEST(FftLaunch, OnePass) {
  for (const FftKind kind : kKinds)
    for (const std::int64_t n : {1, 2, 6, 15, 16, 60}) {
      const std::int64_t size = kind == FftKind::kToReal ? n / 2 + 1 : n;
      check(kind, {5, size}, 1, n, kH200, 1);
      check(kind, {2, size, 3}, 1, n, kBundle, 1);
      check(kind, {size, 3, 2}, 0, n, kSmall, 1);
    }
}

TEST(FftLaunch, CutAndPadded) {
  for (const FftKind kind : kKinds) {
    check(kind, {3, 10}, 1, 16, kH200);
    check(kind, {3, 10}, 1, 4, kH200);
    check(kind, {3, 10}, 1, 37, kH200);
    check(kind, {3, 1}, 1, 9, kBundle);
    check(kind, {10, 2}, 0, 7, kBundle);
  }
}

TEST(FftLaunch, BluesteinInOnePass) {
  for (const FftKind kind : kKinds)
    for (const std::int64_t n : {17, 34}) {
      const std::int64_t size = kind == FftKind::kToReal ? n / 2 + 1 : n;
      check(kind, {3, size}, 1, n, kH200, 2);
      check(kind, {size, 2}, 0, n, kH200, 2);
    }
}

// Shared memory for a few hundred elements only, so that short transforms take two or three passes.
constexpr FftLimits kTwo{24000, true};
constexpr FftLimits kThree{7000, true};

TEST(FftLaunch, SeveralPasses) {
  for (const FftLimits& limits : {kTwo, kThree})
    for (const FftKind kind : kKinds)
      for (const std::int64_t n : {720, 1125, 1536}) {
        const std::int64_t size = kind == FftKind::kToReal ? n / 2 + 1 : n;
        check(kind, {2, size}, 1, n, limits);
        check(kind, {size - 3}, 0, n, limits);
      }
  check(FftKind::kFromReal, {2, 1536}, 1, 1536, kTwo, 3);
  check(FftKind::kToReal, {2, 769}, 1, 1536, kTwo, 2);
  check(FftKind::kComplex, {2, 1125}, 1, 1125, kThree, 3);
}

TEST(FftLaunch, BluesteinInSeveralPasses) {
  for (const FftKind kind : kKinds)
    for (const std::int64_t n : {401, 422}) {
      const std::int64_t size = kind == FftKind::kToReal ? n / 2 + 1 : n;
      check(kind, {2, size}, 1, n, kTwo, 6);
      check(kind, {2, size}, 1, n, kThree, 9);
    }
}

// --- plans --------------------------------------------------------------------------------------

TEST(FftPlan, EveryLengthHasOne) {
  std::mt19937_64 bits(7);
  std::vector<std::int64_t> lengths;
  for (std::int64_t n = 1; n < 500; ++n) lengths.push_back(n);
  for (int i = 0; i < 300; ++i)
    lengths.push_back(static_cast<std::int64_t>(bits() % (std::uint64_t{1} << (3 + bits() % 26))) +
                      1);
  for (std::int64_t n = 2; n <= kMaxLength; n *= 2) lengths.push_back(n);
  for (const std::int64_t prime : {3, 5, 7, 11, 13})
    for (std::int64_t n = prime; n <= kMaxLength; n *= prime) lengths.push_back(n);
  for (const std::int64_t n : lengths)
    for (const FftLimits& limits : {kH200, kBundle, kSmall})
      for (const FftKind kind : kKinds)
        for (const bool wide : {false, true})
          for (const bool row : {false, true}) {
            if (n > kMaxPrimeLength && !is_smooth(n)) continue;
            const FftPlan plan = plan_fft({kind, n, wide, row, row}, limits);
            std::int64_t product = 1;
            ASSERT_FALSE(plan.passes.empty()) << n;
            for (const FftPass& pass : plan.passes) {
              const FftShape& shape = pass.shape;
              product *= shape.n;
              int radices = 1;
              for (int s = 0; s < shape.num_stages; ++s) radices *= shape.radices[as_size(s)];
              ASSERT_EQ(radices, shape.n) << n;
              ASSERT_LE(shape.shared_bytes, limits.shared_bytes) << n;
              ASSERT_LE(shape.threads, 512) << n;
              const bool padded = !shape.block || shape.radices[0] % kernels::kFftPaddedRadix == 0;
              ASSERT_GE(shape.pitch, shape.n + (padded ? (shape.n - 1) / 16 : 0)) << n;
              ASSERT_LE(shape.threads_each * shape.group, shape.threads) << n;
              ASSERT_TRUE(!limits.general || !shape.block);
            }
            ASSERT_EQ(product, plan.length) << n;
            ASSERT_LE(plan.passes.size(), 3u) << n;
            ASSERT_TRUE(!plan.bluestein || plan.length >= 2 * n - 1);
          }
}

TEST(FftPlan, Text) {
  EXPECT_EQ(to_string(plan_fft({FftKind::kComplex, 1024}, kH200)),
            "complex transforms of 1024\n  block 16x8x8, 4 a block of 256 threads, row to row, "
            "35328 bytes");
  EXPECT_EQ(to_string(plan_fft({FftKind::kFromReal, 1 << 17}, kH200)),
            "complex transforms of 65536\n"
            "  block 16x16, 16 a block of 256 threads, column to column, twiddles, 34944 bytes\n"
            "  block 16x16, 16 a block of 256 threads, row to column, 34944 bytes\n"
            "  merge");
}

// Smooth lengths have stages of much the same size, and the others few convolutions between them.
TEST(FftPlan, StagesOfABlock) {
  const auto radices = [](std::int64_t n) {
    const FftShape shape = plan_fft({FftKind::kComplex, n}, kH200).passes[0].shape;
    EXPECT_TRUE(shape.block) << n;
    return std::vector<int>(shape.radices.begin(), shape.radices.begin() + shape.num_stages);
  };
  EXPECT_EQ(radices(1000), (std::vector{10, 10, 10}));
  EXPECT_EQ(radices(2187), (std::vector{9, 9, 9, 3}));
  EXPECT_EQ(radices(12000), (std::vector{15, 10, 10, 8}));
  std::set<int> lengths;
  for (std::int64_t n = 17; n <= 2048; ++n) {
    if (is_smooth(n)) continue;
    const FftPlan plan = plan_fft({FftKind::kComplex, n}, kH200);
    ASSERT_EQ(plan.passes.size(), 1u) << n;
    ASSERT_TRUE(plan.passes[0].shape.block) << n;
    lengths.insert(plan.length);
  }
  EXPECT_LE(lengths.size(), 22u);
}

TEST(FftPlan, BlocksOfPlansAreEnumerated) {
  std::vector<jit::KernelSpec> specs;
  enumerate_fft(specs);
  std::set<std::string> expressions;
  for (const jit::KernelSpec& spec : specs) expressions.insert(spec.expression);
  EXPECT_EQ(expressions.size(), specs.size());
  for (std::int64_t n = 2; n <= (1 << 26); n *= 2)
    for (const FftKind kind : kKinds)
      for (const bool wide : {false, true})
        for (const bool row : {false, true})
          for (const FftPass& pass : plan_fft({kind, n, wide, row, row}, kH200).passes)
            if (pass.shape.block) {
              EXPECT_TRUE(expressions.contains(make_spec(FftKernel::kBlock, wide, pass).expression))
                  << n;
            }
}

TEST(FftLayout, AxesAreMerged) {
  const Array x = Array::empty({4, 3, 5, 2}, DType::kFloat64, Device{});
  const AxisLayout last = layout_of(x, x, 3);
  ASSERT_EQ(last.coords.size(), 1u);
  EXPECT_EQ(last.coords[0].size, 60);
  EXPECT_TRUE(last.in_row);
  const AxisLayout middle = layout_of(x, x, 1);
  ASSERT_EQ(middle.coords.size(), 2u);
  EXPECT_EQ(middle.coords[0].size, 10);
  EXPECT_TRUE(middle.in_column);
  EXPECT_FALSE(middle.in_row);
}

}  // namespace
}  // namespace gpk::ops::fft

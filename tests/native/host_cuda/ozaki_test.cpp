// float64 as int8 slices, on the host: digits give back the numbers, sums of their products C.
#include "host_cuda/host_cuda.h"
// First: CUDA's built-ins.
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "matmul/ozaki.cuh"

namespace gpk {
namespace {

constexpr long long kPitch = 16;

struct Sliced {
  std::vector<signed char> digits;
  std::vector<int> exponents;
  long long rows, chunks;
  bool reversed;

  [[nodiscard]] int digit(long long chunk, long long row, int slice, long long l) const {
    const int place = reversed ? kOzakiSlices - 1 - slice : slice;
    return digits[static_cast<std::size_t>(((chunk * rows + row) * kOzakiSlices + place) * kPitch +
                                           l)];
  }
};

Sliced slice(const std::vector<double>& x, long long k, bool reversed) {
  Sliced out;
  out.rows = static_cast<long long>(x.size()) / k;
  out.chunks = (k + kPitch - 1) / kPitch;
  out.reversed = reversed;
  out.digits.assign(static_cast<std::size_t>(out.rows * out.chunks * kOzakiSlices * kPitch), 99);
  out.exponents.resize(static_cast<std::size_t>(out.rows));
  const OzakiSliceArgs args{
      x.data(), out.digits.data(), out.exponents.data(), out.rows, k, out.chunks,
      kPitch,   reversed ? 1 : 0};
  host_cuda::launch(static_cast<unsigned>(out.rows), kOzakiThreads, [&] { ozaki_slices(args); });
  return out;
}

// The sums of each s + t of some rows, as the GEMMs of slices have them.
std::vector<int> sums_of(const Sliced& a, const Sliced& b, long long first, long long end) {
  std::vector<int> sums;
  for (long long chunk = 0; chunk < a.chunks; ++chunk)
    for (int g = 0; g < kOzakiSlices; ++g)
      for (long long i = first; i < end; ++i)
        for (long long j = 0; j < b.rows; ++j) {
          int sum = 0;
          for (int s = 0; s <= g; ++s)
            for (long long l = 0; l < kPitch; ++l)
              sum += a.digit(chunk, i, s, l) * b.digit(chunk, j, g - s, l);
          sums.push_back(sum);
        }
  return sums;
}

// x [m, k] times y [n, k] transposed.
std::vector<double> multiply(const std::vector<double>& x, const std::vector<double>& y,
                             long long k) {
  const Sliced a = slice(x, k, false);
  const Sliced b = slice(y, k, true);
  std::vector<double> c(static_cast<std::size_t>(a.rows * b.rows));
  MatmulArgs args{};
  args.a = x.data();
  args.b = y.data();
  args.c = c.data();
  args.m = a.rows;
  args.n = b.rows;
  args.k = k;
  args.a_m = args.b_n = k;
  args.a_k = args.b_k = 1;
  args.c_m = b.rows;
  args.c_n = args.num_batches = 1;
  for (long long first = 0; first < a.rows; first += 3) {
    const long long end = std::min(first + 3, a.rows);
    const std::vector<int> sums = sums_of(a, b, first, end);
    const OzakiSumArgs of{sums.data(), a.exponents.data(), b.exponents.data(),
                          first,       end - first,        a.chunks};
    host_cuda::launch(Dim3{1, 2, 1}, kOzakiThreads, [&] { ozaki_sum(args, of); });
  }
  return c;
}

std::vector<double> draw(std::size_t count, int spread) {
  std::mt19937 bits(5);
  std::normal_distribution<double> numbers;
  std::uniform_int_distribution<int> powers(-spread, spread);
  std::vector<double> x(count);
  for (double& v : x) v = std::ldexp(numbers(bits), powers(bits));
  return x;
}

TEST(Ozaki, DigitsGiveBackTheNumbers) {
  std::vector<double> x = draw(4 * 37, 5);
  for (int l = 0; l < 37; ++l) x[static_cast<std::size_t>(l)] = std::ldexp(1.0 + l, -1074);
  x[40] = 0.0;
  for (int l = 0; l < 37; ++l) x[static_cast<std::size_t>(111 + l)] = 0.0;
  for (const bool reversed : {false, true}) {
    const Sliced out = slice(x, 37, reversed);
    for (long long row = 0; row < 4; ++row)
      for (long long l = 0; l < out.chunks * kPitch; ++l) {
        long double sum = 0;
        for (int s = 0; s < kOzakiSlices; ++s)
          sum = sum * 256 + out.digit(l / kPitch, row, s, l % kPitch);
        const long double want = l < 37 ? x[static_cast<std::size_t>(row * 37 + l)] : 0.0;
        const int e = out.exponents[static_cast<std::size_t>(row)];
        EXPECT_LE(std::abs(std::ldexp(sum, e - 62) - want), std::ldexp(0.5L, e - 62));
        EXPECT_LE(std::abs(want), std::ldexp(1.0L, e));
      }
  }
}

TEST(Ozaki, WithinTheBound) {
  const long long k = 37;
  for (const int spread : {0, 3, 40}) {
    const std::vector<double> x = draw(5 * 37, spread);
    const std::vector<double> y = draw(3 * 37, spread);
    const std::vector<double> c = multiply(x, y, k);
    for (long long i = 0; i < 5; ++i)
      for (long long j = 0; j < 3; ++j) {
        long double want = 0;
        double largest_x = 0;
        double largest_y = 0;
        for (long long l = 0; l < k; ++l) {
          const double u = x[static_cast<std::size_t>(i * k + l)];
          const double v = y[static_cast<std::size_t>(j * k + l)];
          want += static_cast<long double>(u) * v;
          largest_x = std::max(largest_x, std::abs(u));
          largest_y = std::max(largest_y, std::abs(v));
        }
        const double got = c[static_cast<std::size_t>(i * 3 + j)];
        const double bound = static_cast<double>(k) * std::ldexp(largest_x * largest_y, -57) +
                             std::ldexp(std::abs(got), -52);
        EXPECT_LE(std::abs(static_cast<double>(got - want)), bound) << spread;
      }
  }
}

TEST(Ozaki, InfinitiesAndNan) {
  const double inf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> x = {1, inf, 2, 1, 1, 1, nan, 1, 1, inf, -inf, 1};  // [4, 3]
  const std::vector<double> y = {1, 1, 1, 1, 0, 1};                             // [2, 3]
  const std::vector<double> c = multiply(x, y, 3);
  EXPECT_EQ(c[0], inf);
  EXPECT_TRUE(std::isnan(c[1]));
  EXPECT_EQ(c[2], 3.0);
  EXPECT_EQ(c[3], 2.0);
  EXPECT_TRUE(std::isnan(c[4]));
  EXPECT_TRUE(std::isnan(c[6]));
  EXPECT_TRUE(std::isnan(c[7]));
}

}  // namespace
}  // namespace gpk

// The kernels of native/kernels/fft on the host, against a sum in long double.
#include "host_cuda/host_cuda.h"
// First: CUDA's built-ins.
#include <gtest/gtest.h>

#include <complex>
#include <random>

#include "fft/block.cuh"
#include "fft/bluestein.cuh"
#include "fft/general.cuh"
#include "fft/merge.cuh"

namespace gpk {
namespace {

using Wide = std::complex<long double>;

std::size_t as_size(long long x) { return static_cast<std::size_t>(x); }

Wide turn(long long num, long long den) {
  const long double angle =
      -2 * std::acos(-1.0L) * static_cast<long double>(num % den) / static_cast<long double>(den);
  return {std::cos(angle), std::sin(angle)};
}

std::vector<Wide> dft(const std::vector<Wide>& x) {
  const auto n = static_cast<long long>(x.size());
  std::vector<Wide> y(x.size());
  for (long long k = 0; k < n; ++k)
    for (long long i = 0; i < n; ++i) y[as_size(k)] += x[as_size(i)] * turn(i * k, n);
  return y;
}

template <class T>
std::vector<T> normal(long long count, unsigned seed) {
  std::mt19937 bits(seed);
  std::normal_distribution<double> draw;
  std::vector<T> values(as_size(count));
  for (T& value : values) {
    if constexpr (kIsComplex<T>) {
      value.re = static_cast<decltype(value.re)>(draw(bits));
      value.im = static_cast<decltype(value.im)>(draw(bits));
    } else {
      value = static_cast<T>(draw(bits));
    }
  }
  return values;
}

template <class R>
Wide wide(Complex<R> x) {
  return {x.re, x.im};
}

// Relative to the root mean square of the results.
template <class R>
void expect_close(const std::vector<Complex<R>>& got, const std::vector<Wide>& want, long long n) {
  ASSERT_EQ(got.size(), want.size());
  long double norm = 0;
  long double error = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    norm += std::norm(want[i]);
    error = std::max(error, std::abs(wide(got[i]) - want[i]));
  }
  norm = std::sqrt(norm / static_cast<long double>(got.size()));
  const long double eps = std::is_same_v<R, float> ? 0x1p-23L : 0x1p-52L;
  EXPECT_LT(error, norm * eps * 2 * (1 + std::log2(static_cast<long double>(n)))) << "n " << n;
}

FftArgs basic_args(int n, int batch, int group) {
  FftArgs args{};
  args.coords[0] = {batch, n, n, 0, 0};
  args.in_stride = args.out_stride = 1;
  args.sign = args.scale_re = args.scale_im = 1;
  args.in_step = args.out_step = 1;
  args.length = args.valid = args.count = args.n = n;
  args.tiles = static_cast<unsigned>((batch + group - 1) / group);
  args.num_coords = 1;
  args.group = group;
  args.pitch = n + n / 16 + 1;
  args.rounds = 1;
  args.in_pairs = args.out_pairs = 1;
  return args;
}

void set_radices(FftArgs& args, std::initializer_list<int> radices) {
  for (const int radix : radices) args.radices[args.num_stages++] = radix;
}

// --- fft_block ----------------------------------------------------------------------------------

template <class R, int kT, int kG, FftSide kIn, FftSide kOut, int... kRadices>
void check_block(int batch) {
  constexpr int kN = fft_product(kRadices...);
  constexpr int kPitch = kN + kN / 16 + 1;
  const auto x = normal<Complex<R>>(batch * kN, 1);
  std::vector<Complex<R>> y(x.size());
  FftArgs args = basic_args(kN, batch, kG);
  const bool in_row = kIn == FftSide::kRow;
  const bool out_row = kOut == FftSide::kRow;
  args.coords[0] = {batch, in_row ? kN : 1, out_row ? kN : 1, 0, 0};
  args.in_stride = in_row ? 1 : batch;
  args.out_stride = out_row ? 1 : batch;
  args.sign = -1;
  args.scale_re = 0.5;
  args.scale_im = -0.5;
  args.valid = kN - 1;
  args.in = x.data();
  args.out = y.data();
  host_cuda::launch(args.tiles, kT * kG, [&] {
    fft_block<R, kT, kG, kPitch, kIn, kOut, FftFetch::kComplex, FftPut::kComplex, false,
              kRadices...>(args);
  });
  for (int b = 0; b < batch; ++b) {
    std::vector<Wide> in(kN);
    std::vector<Complex<R>> got(kN);
    for (int i = 0; i < kN; ++i) {
      in[as_size(i)] =
          i == kN - 1 ? Wide(0) : std::conj(wide(x[as_size(in_row ? b * kN + i : i * batch + b)]));
      got[as_size(i)] = y[as_size(out_row ? b * kN + i : i * batch + b)];
    }
    std::vector<Wide> want = dft(in);
    for (Wide& value : want) value = std::conj(value) / 2.0L;
    expect_close(got, want, kN);
  }
}

constexpr FftSide kRow = FftSide::kRow;
constexpr FftSide kColumn = FftSide::kColumn;

TEST(HostFft, EveryRadix) {
  check_block<float, 1, 4, kRow, kRow, 2>(5);
  check_block<float, 1, 4, kRow, kRow, 3>(5);
  check_block<float, 1, 4, kRow, kRow, 4>(5);
  check_block<double, 1, 4, kRow, kRow, 5>(5);
  check_block<double, 1, 4, kRow, kRow, 7>(5);
  check_block<float, 1, 4, kRow, kRow, 8>(5);
  check_block<double, 1, 4, kRow, kRow, 11>(5);
  check_block<double, 1, 4, kRow, kRow, 13>(5);
  check_block<double, 1, 4, kRow, kRow, 16>(5);
  check_block<float, 1, 4, kRow, kRow, 6>(5);
  check_block<double, 1, 4, kRow, kRow, 9>(5);
  check_block<float, 1, 4, kRow, kRow, 10>(5);
  check_block<double, 1, 4, kRow, kRow, 12>(5);
  check_block<float, 1, 4, kRow, kRow, 14>(5);
  check_block<double, 1, 4, kRow, kRow, 15>(5);
}

TEST(HostFft, StagesOfABlock) {
  check_block<float, 8, 4, kRow, kRow, 8, 8>(6);
  check_block<double, 16, 2, kRow, kRow, 16, 16>(3);
  check_block<float, 64, 1, kRow, kRow, 16, 8, 8>(2);
  check_block<float, 25, 2, kRow, kRow, 16, 5, 5>(3);
  check_block<double, 13, 3, kRow, kRow, 13, 11>(4);
  check_block<float, 4, 8, kRow, kRow, 4, 2>(9);
  check_block<double, 20, 2, kRow, kRow, 15, 8, 5>(3);
  check_block<float, 20, 1, kRow, kRow, 10, 10, 2>(2);
  check_block<float, 27, 1, kRow, kRow, 9, 9, 3>(2);
}

TEST(HostFft, RowsAndColumns) {
  check_block<float, 8, 8, kColumn, kColumn, 8, 8>(13);
  check_block<float, 16, 4, kRow, kColumn, 16, 4>(6);
  check_block<double, 7, 4, kColumn, kRow, 7, 5>(6);
}

template <class R, int kT, int kG, int... kRadices>
void check_real_block(int batch, bool pairs) {
  constexpr int kN = fft_product(kRadices...);
  constexpr int kPitch = kN + kN / 16 + 1;
  const auto x = normal<R>(batch * 2 * kN, 2);
  std::vector<Complex<R>> y(as_size(batch * (kN + 1)));
  FftArgs args = basic_args(kN, batch, kG);
  args.coords[0] = {batch, 2 * kN, kN + 1, 0, 0};
  args.valid = 2 * kN;
  args.count = kN + 1;
  args.in = x.data();
  args.out = y.data();
  args.in_pairs = args.out_pairs = pairs ? 1 : 0;
  host_cuda::launch(args.tiles, kT * kG, [&] {
    fft_block<R, kT, kG, kPitch, kRow, kRow, FftFetch::kPacked, FftPut::kHalf, false, kRadices...>(
        args);
  });
  std::vector<R> back(x.size());
  FftArgs inverse = basic_args(kN, batch, kG);
  inverse.coords[0] = {batch, kN + 1, 2 * kN, 0, 0};
  inverse.valid = kN + 1;
  inverse.sign = -1;
  inverse.in = y.data();
  inverse.out = back.data();
  inverse.in_pairs = inverse.out_pairs = args.in_pairs;
  host_cuda::launch(args.tiles, kT * kG, [&] {
    fft_block<R, kT, kG, kPitch, kRow, kRow, FftFetch::kHalf, FftPut::kPacked, false, kRadices...>(
        inverse);
  });
  for (int b = 0; b < batch; ++b) {
    std::vector<Wide> in(2 * kN);
    for (int i = 0; i < 2 * kN; ++i) in[as_size(i)] = x[as_size(b * 2 * kN + i)];
    std::vector<Wide> want = dft(in);
    want.resize(kN + 1);
    const auto first = y.begin() + b * (kN + 1);
    expect_close(std::vector<Complex<R>>(first, first + kN + 1), want, 2 * kN);
    std::vector<Complex<R>> returned;
    for (int i = 0; i < 2 * kN; ++i)
      returned.push_back({back[as_size(b * 2 * kN + i)] / R(2 * kN), R(0)});
    expect_close(returned, in, 2 * kN);
  }
}

TEST(HostFft, RealBlocks) {
  check_real_block<float, 8, 4, 8, 8>(5, true);
  check_real_block<double, 5, 2, 5, 3>(3, false);
  check_real_block<float, 1, 8, 2>(9, true);
}

// --- several passes -----------------------------------------------------------------------------

// n = 16 * 8 * 4 in three passes; fft_block, or fft_general for the same arguments.
template <class R>
void check_passes(bool general) {
  constexpr int kN1 = 16;
  constexpr int kN2 = 8;
  constexpr int kN3 = 4;
  constexpr int kN = kN1 * kN2 * kN3;
  constexpr int kBatch = 2;
  constexpr int kG = 2;
  const auto x = normal<Complex<R>>(kBatch * kN, 3);
  std::vector<Complex<R>> scratch(x.size());
  std::vector<Complex<R>> y(x.size());
  FftArgs first = basic_args(kN1, kN2 * kN3, kG);
  first.in = x.data();
  first.out = scratch.data();
  first.coords[0] = {kN2 * kN3, 0, 0, 1, 1};
  first.coords[1] = {kBatch, kN, kN, 0, 0};
  first.num_coords = 2;
  first.in_step = first.out_step = kN2 * kN3;
  first.root = first.valid = first.count = kN;
  first.in_side = first.out_side = kColumn;
  first.twist = FftTwist::kTwiddle;
  FftArgs second = first;
  second.n = kN2;
  second.in = scratch.data();
  second.coords[0] = {kN3, 0, 0, 1, 1};
  second.coords[1] = {kN1, kN2 * kN3, kN2 * kN3, 0, 0};
  second.coords[2] = {kBatch, kN, kN, 0, 0};
  second.num_coords = 3;
  second.in_step = second.out_step = kN3;
  second.root = kN2 * kN3;
  second.tiles = kN3 / kG;
  FftArgs third = second;
  third.n = kN3;
  third.out = y.data();
  third.coords[0] = {kN1, kN2 * kN3, 0, 0, 1};
  third.coords[1] = {kN2, kN3, 0, 0, kN1};
  third.in_step = 1;
  third.out_step = kN1 * kN2;
  third.tiles = kN1 / kG;
  third.in_side = kRow;
  third.twist = FftTwist::kNone;
  const auto run = [&](FftArgs& args, unsigned blocks, unsigned threads, const auto& block,
                       std::initializer_list<int> radices) {
    args.pitch = args.n + args.n / 16 + 1;
    set_radices(args, radices);
    if (general) {
      host_cuda::launch(blocks, kFftGeneralThreads, [&] { fft_general<R>(args); });
    } else {
      host_cuda::launch(blocks, threads, block);
    }
  };
  run(first, first.tiles * kBatch, 4 * kG,
      [&] {
        fft_block<R, 4, kG, 18, kColumn, kColumn, FftFetch::kComplex, FftPut::kComplex, true, 4, 4>(
            first);
      },
      {4, 4});
  run(second, second.tiles * kN1 * kBatch, 2 * kG,
      [&] {
        fft_block<R, 2, kG, 9, kColumn, kColumn, FftFetch::kComplex, FftPut::kComplex, true, 4, 2>(
            second);
      },
      {4, 2});
  run(third, third.tiles * kN2 * kBatch, 2 * kG,
      [&] {
        fft_block<R, 2, kG, 9, kRow, kColumn, FftFetch::kComplex, FftPut::kComplex, false, 2, 2>(
            third);
      },
      {2, 2});
  for (int b = 0; b < kBatch; ++b) {
    std::vector<Wide> in;
    for (int i = 0; i < kN; ++i) in.push_back(wide(x[as_size(b * kN + i)]));
    const auto begin = y.begin() + b * kN;
    expect_close(std::vector<Complex<R>>(begin, begin + kN), dft(in), kN);
  }
}

TEST(HostFft, ThreePasses) {
  check_passes<float>(false);
  check_passes<double>(true);
}

// --- fft_general --------------------------------------------------------------------------------

template <class R>
void check_general(std::initializer_list<int> radices, int batch, int group, FftSide side) {
  int n = 1;
  for (const int radix : radices) n *= radix;
  const auto x = normal<Complex<R>>(batch * n, 4);
  std::vector<Complex<R>> y(x.size());
  FftArgs args = basic_args(n, batch, group);
  set_radices(args, radices);
  args.in = x.data();
  args.out = y.data();
  args.in_side = args.out_side = side;
  if (side == kColumn) {
    args.coords[0] = {batch, 1, 1, 0, 0};
    args.in_stride = args.out_stride = batch;
  }
  host_cuda::launch(args.tiles, kFftGeneralThreads, [&] { fft_general<R>(args); });
  for (int b = 0; b < batch; ++b) {
    std::vector<Wide> in;
    std::vector<Complex<R>> got;
    for (int i = 0; i < n; ++i) {
      const auto at = as_size(side == kRow ? b * n + i : i * batch + b);
      in.push_back(wide(x[at]));
      got.push_back(y[at]);
    }
    expect_close(got, dft(in), n);
  }
}

TEST(HostFft, GeneralLengths) {
  check_general<float>({16, 8}, 3, 2, kRow);
  check_general<double>({3, 5, 7}, 3, 2, kColumn);
  check_general<float>({13, 11}, 2, 1, kRow);
  check_general<double>({4, 2, 3}, 5, 4, kColumn);
  check_general<float>({}, 3, 2, kRow);
}

// Odd real lengths, and even ones by pairs.
template <class R>
void check_general_real(std::initializer_list<int> radices, bool packed) {
  int n = packed ? 2 : 1;
  for (const int radix : radices) n *= radix;
  constexpr int kBatch = 3;
  const int half = n / 2 + 1;
  const auto x = normal<R>(kBatch * n, 5);
  std::vector<Complex<R>> y(as_size(kBatch * half));
  std::vector<R> back(x.size());
  const int length = packed ? n / 2 : n;
  FftArgs args = basic_args(length, kBatch, 2);
  set_radices(args, radices);
  args.coords[0] = {kBatch, n, half, 0, 0};
  args.in = x.data();
  args.out = y.data();
  args.valid = n;
  args.count = half;
  args.fetch = packed ? FftFetch::kPacked : FftFetch::kReal;
  args.put = packed ? FftPut::kHalf : FftPut::kComplex;
  host_cuda::launch(args.tiles, kFftGeneralThreads, [&] { fft_general<R>(args); });
  FftArgs inverse = args;
  inverse.coords[0] = {kBatch, half, n, 0, 0};
  inverse.in = y.data();
  inverse.out = back.data();
  inverse.valid = half;
  inverse.count = length;
  inverse.sign = -1;
  inverse.fetch = packed ? FftFetch::kHalf : FftFetch::kHermitian;
  inverse.put = packed ? FftPut::kPacked : FftPut::kReal;
  host_cuda::launch(args.tiles, kFftGeneralThreads, [&] { fft_general<R>(inverse); });
  for (int b = 0; b < kBatch; ++b) {
    std::vector<Wide> in;
    std::vector<Complex<R>> returned;
    for (int i = 0; i < n; ++i) {
      in.emplace_back(x[as_size(b * n + i)]);
      returned.push_back({back[as_size(b * n + i)] / R(n), R(0)});
    }
    std::vector<Wide> want = dft(in);
    want.resize(as_size(half));
    const auto first = y.begin() + b * half;
    expect_close(std::vector<Complex<R>>(first, first + half), want, n);
    expect_close(returned, in, n);
  }
}

TEST(HostFft, GeneralReal) {
  check_general_real<float>({5, 3}, false);
  check_general_real<double>({5, 3}, true);
  check_general_real<float>({4, 2}, true);
  check_general_real<float>({}, true);
}

// n points by convolutions of m, the product of the radices; in fft_general or fft_bluestein.
template <class R, int kT, FftSide kSide, int... kRadices>
void check_bluestein(int n, bool general) {
  constexpr int kM = fft_product(kRadices...);
  constexpr int kBatch = 3;
  constexpr int kG = 2;
  constexpr int kPitch = kM + kM / 16 + 1;
  FftArgs filter = basic_args(kM, 1, 1);
  std::vector<Complex<R>> table(kM);
  filter.out = table.data();
  filter.fetch = FftFetch::kFilter;
  filter.chirp_n = static_cast<unsigned>(n);
  filter.scale_re = filter.scale_im = 1.0 / kM;
  set_radices(filter, {kRadices...});
  host_cuda::launch(1, kFftGeneralThreads, [&] { fft_general<R>(filter); });
  const auto x = normal<Complex<R>>(kBatch * n, 6);
  std::vector<Complex<R>> y(x.size());
  FftArgs args = basic_args(kM, kBatch, kG);
  set_radices(args, {kRadices...});
  const bool row = kSide == kRow;
  args.coords[0] = {kBatch, row ? n : 1, row ? n : 1, 0, 0};
  args.in_stride = args.out_stride = row ? 1 : kBatch;
  args.in_side = args.out_side = kSide;
  args.in = x.data();
  args.out = y.data();
  args.table = table.data();
  args.valid = args.count = n;
  args.chirp_n = static_cast<unsigned>(n);
  args.chirp = 1;
  args.rounds = 2;
  args.twist = FftTwist::kChirp;
  if (general) {
    host_cuda::launch(args.tiles, kFftGeneralThreads, [&] { fft_general<R>(args); });
  } else {
    host_cuda::launch(args.tiles, kT * kG, [&] {
      fft_bluestein<R, kT, kG, kPitch, kSide, kSide, FftFetch::kComplex, FftPut::kComplex,
                    kRadices...>(args);
    });
  }
  for (int b = 0; b < kBatch; ++b) {
    std::vector<Wide> in;
    std::vector<Complex<R>> got;
    for (int i = 0; i < n; ++i) {
      const auto at = as_size(row ? b * n + i : i * kBatch + b);
      in.push_back(wide(x[at]));
      got.push_back(y[at]);
    }
    expect_close(got, dft(in), kM);
  }
}

TEST(HostFft, Bluestein) {
  check_bluestein<double, 1, kRow, 16, 5>(37, true);
  check_bluestein<double, 5, kRow, 16, 5>(37, false);
  check_bluestein<float, 8, kRow, 8, 8>(31, false);
  check_bluestein<float, 5, kColumn, 16, 5>(37, false);
}

TEST(HostFft, Merge) {
  constexpr int kN = 300;
  constexpr int kBatch = 2;
  const auto x = normal<double>(kBatch * 2 * kN, 7);
  std::vector<Complex<double>> y(kBatch * (kN + 1));
  std::vector<Wide> want;
  for (int b = 0; b < kBatch; ++b) {
    std::vector<Wide> pairs;
    std::vector<Wide> in;
    for (int i = 0; i < kN; ++i) {
      const std::size_t at = as_size(2 * (b * kN + i));
      pairs.emplace_back(x[at], x[at + 1]);
      in.emplace_back(x[at]);
      in.emplace_back(x[at + 1]);
    }
    const std::vector<Wide> z = dft(pairs);
    for (int i = 0; i < kN; ++i)
      y[as_size(b * (kN + 1) + i)] = {static_cast<double>(z[as_size(i)].real()),
                                      static_cast<double>(z[as_size(i)].imag())};
    const std::vector<Wide> whole = dft(in);
    want.insert(want.end(), whole.begin(), whole.begin() + kN + 1);
  }
  FftArgs args = basic_args(kN, kN / 2 + 1, kFftMergeThreads);
  args.coords[0] = {kN / 2 + 1, 0, 0, 0, 0};
  args.coords[1] = {kBatch, 0, kN + 1, 0, 0};
  args.num_coords = 2;
  args.count = kN + 1;
  args.out = y.data();
  host_cuda::launch(args.tiles * kBatch, kFftMergeThreads, [&] { fft_merge<double>(args); });
  expect_close(y, want, 2 * kN);
}

}  // namespace
}  // namespace gpk

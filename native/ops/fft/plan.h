// From a transform along one axis to passes over memory, and from a pass to a kernel.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/args/fft.h"

namespace gpk::ops::fft {

using kernels::FftFetch;
using kernels::FftPut;
using kernels::FftSide;

enum class FftKind : std::uint8_t { kComplex, kToReal, kFromReal, kComplexOfReal };

struct FftDesc {
  FftKind kind = FftKind::kComplex;
  std::int64_t n = 1;  // points of the transform, of the real side where there is one
  bool wide = false;   // float64
  // Whether the elements along the axis are adjacent in memory.
  bool in_row = true;
  bool out_row = true;
  friend bool operator==(const FftDesc&, const FftDesc&) = default;
};

// What the GPU and the build allow.
struct FftLimits {
  std::size_t shared_bytes = 49152;
  bool general = false;  // only kernels of the PTX bundle
};

// The transforms of a block.
struct FftShape {
  bool block = false;  // fft_block, else fft_general
  int n = 1;
  std::array<int, kernels::kFftMaxStages> radices{};
  int num_stages = 0;
  int threads_each = 1;  // of a transform; fft_block
  int group = 1;
  int pitch = 1;  // of a transform in shared memory
  int threads = 1;
  std::size_t shared_bytes = 0;
  friend bool operator==(const FftShape&, const FftShape&) = default;
};

struct FftPass {
  FftShape shape;
  FftSide in = FftSide::kRow;
  FftSide out = FftSide::kRow;
  FftFetch fetch = FftFetch::kComplex;
  FftPut put = FftPut::kComplex;
  bool twiddle = false;
};

struct FftPlan {
  bool bluestein = false;
  int length = 1;  // of the complex transforms: n, n / 2 for pairs of reals, or the convolution's
  FftFetch fetch = FftFetch::kComplex;
  FftPut put = FftPut::kComplex;
  bool merge = false;           // a real transform in several passes has one more
  std::vector<FftPass> passes;  // 1 to 3; of a convolution in several passes: of each transform
  std::vector<FftPass> filter;  // Bluestein's: of its filter
};

inline constexpr std::int64_t kMaxLength = std::int64_t{1} << 30;
inline constexpr std::int64_t kMaxPrimeLength = std::int64_t{1} << 29;

// Whether n has no prime factor above 13.
bool is_smooth(std::int64_t n);
// Smallest even n' >= n without prime factors above 5.
std::int64_t next_smooth(std::int64_t n);

// Pure. n is 1 to kMaxLength, kMaxPrimeLength where it is not smooth.
FftPlan plan_fft(const FftDesc& desc, const FftLimits& limits);
// "fft(n=4096): block 16x16x16, 1 x 256 threads, row to row"
std::string to_string(const FftPlan& plan);

}  // namespace gpk::ops::fft

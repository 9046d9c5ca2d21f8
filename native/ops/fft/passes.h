// The passes of a complex transform, launched.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "core/array.h"
#include "core/launch.h"
#include "kernels/args/fft.h"
#include "ops/fft/kernels.h"
#include "ops/fft/plan.h"

namespace gpk::ops::fft {

// A kernel with its arguments and the arrays it touches (nullptr: none).
struct FftLaunch {
  FftKernel kernel;
  bool wide;
  FftPass pass;
  kernels::FftArgs args;
  LaunchConfig config;
  std::span<const Array* const> arrays;
};

struct FftTarget {
  bool wide = false;
  Device device;
  const char* op = nullptr;
  std::function<void(FftLaunch&)> submit;
};

// FftTarget::submit on a GPU.
void submit_to_gpu(FftLaunch& launch);

// Where the transforms read and write, and what is done to their elements on the way.
struct FftEnds {
  const Array* in = nullptr;  // FftFetch::kFilter reads nothing
  const Array* out = nullptr;
  const Array* table = nullptr;
  std::vector<kernels::FftCoord> coords;  // of transforms
  std::int64_t in_stride = 1, out_stride = 1;
  bool in_pairs = false, out_pairs = false;
  int valid = 0, count = 0;
  int length = 0;         // see FftArgs
  unsigned chirp_n = 0;   // 0: not Bluestein's
  bool chirp_in = false;  // inputs are multiplied by the chirp
  kernels::FftTwist twist = kernels::FftTwist::kNone;
  double sign = 1.0, scale_re = 1.0, scale_im = 1.0;
  int rounds = 1;  // one pass only
};

// Complex transforms of the product of the passes' lengths. Several passes need one coordinate of
// FftArgs for each pass but one.
void launch_passes(const FftTarget& target, const std::vector<FftPass>& passes,
                   const FftEnds& ends);

// FftPut::kHalf after several passes, in ends.out; n is the length of the complex transforms.
void launch_merge(const FftTarget& target, int n, const FftEnds& ends);

// Coordinates of transforms that are one after another in a scratch array, `length` apart: as
// input, as output.
std::vector<kernels::FftCoord> from_scratch(std::vector<kernels::FftCoord> coords,
                                            std::int64_t length);
std::vector<kernels::FftCoord> to_scratch(std::vector<kernels::FftCoord> coords,
                                          std::int64_t length);
// Room for all of them.
Array scratch_for(const FftTarget& target, const std::vector<kernels::FftCoord>& coords,
                  std::int64_t length);

}  // namespace gpk::ops::fft

// Counter-based random numbers: the same seed and position give the same numbers on every device,
// whatever the launch shape. The words of a stream and their mapping to elements are defined in
// kernels/common/philox.cuh and kernels/random/draw.cuh, and mirrored in
// pygpukit/_reference/random.py.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>

#include "core/array.h"
#include "core/scalar.h"

namespace gpk::ops {

// Position in a stream: a Philox key and a 96-bit counter in blocks of four words.
struct RandomState {
  std::uint64_t key = 0;
  std::uint64_t position_low = 0;
  std::uint32_t position_high = 0;
};

// The result to generate, and its name in messages. `out` must have that shape and dtype.
struct RandomResult {
  const char* op;
  Dims shape;
  DType dtype;
  Device device;
  std::optional<Array> out;
};

// Number of blocks for `count` elements: a block gives 2 elements for 64-bit draws, else 4.
std::int64_t random_blocks(std::int64_t count, bool wide);

// low + (high - low) * u with u in [0, 1); floating dtypes. kOverflow when high - low is not
// finite in the dtype's arithmetic, kValue when it is negative.
Array random_uniform(const RandomResult& result, double low, double high, const RandomState& state);

// Floating dtypes; `scale` must not be negative.
Array random_normal(const RandomResult& result, double loc, double scale, const RandomState& state);
Array random_exponential(const RandomResult& result, double scale, const RandomState& state);

// Integers from low to high, inclusive; integer dtypes and bool. Draws are 64 bits wide when high -
// low >= 2**32.
Array random_integers(const RandomResult& result, const Scalar& low, const Scalar& high,
                      const RandomState& state);

// bool: true with a probability in [0, 1].
Array random_bernoulli(const RandomResult& result, double probability, const RandomState& state);

// A parameter of the draws below: a number, or an array with the result's device that broadcasts to
// its shape. Numbers are checked; elements of arrays are not, since that would synchronise: where
// one is invalid the result is NaN, or -1 for integers.
using RandomParameter = std::variant<double, Array>;

// Element i takes block i of the stream, as many attempts as it needs: `count` blocks in all.
// Floating dtypes; shape and scale must not be negative.
Array random_gamma(const RandomResult& result, const RandomParameter& shape,
                   const RandomParameter& scale, const RandomState& state);

// int64. `mean` is at most 2**63 - 10 * 2**31.5, so that no number overflows.
Array random_poisson(const RandomResult& result, const RandomParameter& mean,
                     const RandomState& state);

// int64. `n` is a whole number of at most 2**53.
Array random_binomial(const RandomResult& result, const RandomParameter& n,
                      const RandomParameter& probability, const RandomState& state);

}  // namespace gpk::ops

// Random numbers from a counter: the same seed and position give the same numbers on every device,
// whatever the shape of the launch. The words of a stream and how they map to elements are defined
// in kernels/random/philox.cuh and draw.cuh, and again in pygpukit/_reference/random.py.
#pragma once

#include <cstdint>
#include <optional>

#include "core/array.h"
#include "core/scalar.h"

namespace gpk::ops {

// Where numbers are taken from: a Philox key and a position of 96 bits in blocks of four words.
struct RandomState {
  std::uint64_t key = 0;
  std::uint64_t position_low = 0;
  std::uint32_t position_high = 0;
};

// What to make, and what messages call it. `out` must have that shape and dtype.
struct RandomResult {
  const char* op;
  Dims shape;
  DType dtype;
  Device device;
  std::optional<Array> out;
};

// Blocks that `count` elements use: 2 elements of a block for draws of 64 bits, else 4.
std::int64_t random_blocks(std::int64_t count, bool wide);

// low + (high - low) * u with u in [0, 1); floating dtypes. kOverflow when high - low is not
// finite in the dtype's arithmetic, kValue when it is negative.
Array random_uniform(const RandomResult& result, double low, double high, const RandomState& state);

// Floating dtypes; `scale` not negative.
Array random_normal(const RandomResult& result, double loc, double scale, const RandomState& state);
Array random_exponential(const RandomResult& result, double scale, const RandomState& state);

// Integers from low to high, both included; integer dtypes and bool. Draws are wide when
// high - low >= 2**32.
Array random_integers(const RandomResult& result, const Scalar& low, const Scalar& high,
                      const RandomState& state);

// bool: true with a probability in [0, 1].
Array random_bernoulli(const RandomResult& result, double probability, const RandomState& state);

}  // namespace gpk::ops

// The kernels behind random.h.
#pragma once

#include <vector>

#include "jit/builtin.h"
#include "ops/random/random.h"

namespace gpk::ops::random {

enum class DrawKind : std::uint8_t {
  kUniform,
  kNormal,
  kExponential,
  kInteger,
  kWideInteger,  // of 64 bits
  kBernoulli,
};

// The op a draw belongs to: "random_uniform".
const char* draw_op(DrawKind kind);

// How the elements of an array are partitioned: Philox blocks per store, elements per store.
struct GeneratePlan {
  int blocks = 1;
  int elems = 4;
  bool aligned = true;  // the array is aligned to the store size
  unsigned num_blocks = 0;
  friend bool operator==(const GeneratePlan&, const GeneratePlan&) = default;
};
GeneratePlan plan_generate(DrawKind kind, DType dtype, std::int64_t count, std::uintptr_t address);
std::string to_string(const GeneratePlan& plan);

// Fills a contiguous array on a GPU. `draw` points at the draw's struct of kernels/args/random.h.
void launch_generate(const Array& out, const RandomState& state, DrawKind kind, const void* draw);

void enumerate_generate(std::vector<jit::KernelSpec>& specs);

}  // namespace gpk::ops::random

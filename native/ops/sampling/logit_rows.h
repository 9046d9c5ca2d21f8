// Rows of logits, and the thread blocks that share one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/array.h"
#include "core/device.h"
#include "core/launch.h"
#include "core/module.h"
#include "kernels/args/sampling.h"
#include "ops/nn/rows.h"
#include "ops/sampling/kernels.h"

namespace gpk::ops::sampling {

// Most columns: their masses, of 40 bits, add up in 64 bits.
inline constexpr std::int64_t kMaxVocabulary = std::int64_t{1} << 22;

// Throws unless `logits` is a float array [..., vocabulary].
void check_logits(const Array& logits, const char* op);
// The shape without the last axis.
Dims rows_shape(const Array& logits);
// Throws unless `array` has that shape and dtype, and the device of the logits.
void check_array(const Array& logits, const Array& array, const char* argument, DType dtype,
                 const Dims& shape, const char* op);

struct TeamPlan {
  int vec = 1;             // logits per access
  bool clustered = false;  // the blocks of a row are a cluster
  int blocks = 1;          // that share a row
  int slice = 0;           // tokens of each
  bool shared = true;      // slices are kept in shared memory, else in device memory
  friend bool operator==(const TeamPlan&, const TeamPlan&) = default;
};
struct TeamDesc {
  std::int64_t rows = 0;
  std::int64_t width = 0;
  std::size_t itemsize = 4;
  bool aligned = false;   // rows start at 16-byte boundaries
  bool compiles = false;  // else only the variants of the PTX bundle
};
// Results do not depend on it: sums are exact.
TeamPlan plan_team(const TeamDesc& desc, const DeviceTraits& traits);
std::string to_string(const TeamPlan& plan);  // "team(vec=8, blocks=16, slice=9496, shared)"

// Rows with their plan, ready to launch.
struct LogitRows {
  nn::Rows rows;
  TeamPlan plan;
  std::optional<Array> cache;

  LogitRows(const Array& logits, const char* op);
  [[nodiscard]] kernels::SampleRows args() const;
  [[nodiscard]] LaunchConfig config() const;
};

// A kernel template over (dtype, vec, threads, clustered).
struct TeamKernel {
  SamplingKernel kernel;
  const char* op;
  const char* file;
  const char* name;  // "gpk::sample_rows"
};
const Kernel& load(const TeamKernel& of, const LogitRows& logits);
void enumerate_team(const TeamKernel& of, std::vector<jit::KernelSpec>& specs);

}  // namespace gpk::ops::sampling

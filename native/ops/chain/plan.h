// How a chain's kernel uses shared memory, or why there is none. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "jit/builtin.h"
#include "ops/chain/recorder.h"
#include "plan/machine.h"

namespace gpk::ops::chain {

struct ChainPlan {
  Variant variant;
  int stages = 0;       // of the ring
  int stage_bytes = 0;  // multiples of 128
  int row_bytes = 0;    // of x, or of attention
  int table_bytes = 0;
  std::size_t shared_bytes = 0;
  friend bool operator==(const ChainPlan&, const ChainPlan&) = default;
};

// Throws NotChained where the recording does not fit.
ChainPlan plan_chain(const Recording& recording, const plan::Machine& machine);

std::uint64_t chain_key(const Variant& variant);
jit::KernelSpec chain_spec(const Variant& variant);

std::string to_string(const ChainPlan& plan);

}  // namespace gpk::ops::chain

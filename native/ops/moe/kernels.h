// Every kernel of the family by number, and the variants that plans choose.
#pragma once

#include <cstdint>
#include <vector>

#include "core/dtype.h"
#include "jit/builtin.h"

namespace gpk::ops::moe {

enum class MoeKernel : std::uint8_t {
  kRoute,
  kPermuteFew,
  kCount,
  kScan,
  kPlace,
  kCopy,
  kUnpermute,
};

// Threads of a block that share one row of `accesses` accesses, `each` of them in one thread: a
// power of two.
int row_lanes(std::int64_t accesses, int each);

void enumerate_route(std::vector<jit::KernelSpec>& specs);
void enumerate_permute(std::vector<jit::KernelSpec>& specs);
void enumerate_unpermute(std::vector<jit::KernelSpec>& specs);

}  // namespace gpk::ops::moe

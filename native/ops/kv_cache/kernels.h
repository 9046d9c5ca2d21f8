// Every kernel of the family by number, and the variants that plans choose.
#pragma once

#include <cstdint>
#include <vector>

#include "jit/builtin.h"

namespace gpk::ops::kv_cache {

enum class KvCacheKernel : std::uint8_t { kWrite, kCopyPages, kGatherPages, kSlotMapping };

void enumerate_write(std::vector<jit::KernelSpec>& specs);
void enumerate_pages(std::vector<jit::KernelSpec>& specs);

}  // namespace gpk::ops::kv_cache

// Real memory behind the runtime's block pools: the driver's on a GPU, plain host memory on the CPU
// backend.
#pragma once

#include <memory>

#include "core/device.h"
#include "runtime/pool/block_pool.h"
#include "runtime/pool/pinned.h"

namespace gpk {

// Blocks come from the driver, not from the pool that arrays live in. Copies wait for all work
// submitted to the device before.
std::unique_ptr<runtime::BlockDevice> make_block_device(Device device);

inline constexpr std::size_t kMaxPinnedAlignment = 4096;

// Page-locked memory on a GPU. Alignments up to kMaxPinnedAlignment.
std::unique_ptr<runtime::PinnedAllocator> make_pinned_allocator(Device device);

}  // namespace gpk

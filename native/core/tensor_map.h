// Tensor maps: descriptors for TMA copies (SM90 and later).
#pragma once

#include <cstdint>

#include "core/driver_api.h"

namespace gpk::inline core {

// Three or four dimensions, innermost first; the innermost is contiguous.
struct TensorMapSpec {
  cu::DevicePtr address = 0;       // 16-byte aligned
  int type = cu::kTensorBFloat16;  // cu::kTensor*
  std::uint32_t element_bytes = 2;
  std::uint32_t rank = 3;                 // that of the copy instructions
  std::uint64_t sizes[4] = {1, 1, 1, 1};  // elements; none is 0
  std::uint64_t pitches[3] = {0, 0, 0};   // elements from one to the next along the dimensions
                                          // after the first; in bytes multiples of 16
  std::uint32_t box[4] = {1, 1, 1, 1};    // what one copy moves, up to 256 each
  std::uint32_t swizzle_bytes = 128;      // 0, 32, 64 or 128: at least as long as a row of the box
  friend bool operator==(const TensorMapSpec&, const TensorMapSpec&) = default;
};

// Whether the driver supports them (12.0 and later).
bool has_tensor_maps();

// Throws CudaError for a spec that breaks the rules above; no GPU work is involved.
cu::TensorMap encode_tensor_map(const TensorMapSpec& spec);

}  // namespace gpk::inline core

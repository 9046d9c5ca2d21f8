// Tensor maps: descriptors for TMA copies (SM90 and later).
#pragma once

#include <cstdint>

#include "core/driver_api.h"

namespace gpk::inline core {

// Up to three dimensions, innermost first; the innermost is contiguous.
struct TensorMapSpec {
  cu::DevicePtr address = 0;       // 16-byte aligned
  int type = cu::kTensorBFloat16;  // cu::kTensor*
  std::uint32_t element_bytes = 2;
  std::uint64_t sizes[3] = {1, 1, 1};  // elements; none is 0
  std::uint64_t pitches[2] = {0, 0};   // elements between rows and between matrices; in bytes
                                       // multiples of 16
  std::uint32_t box[3] = {1, 1, 1};    // what one copy moves, up to 256 each
  std::uint32_t swizzle_bytes = 128;   // 0, 32, 64 or 128: at least as long as a row of the box
  friend bool operator==(const TensorMapSpec&, const TensorMapSpec&) = default;
};

// Whether the driver supports them (12.0 and later).
bool has_tensor_maps();

// Throws CudaError for a spec that breaks the rules above; no GPU work is involved.
cu::TensorMap encode_tensor_map(const TensorMapSpec& spec);

}  // namespace gpk::inline core

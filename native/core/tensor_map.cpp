#include "core/tensor_map.h"

#include "core/check.h"
#include "core/driver.h"

namespace gpk::inline core {
namespace {

// CUtensorMapSwizzle counts 0, 32, 64, 128 bytes.
int swizzle_of(std::uint32_t bytes) {
  switch (bytes) {
    case 32: return 1;
    case 64: return 2;
    case 128: return 3;
    default: return 0;
  }
}

}  // namespace

bool has_tensor_maps() { return driver().cuTensorMapEncodeTiled != nullptr; }

cu::TensorMap encode_tensor_map(const TensorMapSpec& spec) {
  cu::TensorMap map;
  const std::uint64_t pitch_bytes[3] = {spec.pitches[0] * spec.element_bytes,
                                        spec.pitches[1] * spec.element_bytes,
                                        spec.pitches[2] * spec.element_bytes};
  const std::uint32_t steps[4] = {1, 1, 1, 1};
  GPK_CU_CHECK(cuTensorMapEncodeTiled, &map, spec.type, spec.rank,
               reinterpret_cast<void*>(spec.address),  // NOLINT: the driver's own convention
               spec.sizes, pitch_bytes, spec.box, steps, 0, swizzle_of(spec.swizzle_bytes),
               cu::kTensorL2Promote128, 0);
  return map;
}

}  // namespace gpk::inline core

// Tensor maps: only their rules.
#include "fake_driver/fake_state.h"

namespace fake::impl {
namespace {

constexpr std::uint32_t kMaxBox = 256;
constexpr std::uint64_t kMaxPitch = std::uint64_t{1} << 40;

unsigned element_bytes(int type) {
  switch (type) {
    case kTensorUInt8: return 1;
    case kTensorFloat16:
    case kTensorBFloat16: return 2;
    default: return 4;
  }
}

}  // namespace

Result cuTensorMapEncodeTiled(TensorMap* map, int type, unsigned rank, void* address,
                              const std::uint64_t* sizes, const std::uint64_t* pitches,
                              const std::uint32_t* box, const std::uint32_t* element_steps,
                              int interleave, int swizzle, int l2_promotion, int fill) {
  const auto place = reinterpret_cast<std::uintptr_t>(address);
  if (map == nullptr || reinterpret_cast<std::uintptr_t>(map) % 64 != 0 || rank != 3 ||
      place % 16 != 0 || interleave != 0 || swizzle < 0 || swizzle > 3 || l2_promotion < 0 ||
      l2_promotion > 3 || fill != 0)
    return kInvalidValue;
  for (unsigned d = 0; d < rank; ++d) {
    if (sizes[d] == 0 || sizes[d] > (std::uint64_t{1} << 32)) return kInvalidValue;
    if (box[d] == 0 || box[d] > kMaxBox || element_steps[d] != 1) return kInvalidValue;
    if (d + 1 < rank && (pitches[d] % 16 != 0 || pitches[d] == 0 || pitches[d] >= kMaxPitch))
      return kInvalidValue;
  }
  const std::uint32_t row_bytes = box[0] * element_bytes(type);
  if (row_bytes % 16 != 0) return kInvalidValue;
  if (swizzle != 0 && row_bytes > (16U << static_cast<unsigned>(swizzle))) return kInvalidValue;
  *map = {};
  map->opaque[0] = place;
  return kSuccess;
}

}  // namespace fake::impl

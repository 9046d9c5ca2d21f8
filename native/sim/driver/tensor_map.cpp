// Tensor maps: the driver's rules, and the simulator's encoding.
#include "sim/tensor_map.h"

#include <cstring>

#include "sim/driver/machine.h"

namespace gpk::sim::driver {
namespace {

constexpr std::uint32_t kMaxBox = 256;
constexpr std::uint64_t kMaxPitch = std::uint64_t{1} << 40;
constexpr int kMaxType = 12;

unsigned element_bytes(int type) {
  switch (type) {
    case 0: return 1;
    case 1:
    case kTensorFloat16:
    case kTensorBFloat16: return 2;
    case 4:
    case 5:
    case 8: return 8;
    default: return 4;
  }
}

}  // namespace

Result cuTensorMapEncodeTiled(TensorMap* map, int type, unsigned rank, void* address,
                              const std::uint64_t* sizes, const std::uint64_t* pitches,
                              const std::uint32_t* box, const std::uint32_t* element_steps,
                              int interleave, int swizzle, int l2_promotion, int fill) {
  const auto place = reinterpret_cast<std::uintptr_t>(address);
  if (map == nullptr || reinterpret_cast<std::uintptr_t>(map) % 64 != 0 || rank == 0 ||
      rank > SimTensorMap::kMaxRank || type < 0 || type > kMaxType || place % 16 != 0 ||
      interleave < 0 || interleave > 2 || (interleave != 0 && rank < 3) || swizzle < 0 ||
      swizzle > 3 || l2_promotion < 0 || l2_promotion > 3 || fill < 0 || fill > 1)
    return kInvalidValue;
  SimTensorMap made;
  for (unsigned d = 0; d < rank; ++d) {
    if (sizes[d] == 0 || sizes[d] > (std::uint64_t{1} << 32)) return kInvalidValue;
    if (box[d] == 0 || box[d] > kMaxBox || element_steps[d] == 0 || element_steps[d] > 8)
      return kInvalidValue;
    if (d + 1 < rank && (pitches[d] % 16 != 0 || pitches[d] == 0 || pitches[d] >= kMaxPitch))
      return kInvalidValue;
    made.sizes[d] = sizes[d];
    made.box[d] = static_cast<std::uint16_t>(box[d]);
    made.element_strides[d] = static_cast<std::uint8_t>(element_steps[d]);
    if (d + 1 < rank) made.pitches[d] = pitches[d];
  }
  const std::uint32_t row_bytes = box[0] * element_bytes(type);
  if (interleave == 0 && row_bytes % 16 != 0) return kInvalidValue;
  if (interleave == 0 && swizzle != 0 && row_bytes > (16U << static_cast<unsigned>(swizzle)))
    return kInvalidValue;
  made.dtype = static_cast<std::uint8_t>(type);
  made.rank = static_cast<std::uint8_t>(rank);
  made.interleave = static_cast<std::uint8_t>(interleave);
  made.swizzle = static_cast<std::uint8_t>(swizzle);
  made.address = place;
  made.fill = static_cast<std::uint8_t>(fill);
  *map = {};
  std::memcpy(map, &made, sizeof made);
  return kSuccess;
}

}  // namespace gpk::sim::driver

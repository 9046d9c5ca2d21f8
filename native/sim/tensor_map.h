// What the simulator keeps in the 128 bytes of a CUtensorMap. Enumerators have CUDA's values
// (CUtensorMapDataType, CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapFloatOOBfill).
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpk::sim {

struct SimTensorMap {
  static constexpr std::uint32_t kMagic = 0x50414d54;  // "TMAP"
  static constexpr int kMaxRank = 5;

  std::uint32_t magic = kMagic;
  std::uint8_t dtype = 0;  // 0 u8, 1 u16, 2 u32, 3 s32, 4 u64, 5 s64, 6 f16, 7 f32, 8 f64, 9 bf16,
                           // 10 f32 ftz, 11 tf32, 12 tf32 ftz
  std::uint8_t rank = 1;   // 1 .. 5
  std::uint8_t interleave = 0;  // 0 none, 1 16 bytes, 2 32 bytes
  std::uint8_t swizzle = 0;     // 0 none, 1 32 bytes, 2 64 bytes, 3 128 bytes
  std::uint64_t address = 0;
  std::uint64_t sizes[kMaxRank] = {};        // elements, innermost first
  std::uint64_t pitches[kMaxRank - 1] = {};  // bytes, of dimension 1 ..
  std::uint16_t box[kMaxRank] = {};          // elements
  std::uint8_t element_strides[kMaxRank] = {1, 1, 1, 1, 1};
  std::uint8_t fill = 0;  // outside of the tensor: 0 zero, 1 NaN
};

static_assert(sizeof(SimTensorMap) <= 128);

}  // namespace gpk::sim

// Numbers of the family's kernels in KernelKey: one range per engine, so that keys cannot collide.
#pragma once

#include <cstdint>

namespace gpk::ops::gemm {

inline constexpr std::uint8_t kGeneralKernel = 0;  // and three more: GeneralKernel
inline constexpr std::uint8_t kFinishKernel = 4;
inline constexpr std::uint8_t kFinishWarpKernel = 5;
inline constexpr std::uint8_t kSimtKernel = 16;  // and up to 15 more, as for all below
inline constexpr std::uint8_t kMmaKernel = 32;
inline constexpr std::uint8_t kWgmmaKernel = 48;
inline constexpr std::uint8_t kGemvKernel = 64;
inline constexpr std::uint8_t kGroupedKernel = 80;
inline constexpr std::uint8_t kGroupRowsKernel = 81;
inline constexpr std::uint8_t kGroupedMmaKernel = 82;
inline constexpr std::uint8_t kGroupedWgmmaKernel = 83;
inline constexpr std::uint8_t kSwigluKernel = 96;
inline constexpr std::uint8_t kPackedKernel = 112;
inline constexpr std::uint8_t kBlockScaledKernel = 128;
inline constexpr std::uint8_t kPackedGemmKernel = 144;
inline constexpr std::uint8_t kSparseKernel = 176;
inline constexpr std::uint8_t kScaledMmaKernel = 192;
inline constexpr std::uint8_t kOzakiKernel = 160;  // slices, sum

}  // namespace gpk::ops::gemm

// Rows of A that belong to different matrices B: the layers of a mixture of experts.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "core/array.h"

namespace gpk::ops::gemm {

enum class GroupKind : std::uint8_t {
  kNone,
  kSizes,      // the first sizes[0] rows take B[0], the next sizes[1] take B[1], ...
  kOffsets,    // rows offsets[g] to offsets[g + 1] take B[g]
  kExpertIds,  // row i takes B[ids[i]]
};

// The groups of a call: on the host or on the device.
struct RowGroups {
  GroupKind kind = GroupKind::kNone;
  std::span<const std::int64_t> host;
  std::optional<Array> device;  // int32 or int64, 1-D
};

// What plans see of them.
struct GroupLayout {
  GroupKind kind = GroupKind::kNone;
  bool on_device = false;
  std::int64_t count = 0;     // matrices of B
  std::int64_t b_stride = 0;  // elements from one to the next
  friend bool operator==(const GroupLayout&, const GroupLayout&) = default;
};

std::string to_string(const GroupLayout& groups);  // "sizes on the device"

}  // namespace gpk::ops::gemm

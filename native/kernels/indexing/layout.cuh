// Common to all index kernels: the layout of an indexed copy, index values and bounds checks. An
// out-of-bounds index is reported once to a record in host memory and then treated as 0 (loads) or
// skipped (stores); the host raises at its next synchronisation.
#pragma once

#include "args/indexing.h"
#include "common/index_report.cuh"
#include "common/vec.cuh"

namespace gpk {

using namespace kernels;

// Index in [0, size), or -1 after a report. `size` > 0.
__device__ __forceinline__ long long resolve_index(long long index, long long size, int axis,
                                                   IndexMode mode, const IndexReport& report) {
  if (mode == IndexMode::kRaise || mode == IndexMode::kStrict) {
    const long long at = index < 0 && mode == IndexMode::kRaise ? index + size : index;
    if (static_cast<unsigned long long>(at) < static_cast<unsigned long long>(size)) return at;
    report_index(report, index, size, axis);
    return -1;
  }
  if (mode == IndexMode::kWrap) {
    const long long at = index % size;
    return at < 0 ? at + size : at;
  }
  return index < 0 ? 0 : (index < size ? index : size - 1);
}

struct AnyIndex {};  // the type is in the layout

template <class Index>
__device__ __forceinline__ long long load_index(const void* data, IndexType, long long at) {
  return static_cast<const Index*>(data)[at];
}

template <>
__device__ __forceinline__ long long load_index<AnyIndex>(const void* data, IndexType type,
                                                          long long at) {
  switch (type) {
    case IndexType::kInt8: return static_cast<const signed char*>(data)[at];
    case IndexType::kInt16: return static_cast<const short*>(data)[at];
    case IndexType::kInt32: return static_cast<const int*>(data)[at];
    case IndexType::kUInt8: return static_cast<const unsigned char*>(data)[at];
    case IndexType::kUInt16: return static_cast<const unsigned short*>(data)[at];
    case IndexType::kUInt32: return static_cast<const unsigned int*>(data)[at];
    default: return static_cast<const long long*>(data)[at];
  }
}

}  // namespace gpk

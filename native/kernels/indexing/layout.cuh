// What all index kernels share: the layout of an indexed copy, index values and their bounds.
// The structs mirror native/ops/indexing/layout.h and native/core/device_report.h.
// An index out of bounds is reported once to a record in host memory and then treated as 0 (loads)
// or skipped (stores); the host raises when it next waits.
#pragma once

namespace gpk {

struct alignas(16) Word16 {
  unsigned long long lo, hi;
};

enum IndexMode : int { kRaise, kWrap, kClip, kOffset, kStrict };

// An offset that selects nothing.
constexpr long long kSkip = -0x7fffffffffffffffLL - 1;

template <int kMaxDims>
struct IndexSource {
  const void* data;
  long long size;              // of the indexed axis
  long long step;              // words of side a per index
  long long stride[kMaxDims];  // elements per coordinate
  int axis;                    // for messages
  int code;                    // see load_index
};

// Coordinates run over size[0..rank), C order. Side a is the indexed array, side b the plain one;
// strides in words.
template <int kMaxDims, int kMaxIndexes>
struct IndexedLayout {
  static constexpr int kIndexes = kMaxIndexes;
  long long total;
  long long size[kMaxDims];
  long long a[kMaxDims];
  long long b[kMaxDims];
  IndexSource<kMaxDims> index[kMaxIndexes];
  int rank;  // at least 1
  int num_indexes;
  int mode;
  int unused;
};

struct IndexRecord {
  unsigned ready;
  int axis;
  unsigned long long op;
  long long index;
  long long size;
};

struct IndexReport {
  unsigned* gate;  // device memory: the first to set it writes the record
  IndexRecord* record;
  unsigned long long op;
};

__device__ __forceinline__ void report_index(const IndexReport& report, long long index,
                                             long long size, int axis) {
  if (*static_cast<volatile unsigned*>(report.gate) != 0 || atomicExch(report.gate, 1u) != 0)
    return;
  volatile IndexRecord* record = report.record;
  record->axis = axis;
  record->op = report.op;
  record->index = index;
  record->size = size;
  __threadfence_system();
  record->ready = 1;
}

// Index in [0, size), or -1 after a report. `size` > 0.
__device__ __forceinline__ long long resolve_index(long long index, long long size, int axis,
                                                   int mode, const IndexReport& report) {
  if (mode == kRaise || mode == kStrict) {
    const long long at = index < 0 && mode == kRaise ? index + size : index;
    if (static_cast<unsigned long long>(at) < static_cast<unsigned long long>(size)) return at;
    report_index(report, index, size, axis);
    return -1;
  }
  if (mode == kWrap) {
    const long long at = index % size;
    return at < 0 ? at + size : at;
  }
  return index < 0 ? 0 : (index < size ? index : size - 1);
}

struct AnyIndex {};  // the type is in the layout

template <class Index>
__device__ __forceinline__ long long load_index(const void* data, int, long long at) {
  return static_cast<const Index*>(data)[at];
}

template <>
__device__ __forceinline__ long long load_index<AnyIndex>(const void* data, int code,
                                                          long long at) {
  switch (code) {
    case 0: return static_cast<const signed char*>(data)[at];
    case 1: return static_cast<const short*>(data)[at];
    case 2: return static_cast<const int*>(data)[at];
    case 4: return static_cast<const unsigned char*>(data)[at];
    case 5: return static_cast<const unsigned short*>(data)[at];
    case 6: return static_cast<const unsigned int*>(data)[at];
    default: return static_cast<const long long*>(data)[at];
  }
}

}  // namespace gpk

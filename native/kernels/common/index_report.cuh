// How a kernel tells the host about an index that is out of bounds.
#pragma once

#include "args/index_report.h"

namespace gpk {

using namespace kernels;

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

}  // namespace gpk

// How a kernel reports an out-of-bounds index.
#pragma once

namespace gpk::kernels {

// In pinned host memory, written by the GPU.
struct IndexRecord {
  unsigned ready;
  int axis;  // -1: a position in the whole array
  const char* op;
  long long index;
  long long size;
};
static_assert(sizeof(IndexRecord) == 32 && __is_trivially_copyable(IndexRecord));

struct IndexReport {
  unsigned* gate = nullptr;  // device memory: the first thread to set it writes the record
  IndexRecord* record = nullptr;
  const char* op = nullptr;  // for the message; a literal
};
static_assert(sizeof(IndexReport) == 24 && __is_trivially_copyable(IndexReport));

}  // namespace gpk::kernels

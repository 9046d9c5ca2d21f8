// out[t] = scale * table[ids[t]] + position_table[positions[t]], each part optional but the first.
// P is the type of the position table. An id or position that is no row is reported to the host,
// and gives NaN. Layout: EmbeddingArgs. Grid: a thread per kV elements. Numerics: float32, the
// product and the sum rounded one after the other.
#pragma once

#include "args/nn.h"
#include "common/dependent_launch.cuh"
#include "common/floats.cuh"
#include "common/index_report.cuh"

namespace gpk {

__device__ __forceinline__ long long token_index(const void* p, long long at, bool wide) {
  return wide ? static_cast<const long long*>(p)[at] : static_cast<const int*>(p)[at];
}

__device__ __forceinline__ bool has_row(long long row, long long rows) {
  return static_cast<unsigned long long>(row) < static_cast<unsigned long long>(rows);
}

template <class T, class P, int kV>
__global__ void __launch_bounds__(256)
    embedding(const EmbeddingArgs args, const __grid_constant__ IndexReport id_report,
              const __grid_constant__ IndexReport position_report) {
  start_dependent();
  const long long item = static_cast<long long>(blockIdx.x) * 256 + threadIdx.x;
  if (item >= args.num_items) return;
  const long long token = item / args.accesses;
  const int at = static_cast<int>(item - token * args.accesses) * kV;
  const long long id = token_index(args.ids, token, (args.wide & kWideIds) != 0);
  long long position = 0;
  if (args.position_table != nullptr) {
    const long long place = token % args.seq;
    position = args.positions == nullptr
                   ? args.start + place
                   : token_index(args.positions, args.shared != 0 ? place : token,
                                 (args.wide & kWideTokenPositions) != 0);
  }
  float x[kV];
  const bool knows_id = has_row(id, args.vocabulary);
  const bool knows_position =
      args.position_table == nullptr || has_row(position, args.position_rows);
  if (knows_id && knows_position) {
    load_floats<T, kV>(static_cast<const T*>(args.table) + id * args.table_row + at, x);
#pragma unroll
    for (int v = 0; v < kV; ++v) x[v] = __fmul_rn(x[v], args.scale);
    if (args.position_table != nullptr) {
      float y[kV];
      load_floats<P, kV>(
          static_cast<const P*>(args.position_table) + position * args.position_row + at, y);
#pragma unroll
      for (int v = 0; v < kV; ++v) x[v] = __fadd_rn(x[v], y[v]);
    }
  } else {
#pragma unroll
    for (int v = 0; v < kV; ++v) x[v] = __int_as_float(0x7fffffff);
    if (at == 0) {
      if (!knows_id) report_index(id_report, id, args.vocabulary, 0);
      if (!knows_position) report_index(position_report, position, args.position_rows, 0);
    }
  }
  store_floats<T, kV>(static_cast<T*>(args.out) + token * args.accesses * kV + at, x);
}

}  // namespace gpk

// out[t, :] = sum over j of weights[t, j] * rows[row_map[t, j], :], j in order; places out of range
// add nothing. `lanes` threads per token, kV elements (16 bytes or one) each, four rows in flight.
// Numerics: float32, rounded once.
#pragma once

#include "args/moe.h"
#include "common/dtype.cuh"
#include "common/vec.cuh"

namespace gpk {

using namespace kernels;

template <class T, int kV>
__global__ void __launch_bounds__(kPermuteBlock) moe_unpermute_rows(const MoeUnpermuteArgs args) {
  const int t = static_cast<int>(threadIdx.x);
  const long long token =
      static_cast<long long>(blockIdx.x) * (kPermuteBlock / args.lanes) + t / args.lanes;
  if (token >= args.tokens) return;
  const T* const rows = static_cast<const T*>(args.rows);
  const int* const places = args.row_map + token * args.top_k;
  for (long long c = t % args.lanes * kV; c < args.width; c += args.lanes * kV) {
    float sum[kV] = {};
    for (int first = 0; first < args.top_k; first += 4) {
      Vec<T, kV> raw[4];
      float weight[4];
      bool exists[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int place = first + j < args.top_k ? places[first + j] : -1;
        exists[j] = place >= 0 && place < args.num_rows;
        if (!exists[j]) continue;
        raw[j] = load_vec<T, kV>(rows + place * args.rows_row + c);
        weight[j] = args.weights == nullptr ? 1.0f : args.weights[token * args.top_k + first + j];
      }
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        if (!exists[j]) continue;
#pragma unroll
        for (int v = 0; v < kV; ++v) sum[v] += weight[j] * to_compute(raw[j].v[v]);
      }
    }
    Vec<T, kV> result;
#pragma unroll
    for (int v = 0; v < kV; ++v) result.v[v] = convert<T>(sum[v]);
    store_vec<T, kV>(static_cast<T*>(args.out) + token * args.out_row + c, result);
  }
}

}  // namespace gpk

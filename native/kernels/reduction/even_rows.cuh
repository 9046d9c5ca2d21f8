// out[k] = reduction of in[k, :] where every row is contiguous and a whole number of aligned
// 16-byte accesses: the common case of rows.cuh without its masks, splits and segments, so that
// four times as many threads fit and enough loads are in flight. args.group threads share a row.
// Grid: rows, 256 / group per block. Numerics: kU accesses as a tree, then into the accumulator
// (ops.cuh).
#pragma once

#include "common/vec.cuh"
#include "reduction/combine.cuh"
#include "reduction/moments.cuh"

namespace gpk {

// The accesses at `from`, `width` elements apart: with kWhole all kU are in range, else those of
// the next `left` elements. Loads are issued first.
template <int kU, bool kWhole, class In, class Op>
__device__ __forceinline__ void add_accesses(const Op& op, typename Op::Acc& acc, const In* from,
                                             long long first, int width, int left) {
  constexpr int kV = 16 / sizeof(In);
  using Value = typename Op::Value;
  Vec<In, kV> raw[kU];
#pragma unroll
  for (int u = 0; u < kU; ++u)
    if (kWhole || u * width < left) raw[u] = load_vec<In, kV>(from + u * width);
  if constexpr (kWhole) {
    Value x[kU * kV];
#pragma unroll
    for (int e = 0; e < kU * kV; ++e) x[e] = Op::value(raw[e / kV].v[e % kV]);
    op.template add<kU, kV>(acc, x, first, width);
  } else {
#pragma unroll
    for (int u = 0; u < kU; ++u) {
      if (u * width >= left) break;
      Value x[kV];
#pragma unroll
      for (int v = 0; v < kV; ++v) x[v] = Op::value(raw[u].v[v]);
      op.template add<1, kV>(acc, x, first + u * width, width);
    }
  }
}

template <class In, class Op>
__global__ void __launch_bounds__(kBlock, 2) reduce_even_rows(const ReduceArgs args) {
  constexpr int kV = 16 / sizeof(In);
  constexpr int kU = sizeof(In) == 1 ? 2 : 4;
  using Acc = typename Op::Acc;
  __shared__ alignas(16) unsigned char memory[sizeof(Acc) * (kBlock / 32)];
  const Op op{args.skip_nan};
  const int group = args.group;
  const int lane = static_cast<int>(threadIdx.x) & (group - 1);
  const int width = group * kV;
  const int n = static_cast<int>(args.layout.reduced);
  const long long k = static_cast<long long>(blockIdx.x) * (kBlock / group) + threadIdx.x / group;
  Acc acc = op.init();
  if (k < args.layout.kept) {
    const In* row = static_cast<const In*>(args.in) + k * args.layout.kept_in[0];
    int i = lane * kV;
    for (; i + (kU - 1) * width < n; i += kU * width)
      add_accesses<kU, true>(op, acc, row + i, i, width, n - i);
    if (i < n) add_accesses<kU - 1, false>(op, acc, row + i, i, width, n - i);
  }
  merge_group(op, acc, group, reinterpret_cast<Acc*>(memory));
  if (k < args.layout.kept && lane == 0)
    op.store(args.out, k * args.layout.kept_out[0], acc, args.finish);
}

}  // namespace gpk

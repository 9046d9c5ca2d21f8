// out[k] = reduction of in[k, :], arbitrary strides and dtype, with an offset computed per element.
// Block: blockDim.x (up to 128) adjacent results, blockDim.y threads along the reduction, up to 256
// in total.
// Grid: x over results, y over splits of the reduction (args.per_split elements each); the last
// block of a column merges the splits in order.
// Numerics: everything in float64 / int64 / complex128 (see ops.cuh). The fallback: odd strides,
// dtypes without a specialised variant, and no NVRTC.
#pragma once

#include "reduction/combine.cuh"
#include "reduction/moments.cuh"

namespace gpk {

template <class Op>
__global__ void __launch_bounds__(kBlock, 2) reduce_general(const ReduceArgs args) {
  constexpr int kU = sizeof(typename Op::Value) > 8 ? 4 : 8;
  const Op op{args.skip_nan};
  const ReduceLayout& layout = args.layout;
  const long long k = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  const bool active = k < layout.kept;
  long long base = 0;
  long long unused;
  if (active) kept_offsets(layout, layout.num_kept, k, base, unused);

  typename Op::Acc acc[1] = {op.init()};
  const long long begin = blockIdx.y * args.per_split;
  const long long limit = begin + args.per_split;
  const long long end = limit < layout.reduced ? limit : layout.reduced;
  const long long step = blockDim.y;
  if (active) {
    for (long long r = begin + threadIdx.y; r < end; r += kU * step) {
      long long index[kU];
      long long at[kU];
      unsigned valid = 0;
#pragma unroll
      for (int u = 0; u < kU; ++u) {
        const bool inside = r + u * step < end;
        valid |= static_cast<unsigned>(inside) << u;
        index[u] = inside ? r + u * step : r;
      }
      reduced_offsets(layout, layout.num_reduced, index, at);
#pragma unroll
      for (int u = 0; u < kU; ++u) at[u] += base;
      typename Op::Value x[kU];
      load_any<Op>(args.in, args.in_code, at, x);
      if (valid == (1u << kU) - 1) {
        op.template add<kU, 1>(acc[0], x, r, step);
      } else {
        op.template add_some<kU>(acc[0], x, valid, r, step);
      }
    }
  }
  const long long first = static_cast<long long>(blockIdx.x) * blockDim.x;
  const long long left = layout.kept - first;
  finish_columns<1>(op, acc, args, first, left < blockDim.x ? static_cast<int>(left) : blockDim.x,
                    [&](int i) {
                      long long in;
                      long long out;
                      kept_offsets(layout, layout.num_kept, first + i, in, out);
                      return out;
                    });
}

}  // namespace gpk

// out[o, c] = reduction of in[o, :, c]: the results are contiguous (stride 1). Each thread owns 16
// bytes of a row of c; blockDim.x (up to 128) threads along c, blockDim.y threads along the
// reduction with kU rows in flight. All strides and the number of columns are multiples of 16
// bytes, `in` is aligned to them. Grid: x over (o, tile of columns), y over splits (args.per_split
// rows each); the last block of a column merges the splits in order. Numerics: kU rows as a tree,
// then into the accumulator (ops.cuh).
#pragma once

#include "common/vec.cuh"
#include "reduction/combine.cuh"
#include "reduction/moments.cuh"

namespace gpk {

template <class In, class Op>
__global__ void __launch_bounds__(kBlock, 2) reduce_columns(const ReduceArgs args) {
  constexpr int kV = 16 / sizeof(In);
  constexpr int kU = sizeof(In) == 1 || sizeof(typename Op::Acc) > 8 ? 4 : 8;
  using Value = typename Op::Value;
  const Op op{args.skip_nan};
  const ReduceLayout& layout = args.layout;
  const int last = layout.num_kept - 1;
  const long long columns = layout.kept_size[last];
  const long long tile_columns = static_cast<long long>(blockDim.x) * kV;
  long long outer = blockIdx.x;
  const long long tile = split_index(outer, (columns + tile_columns - 1) / tile_columns);
  const long long column = tile * tile_columns + threadIdx.x * kV;
  const bool active = column < columns;
  long long base;
  long long out_at;
  kept_offsets(layout, last, outer, base, out_at);
  const In* in = static_cast<const In*>(args.in) + base + column;

  typename Op::Acc acc[kV];
#pragma unroll
  for (int v = 0; v < kV; ++v) acc[v] = op.init();
  const long long begin = blockIdx.y * args.per_split;
  const long long limit = begin + args.per_split;
  const long long end = limit < layout.reduced ? limit : layout.reduced;
  const long long step = blockDim.y;
  if (active) {
    for (long long r = begin + threadIdx.y; r < end; r += kU * step) {
      const bool full = r + (kU - 1) * step < end;
      unsigned valid = 0;
      long long row[kU];
      long long at[kU];
      Vec<In, kV> rows[kU];
#pragma unroll
      for (int u = 0; u < kU; ++u) {
        const bool inside = full || r + u * step < end;
        valid |= static_cast<unsigned>(inside) << u;
        row[u] = inside ? r + u * step : r;
      }
      reduced_offsets(layout, layout.num_reduced, row, at);
#pragma unroll
      for (int u = 0; u < kU; ++u) rows[u] = load_vec<In, kV>(in + at[u]);
#pragma unroll
      for (int v = 0; v < kV; ++v) {
        Value x[kU];
#pragma unroll
        for (int u = 0; u < kU; ++u) x[u] = Op::value(rows[u].v[v]);
        if (full) {
          op.template add<kU, 1>(acc[v], x, r, step);
        } else {
          op.template add_some<kU>(acc[v], x, valid, r, step);
        }
      }
    }
  }
  const long long first = tile * tile_columns;
  const long long left = columns - first;
  const long long out_step = layout.kept_out[last];
  finish_columns<kV>(op, acc, args, outer * columns + first,
                     static_cast<int>(left < tile_columns ? left : tile_columns),
                     [&](int i) { return out_at + (first + i) * out_step; });
}

}  // namespace gpk

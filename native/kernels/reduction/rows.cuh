// out[k] = reduction of in[k, :]: the elements of a row are contiguous (stride 1), in several
// segments when there are more reduced dimensions.
// args.group threads share a row and read 16 bytes each, aligned; elements of other rows in the
// first and the last 16 bytes are masked out (reading them is safe: a page boundary is never
// crossed).
// Grid: x over rows (256 / group per block, four times that for short rows, where each thread has
// one access per row and takes four rows at once), y over splits of long rows; the last block of a
// row merges the splits in order.
// Numerics: kU accesses as a tree, then into the accumulator (ops.cuh).
#pragma once

#include "common/vec.cuh"
#include "reduction/combine.cuh"
#include "reduction/moments.cuh"

namespace gpk {

// Which of the kV elements of an access belong to the row: not the first `skip`, and at most
// `left`.
template <int kV>
__device__ __forceinline__ unsigned valid_elements(int skip, int left) {
  constexpr unsigned kFull = (1u << kV) - 1;
  const unsigned mask = left >= kV ? kFull : (left > 0 ? kFull >> (kV - left) : 0u);
  return mask >> skip << skip;
}

// Elements between the 16-byte boundary at or before `p` and `p`.
template <class In>
__device__ __forceinline__ int misalignment(const In* p) {
  return static_cast<int>(reinterpret_cast<unsigned long long>(p) % 16) /
         static_cast<int>(sizeof(In));
}

template <class Op, class In, int kV>
__device__ __forceinline__ void add_edge(const Op& op, typename Op::Acc& acc,
                                         const Vec<In, kV>& raw, unsigned valid, long long index) {
  typename Op::Value x[kV];
#pragma unroll
  for (int v = 0; v < kV; ++v) x[v] = Op::value(raw.v[v]);
  op.template add_some<kV>(acc, x, valid, index, 1);
}

// The n elements at `start` (index `first` in the row): tiles of lanes * kU accesses from `tile`
// on, every `step`-th. This thread has the lane-th access of each kU.
template <int kU, class In, class Op>
__device__ __forceinline__ void add_segment(const Op& op, typename Op::Acc& acc, const In* start,
                                            long long n, long long first, unsigned tile,
                                            unsigned step, int lane, int lanes) {
  constexpr int kV = 16 / sizeof(In);
  constexpr int kMany = 1 << 30;
  const int width = lanes * kV;
  const long long stride = static_cast<long long>(step) * (width * kU);
  for (long long i = static_cast<long long>(tile) * (width * kU) + lane * kV - misalignment(start);
       i < n; i += stride) {
    const int skip = i < 0 ? static_cast<int>(-i) : 0;
    const int left = n - i < kMany ? static_cast<int>(n - i) : kMany;
    const In* from = start + i;
    if (skip == 0 && left >= (kU - 1) * width + kV) {
      Vec<In, kV> raw[kU];
#pragma unroll
      for (int u = 0; u < kU; ++u) raw[u] = load_vec<In, kV>(from + u * width);
      typename Op::Value x[kU * kV];
#pragma unroll
      for (int e = 0; e < kU * kV; ++e) x[e] = Op::value(raw[e / kV].v[e % kV]);
      op.template add<kU, kV>(acc, x, first + i, width);
    } else {
      Vec<In, kV> raw[kU];
#pragma unroll
      for (int u = 0; u < kU; ++u)
        if (left > u * width) raw[u] = load_vec<In, kV>(from + u * width);
#pragma unroll
      for (int u = 0; u < kU; ++u)
        if (left > u * width)
          add_edge(op, acc, raw[u], valid_elements<kV>(u == 0 ? skip : 0, left - u * width),
                   first + i + u * width);
    }
  }
}

// The part of the row at `row` that belongs to this thread and split. A single segment is split by
// tiles; several are distributed whole.
template <int kU, class In, class Op>
__device__ __forceinline__ void add_row(const Op& op, typename Op::Acc& acc, const In* row,
                                        const ReduceArgs& args, int lane) {
  const ReduceLayout& layout = args.layout;
  const int outer = layout.num_reduced - 1;
  const long long n = layout.reduced_size[outer];
  const bool single = outer == 0;
  const int side_by_side = args.group / args.lanes;
  for (long long s = single ? 0 : blockIdx.y * side_by_side + lane / args.lanes; s < args.segments;
       s += static_cast<long long>(gridDim.y) * side_by_side) {
    long long index[1] = {s};
    long long at[1];
    reduced_offsets(layout, outer, index, at);
    add_segment<kU>(op, acc, row + at[0], n, s * n, single ? blockIdx.y : 0, single ? gridDim.y : 1,
                    lane % args.lanes, args.lanes);
  }
}

// Rows of at most `group` accesses: each thread has one, of kU rows at once.
template <int kU, class In, class Op>
__device__ __forceinline__ void reduce_short_rows(const Op& op, const ReduceArgs& args) {
  constexpr int kV = 16 / sizeof(In);
  const ReduceLayout& layout = args.layout;
  const int group = args.group;
  const int lane = threadIdx.x % group;
  const int per_block = kBlock / group;
  const long long k = static_cast<long long>(blockIdx.x) * kU * per_block + threadIdx.x / group;
  const int n = static_cast<int>(layout.reduced);
  typename Op::Acc acc[kU];
  Vec<In, kV> raw[kU];
  unsigned valid[kU];
  int index[kU];
#pragma unroll
  for (int u = 0; u < kU; ++u) {
    const long long row = k + u * per_block;
    const In* start = static_cast<const In*>(args.in) + row * layout.kept_in[0];
    index[u] = lane * kV - misalignment(start);
    valid[u] =
        row < layout.kept ? valid_elements<kV>(index[u] < 0 ? -index[u] : 0, n - index[u]) : 0u;
    if (valid[u] != 0) raw[u] = load_vec<In, kV>(start + index[u]);
  }
#pragma unroll
  for (int u = 0; u < kU; ++u) {
    acc[u] = op.init();
    if (valid[u] != 0) add_edge(op, acc[u], raw[u], valid[u], index[u]);
  }
  for (int o = group / 2; o > 0; o /= 2) {
#pragma unroll
    for (int u = 0; u < kU; ++u) op.merge(acc[u], shuffle_down(acc[u], o));
  }
#pragma unroll
  for (int u = 0; u < kU; ++u)
    if (lane == 0 && k + u * per_block < layout.kept)
      op.store(args.out, (k + u * per_block) * layout.kept_out[0], acc[u], args.finish);
}

template <class In, class Op>
__global__ void __launch_bounds__(kBlock, 2) reduce_rows(const ReduceArgs args) {
  constexpr int kU = sizeof(In) == 1 ? 2 : 4;
  using Acc = typename Op::Acc;
  __shared__ alignas(16) unsigned char memory[sizeof(Acc) * (kBlock / 32)];
  Acc* shared = reinterpret_cast<Acc*>(memory);
  const Op op{args.skip_nan};
  if (args.short_rows) {
    reduce_short_rows<kU, In>(op, args);
    return;
  }
  const ReduceLayout& layout = args.layout;
  const int group = args.group;
  const int lane = threadIdx.x % group;
  const long long k = static_cast<long long>(blockIdx.x) * (kBlock / group) + threadIdx.x / group;
  const bool active = k < layout.kept;
  long long base = 0;
  long long out_at = 0;
  if (active) kept_offsets(layout, layout.num_kept, k, base, out_at);
  Acc acc = op.init();
  if (active) add_row<kU>(op, acc, static_cast<const In*>(args.in) + base, args, lane);
  merge_group(op, acc, group, shared);
  if (gridDim.y > 1) {  // then a block has one row
    Acc* partials = static_cast<Acc*>(args.partials);
    if (threadIdx.x == 0) partials[blockIdx.y * layout.kept + k] = acc;
    if (!is_last_block(args.counters + blockIdx.x)) return;
    acc = op.init();
    for (unsigned s = threadIdx.x; s < gridDim.y; s += kBlock)
      op.merge(acc, load_partial(partials + s * layout.kept + k));
    merge_group(op, acc, group, shared);
  }
  if (active && lane == 0) op.store(args.out, out_at, acc, args.finish);
}

}  // namespace gpk

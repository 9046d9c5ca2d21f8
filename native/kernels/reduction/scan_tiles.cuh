// out[r, i] = in[r, 0] op ... op in[r, i] for few, long rows: every element is read and written
// once. A block scans a tile, publishes its total, and learns what came before from others:
//   prefix(tile) = P(groups before its own) op (totals of earlier tiles of its group)
// Groups have kGroup tiles; the last tile of a group publishes P(group) = P(group before) op its
// group's total. All of it in fixed order, so the result does not depend on timing (a look-back
// that stops at whatever prefix is ready would). Tiles are numbered as blocks start, so a block
// waits only for blocks that run. A published word carries 32 bits of data and a flag in its upper
// half, and is therefore valid by itself: no fences. args.status, zeroed: the tile counter, then
// kWords per tile, then kWords per group.
#pragma once

#include "reduction/scan.cuh"

namespace gpk {

constexpr int kGroup = 256;

template <class Acc>
struct Published {
  static constexpr int kWords = sizeof(Acc) / 4;
  union Words {
    Acc value;
    unsigned words[kWords];
    __device__ Words() {}
  };

  static __device__ __forceinline__ void put(volatile unsigned long long* at, const Acc& x) {
    Words from;
    from.value = x;
#pragma unroll
    for (int i = 0; i < kWords; ++i) at[i] = (1ull << 32) | from.words[i];
  }
  static __device__ __forceinline__ Acc wait(const volatile unsigned long long* at) {
    Words to;
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      unsigned long long word = at[i];
      while ((word >> 32) == 0) {
        __nanosleep(20);
        word = at[i];
      }
      to.words[i] = static_cast<unsigned>(word);
    }
    return to.value;
  }
};

// Folds one value of every thread in a fixed order; all threads get the result. `shared` holds one
// per warp.
template <class Op, class Acc>
__device__ __forceinline__ Acc fold_block(Acc x, Acc* shared) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int o = 16; o > 0; o /= 2) x = Op::combine(x, shuffle(x, lane + o < 32 ? lane + o : lane));
  if (lane == 0) shared[threadIdx.x / 32] = x;
  __syncthreads();
  Acc total = shared[0];
#pragma unroll
  for (int w = 1; w < kBlock / 32; ++w) total = Op::combine(total, shared[w]);
  return total;
}

// What precedes tile `t` of a row, whose total is `total`. For all threads.
template <class Op, class Acc>
__device__ __forceinline__ Acc find_prefix(volatile unsigned long long* tiles,
                                           volatile unsigned long long* groups, long long t,
                                           const Acc& total, bool last, Acc* shared, Acc* carried) {
  using Word = Published<Acc>;
  const int in_group = static_cast<int>(t % kGroup);
  const long long group = t / kGroup;
  if (threadIdx.x == 0 && !last) Word::put(tiles + t * Word::kWords, total);
  Acc before = Op::template identity<Acc>();
  if (static_cast<int>(threadIdx.x) < in_group)
    before = Word::wait(tiles + (t - in_group + threadIdx.x) * Word::kWords);
  if (threadIdx.x == kBlock - 1)
    *carried =
        group == 0 ? Op::template identity<Acc>() : Word::wait(groups + (group - 1) * Word::kWords);
  before = fold_block<Op>(before, shared);
  const Acc prefix = Op::combine(*carried, before);
  if (threadIdx.x == 0 && in_group == kGroup - 1 && !last)
    Word::put(groups + group * Word::kWords, Op::combine(prefix, total));
  return prefix;
}

template <class In, class Op, bool kAligned>
__global__ void __launch_bounds__(kBlock, 3) scan_tiles(const ScanArgs args) {
  using Part =
      Segment<In, Op, kScanUnroll<In, typename Op::Value, kAligned>, kScanVec<In, kAligned>>;
  using Acc = typename Op::Acc;
  constexpr int kWarps = kBlock / 32;
  constexpr int kWords = Published<Acc>::kWords;
  __shared__ alignas(16) unsigned char memory[sizeof(Acc) * (2 * kWarps + 1)];
  __shared__ long long shared_tile;
  Acc* totals = reinterpret_cast<Acc*>(memory);
  Acc* shared = totals + kWarps;
  Acc* carried = shared + kWarps;
  const Op op{args.skip_nan};
  if (threadIdx.x == 0) shared_tile = static_cast<long long>(atomicAdd(args.status, 1ull));
  __syncthreads();
  const long long tile = shared_tile;
  const long long row = tile / args.tiles_per_row;
  const long long t = tile - row * args.tiles_per_row;
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const long long at = (t * kWarps + warp) * Part::kElements;
  const In* in = static_cast<const In*>(args.in) + row * args.in_row + at;
  auto* out = static_cast<typename Part::Out*>(args.out) + row * args.out_row + at;

  Part part;
  part.load(op, in, args.n - at, lane);
  const Acc whole = convert<Acc>(part.scan(lane));
  if (lane == 0) totals[warp] = whole;
  __syncthreads();
  Acc before = op.init();
  Acc total = op.init();
#pragma unroll
  for (int w = 0; w < kWarps; ++w) {
    if (w == warp) before = total;
    total = Op::combine(total, totals[w]);
  }
  volatile unsigned long long* tiles = args.status + 1 + row * args.tiles_per_row * kWords;
  const long long groups_per_row = (args.tiles_per_row + kGroup - 1) / kGroup;
  volatile unsigned long long* groups =
      args.status + 1 + (args.rows * args.tiles_per_row + row * groups_per_row) * kWords;
  const Acc prefix =
      find_prefix<Op>(tiles, groups, t, total, t + 1 == args.tiles_per_row, shared, carried);
  before = Op::combine(prefix, before);
  part.store(out, before, args.n - at, lane);
  if (args.initial && t == 0 && threadIdx.x == 0) out[-1] = convert<typename Part::Out>(op.init());
}

}  // namespace gpk

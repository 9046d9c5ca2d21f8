// out[r, i] = in[r, 0] op ... op in[r, i] for few, long rows, split into chunks of whole tiles.
//   scan_totals: the total of every chunk but a row's last
//   scan_chunks: a block folds the totals before its chunk, then walks along it tile by tile, with
//     the next tile's loads in flight, and keeps the carry in the wider type
// The input is read twice, but no block ever waits for another, and the order of summation depends
// only on positions. (A single pass with decoupled look-back moves a third less and was slower: 1.9
// against 2.6 TB/s over 2**28 float32 on an H200.)
// Grid of both: rows times args.num_chunks.
#pragma once

#include "reduction/scan.cuh"

namespace gpk {

// Folds one value per thread in a fixed order; all threads get the result. `shared` holds one per
// warp.
template <class Op, class Acc>
__device__ __forceinline__ Acc fold_block(Acc x, Acc* shared) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int o = 16; o > 0; o /= 2) {
    const Acc other = shuffle(x, lane + o < 32 ? lane + o : lane);
    if (lane + o < 32) x = Op::combine(x, other);
  }
  if (lane == 0) shared[threadIdx.x / 32] = x;
  __syncthreads();
  Acc total = shared[0];
#pragma unroll
  for (int w = 1; w < kBlock / 32; ++w) total = Op::combine(total, shared[w]);
  __syncthreads();
  return total;
}

// A block's range: elements [begin, end) of a row.
struct Chunk {
  long long row, index, begin, end;
};
__device__ __forceinline__ Chunk this_chunk(const ScanArgs& args) {
  Chunk chunk;
  chunk.row = blockIdx.x / args.num_chunks;
  chunk.index = blockIdx.x - chunk.row * args.num_chunks;
  chunk.begin = chunk.index * args.chunk;
  chunk.end = chunk.begin + args.chunk < args.n ? chunk.begin + args.chunk : args.n;
  return chunk;
}

template <class In, class Op, bool kAligned>
using ScanPart = Segment<In, Op, kScanUnroll<In, kAligned>, kScanVec<In, kAligned>>;

template <class In, class Op, bool kAligned>
__global__ void __launch_bounds__(kBlock) scan_totals(const ScanArgs args) {
  using Part = ScanPart<In, Op, kAligned>;
  using Value = typename Op::Value;
  using Acc = typename Op::Acc;
  __shared__ alignas(16) unsigned char memory[sizeof(Acc) * (kBlock / 32)];
  const Chunk chunk = this_chunk(args);
  if (chunk.index + 1 == args.num_chunks) return;
  const Op op{args.skip_nan};
  const In* in = static_cast<const In*>(args.in) + chunk.row * args.in_row;
  const int lane = threadIdx.x % 32;
  Acc acc = op.init();
  const auto add = [&](const typename Part::Raw& raw) {
    Part part;
    part.take(op, raw);
    const Value total = tree(part.x, [](Value a, Value b) { return Op::combine(a, b); });
    acc = Op::combine(acc, convert<Acc>(total));
  };
  constexpr int kStep = kBlock / 32 * Part::kElements;
  constexpr int kMany = 4;  // segments at once, to keep enough loads in flight
  long long at = chunk.begin + threadIdx.x / 32 * Part::kElements;
  for (; at + (kMany - 1) * kStep + Part::kElements <= chunk.end; at += kMany * kStep) {
    typename Part::Raw raw[kMany];
#pragma unroll
    for (int m = 0; m < kMany; ++m) raw[m].load(in + at + m * kStep, Part::kElements, lane);
#pragma unroll
    for (int m = 0; m < kMany; ++m) add(raw[m]);
  }
  for (; at < chunk.end; at += kStep) {
    typename Part::Raw raw;
    raw.load(in + at, chunk.end - at, lane);
    add(raw);
  }
  acc = fold_block<Op>(acc, reinterpret_cast<Acc*>(memory));
  if (threadIdx.x == 0)
    static_cast<Acc*>(args.totals)[chunk.row * args.num_chunks + chunk.index] = acc;
}

// Minimum blocks per multiprocessor; ptxas for sm_120 would spill to reach four.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1200
template <class In, class Value>
constexpr int kChunkBlocks = 2;
#else
template <class In, class Value>
constexpr int kChunkBlocks = sizeof(In) == 4 && sizeof(Value) == 4 ? 4 : 2;
#endif

template <class In, class Op, bool kAligned>
__global__ void __launch_bounds__(kBlock, (kChunkBlocks<In, typename Op::Value>))
    scan_chunks(const ScanArgs args) {
  using Part = ScanPart<In, Op, kAligned>;
  using Acc = typename Op::Acc;
  constexpr int kWarps = kBlock / 32;
  constexpr int kTile = kWarps * Part::kElements;
  __shared__ alignas(16) unsigned char memory[2 * sizeof(Acc) * kWarps];
  Acc* shared = reinterpret_cast<Acc*>(memory);
  const Op op{args.skip_nan};
  const Chunk chunk = this_chunk(args);
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const long long first = chunk.begin + warp * Part::kElements;
  const In* in = static_cast<const In*>(args.in) + chunk.row * args.in_row + first;
  auto* out = static_cast<typename Part::Out*>(args.out) + chunk.row * args.out_row + first;
  const int num_whole = static_cast<int>((chunk.end - chunk.begin) / kTile);
  typename Part::Raw raw;
  if (num_whole > 0) raw.load(in, Part::kElements, lane);

  const Acc* totals = static_cast<const Acc*>(args.totals) + chunk.row * args.num_chunks;
  Acc carry = op.init();
  for (long long i = threadIdx.x; i < chunk.index; i += kBlock)
    carry = Op::combine(carry, totals[i]);
  if (chunk.index > 0) carry = fold_block<Op>(carry, shared);
  if (args.initial && chunk.index == 0 && threadIdx.x == 0)
    out[-1] = convert<typename Part::Out>(carry);

  // `shared` is double buffered: a warp writes one half while others may still read the other.
  int half = 0;
  const auto scan_tile = [&](Part& part, long long left) {
    Acc* totals_of_warps = shared + half * kWarps;
    half ^= 1;
    const Acc whole = convert<Acc>(part.scan(lane));
    if (lane == 0) totals_of_warps[warp] = whole;
    __syncthreads();
    Acc before = carry;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      if (w == warp) before = carry;
      carry = Op::combine(carry, totals_of_warps[w]);
    }
    part.store(out, before, left, lane);
  };
  Part part;
  for (int tile = 0; tile < num_whole; ++tile, in += kTile, out += kTile) {
    part.take(op, raw);
    if (tile + 1 < num_whole) raw.load(in + kTile, Part::kElements, lane);
    scan_tile(part, Part::kElements);
  }
  const long long left = chunk.end - first - static_cast<long long>(num_whole) * kTile;
  if (chunk.begin + static_cast<long long>(num_whole) * kTile < chunk.end) {
    part.load(op, in, left, lane);
    scan_tile(part, left);
  }
}

}  // namespace gpk

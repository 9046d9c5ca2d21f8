// y[m, n] = x[m, k] w[n, k]^T for up to four rows of x on SM90+: one block per SM has an equal
// share of the rows of w, and a ring of bulk copies per warp puts as much of it in flight as shared
// memory holds before anything else happens. A unit is kPiece elements of each of kRows rows. Warps
// take the units of a block round-robin: each waits for its own copy, sums along its lanes, and
// requests the unit kStages later. grid: x = shares of rows, z = batch; kWarps warps. Bases,
// pitches and k: multiples of 16 bytes. shared: [kWarps][kStages][kRows][kPiece] of w, barriers,
// then sums [rows][pieces][kM]. Order of summation, the same for every kM, kRows and grid: by
// chunks in a lane, over the lanes, over the pieces of a row. It depends on k alone.
#pragma once

#include "common/barrier.cuh"
#include "common/bulk_copy.cuh"
#include "matmul/gemv_parts.cuh"

namespace gpk {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

__device__ __forceinline__ Chunk load_shared_chunk(unsigned address) {
  Chunk c;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(c.v[0]), "=r"(c.v[1]), "=r"(c.v[2]), "=r"(c.v[3])
               : "r"(address)
               : "memory");
  return c;
}

// A warp's work and its buffers.
template <class T, int kRows, int kStages, int kPiece>
struct GemvRing {
  static constexpr unsigned kRowBytes = kPiece * sizeof(T);
  static constexpr unsigned kStageBytes = kRows * kRowBytes;

  const T* w;  // of the block's first row
  long long pitch;
  int num_rows, groups, pieces, k, num_units;
  unsigned stages, barriers;

  __device__ __forceinline__ int valid(int piece) const {
    const int left = k - piece * kPiece;
    return left < kPiece ? left : kPiece;
  }

  // Called by one lane.
  __device__ __forceinline__ void fetch(int unit, int stage) const {
    const int piece = unit / groups;
    const int group = unit - piece * groups;
    const unsigned bytes = static_cast<unsigned>(valid(piece)) * sizeof(T);
    const unsigned barrier = barriers + stage * 8;
    barrier_expect(barrier, kRows * bytes);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {  // rows past the end repeat the last one
      const int row = group * kRows + r < num_rows ? group * kRows + r : num_rows - 1;
      bulk_copy(stages + stage * kStageBytes + r * kRowBytes, w + row * pitch + piece * kPiece,
                bytes, barrier);
    }
  }
};

template <class T, int kM, int kRows, int kWarps, int kStages, int kPiece, int kOrder>
__global__ void __launch_bounds__(kWarps * 32, 1)
    gemv_ring_kernel(const __grid_constant__ GemvArgs args,
                     const __grid_constant__ EpilogueArgs epilogue) {
  constexpr int kPer = GemvWeight<T>::kPer;
  constexpr int kSteps = kPiece / (32 * kPer);  // chunks per lane and piece
  constexpr bool kKeep = kM == 1;               // a piece of x stays in registers
  using Ring = GemvRing<T, kRows, kStages, kPiece>;
  extern __shared__ __align__(128) unsigned char shared[];
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const auto first = static_cast<int>(args.n * blockIdx.x / gridDim.x);
  const int num_rows = static_cast<int>(args.n * (blockIdx.x + 1) / gridDim.x) - first;
  constexpr unsigned kBarriers = kWarps * kStages * Ring::kStageBytes;
  float* sums = reinterpret_cast<float*>(shared + kBarriers + kWarps * kStages * 8);

  Ring ring;
  ring.w = static_cast<const T*>(args.w) + blockIdx.z * args.w_batch + first * args.w_pitch;
  ring.pitch = args.w_pitch;
  ring.num_rows = num_rows;
  ring.k = static_cast<int>(args.k);
  ring.pieces = (ring.k + kPiece - 1) / kPiece;
  ring.groups = (num_rows + kRows - 1) / kRows;
  ring.num_units = ring.groups * ring.pieces;
  ring.stages = shared_address(shared) + warp * kStages * Ring::kStageBytes;
  ring.barriers = shared_address(shared) + kBarriers + warp * kStages * 8;
  gemv_begin<kOrder>();

  // x first where it is available: after all of w it would arrive late.
  const T* x = static_cast<const T*>(args.x) + blockIdx.z * args.x_batch;
  Chunk kept[kKeep ? kSteps : 1];
  int kept_piece = -1;
  const auto keep = [&](int piece) {
    const int valid = ring.valid(piece);
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      const int at = (s * 32 + lane) * kPer;
      kept[s] = load_shared_input(x + piece * kPiece + at, at < valid);
    }
    kept_piece = piece;
  };
  if constexpr (kKeep && kOrder != kOrderPrefetch)
    if (warp < ring.num_units) keep(warp / ring.groups);

  if (lane == 0) {
#pragma unroll
    for (int s = 0; s < kStages; ++s) barrier_init(ring.barriers + s * 8, 1);
    // Makes the barriers visible to the copies (async proxy).
    asm volatile("fence.proxy.async;" ::: "memory");
#pragma unroll
    for (int s = 0; s < kStages; ++s)
      if (warp + s * kWarps < ring.num_units) ring.fetch(warp + s * kWarps, s);
  }
  __syncwarp();
  gemv_before_input<kOrder>();

  int stage = 0;
  unsigned parity = 0;
  for (int unit = warp; unit < ring.num_units; unit += kWarps) {
    const int piece = unit / ring.groups;
    const int group = unit - piece * ring.groups;
    const int valid = ring.valid(piece);
    if constexpr (kKeep)
      if (piece != kept_piece) keep(piece);
    barrier_wait(ring.barriers + stage * 8, parity);
    const unsigned from = ring.stages + stage * Ring::kStageBytes + lane * 16;
    float acc[kRows][kM] = {};
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      const int at = (s * 32 + lane) * kPer;
      if (at < valid) {
        float weights[kRows][kPer];
#pragma unroll
        for (int r = 0; r < kRows; ++r)
          GemvWeight<T>::unpack(load_shared_chunk(from + r * Ring::kRowBytes + s * 512),
                                weights[r]);
#pragma unroll
        for (int i = 0; i < kM; ++i) {
          if (kM > 1 && i >= args.m) break;
          float inputs[kPer];
          GemvWeight<T>::unpack(
              kKeep ? kept[kKeep ? s : 0]
                    : load_shared_input(x + i * args.x_m + piece * kPiece + at, true),
              inputs);
#pragma unroll
          for (int e = 0; e < kPer; ++e)
#pragma unroll
            for (int r = 0; r < kRows; ++r) acc[r][i] = fmaf(weights[r][e], inputs[e], acc[r][i]);
        }
      }
    }
    __syncwarp();  // all lanes have read the stage
    if (lane == 0 && unit + kStages * kWarps < ring.num_units)
      ring.fetch(unit + kStages * kWarps, stage);
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int i = 0; i < kM; ++i) {
#pragma unroll
        for (int distance = 16; distance > 0; distance /= 2)
          acc[r][i] += __shfl_xor_sync(0xffffffffu, acc[r][i], distance);
        if (lane == r * kM + i)
          sums[((group * kRows + r) * ring.pieces + piece) * kM + i] = acc[r][i];
      }
    }
  }

  __syncthreads();
  for (int o = static_cast<int>(threadIdx.x); o < num_rows * kM; o += kWarps * 32) {
    const int i = o / num_rows;
    const int row = o - i * num_rows;
    const float* sum = sums + row * ring.pieces * kM + i;
    float v = sum[0];
    for (int piece = 1; piece < ring.pieces; ++piece) v += sum[piece * kM];
    gemv_emit<T>(args, epilogue, v, i, first + row);
  }
}

#endif

}  // namespace gpk

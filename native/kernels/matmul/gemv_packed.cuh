// y[i, j] = epilogue(sum over l of x[i, l] * w[j, l]) for packed w (args/quantize.h) and up to 64
// rows of x, on tensor cores (SM80+). As gemv_mma.cuh: w is the 16-row operand, dequantised in
// registers, x the 8-column one, both from global memory.
// A warp reads 64 bytes of each row of w, a quad 16 bytes to a lane; the warps of a block take such
// blocks of K in turn. Scales of groups multiply float32 sums of the group; groups smaller than a
// block are brought into one word of each lane by a 4 x 4 transposition among the quad. Groups of
// 16 (nvfp4) belong to one lane: they multiply the weights, exactly. grid: x = blocks of j, y =
// split-K; 256 threads. Order of summation: the group, groups in a warp, warps, splits; it does not
// depend on m or on tiles.
#pragma once

#include "common/mma.cuh"
#include "matmul/gemv_parts.cuh"
#include "matmul/packed_format.cuh"

namespace gpk {

// Word j of lane t of a quad becomes word t of lane j.
__device__ __forceinline__ void transpose_quad(Chunk& c, int t) {
#pragma unroll
  for (int step = 1; step <= 2; step *= 2) {
    const bool upper = (t & step) != 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if ((i & step) != 0) continue;
      unsigned& kept = c.v[i];
      unsigned& other = c.v[i + step];
      const unsigned sent = upper ? kept : other;
      const unsigned got = __shfl_xor_sync(0xffffffffu, sent, step);
      if (upper) {
        kept = got;
      } else {
        other = got;
      }
    }
  }
}

// kPer consecutive values of a row of x, permuted; zeros where `valid` is false.
template <int kPer, class T>
__device__ __forceinline__ void load_input_pairs(const T* x, bool valid,
                                                 unsigned (&pairs)[kPer / 2]) {
  unsigned words[kPer / 2] = {};
  if constexpr (kPer == 8) {
    const Chunk c = load_shared_input(x, valid);
#pragma unroll
    for (int i = 0; i < 4; ++i) words[i] = c.v[i];
  } else if (valid) {
    const uint2 two = *reinterpret_cast<const uint2*>(x);
    words[0] = two.x;
    words[1] = two.y;
  }
  permute_input(words, pairs);
}

// The rows of x of this block's group: those behind all groups before it. Negative sizes count as
// 0.
struct PackedRows {
  int first, count;
};

__device__ __forceinline__ PackedRows packed_rows(const PackedGemvArgs& args) {
  const int expert = static_cast<int>(blockIdx.z);
  int before = 0;
  for (int e = static_cast<int>(threadIdx.x) % 32; e < expert; e += 32)
    before += max(args.sizes[e], 0);
#pragma unroll
  for (int o = 16; o > 0; o /= 2) before += __shfl_xor_sync(0xffffffffu, before, o);
  return {before, min(args.sizes[expert], static_cast<int>(args.gemv.m) - before)};
}

// kGroup: values of K to a scale; 0: the epilogue has them. kGrouped: grid z = experts.
template <int kCode, class T, int kTilesM, int kTilesN, int kGroup, int kScale, bool kGrouped>
__global__ void __launch_bounds__(kGemvThreads, 1)
    gemv_packed_kernel(const __grid_constant__ PackedGemvArgs args,
                       const __grid_constant__ EpilogueArgs epilogue) {
  using Format = PackedFormat<kCode, T>;
  constexpr int kPer = kIsNibble<kCode> ? 8 : 4;  // values of a word
  constexpr int kPairs = kPer / 2;
  constexpr int kBlockK = 16 * kPer;
  constexpr bool kInWeights = kGroup == 16;
  constexpr bool kInSums = kGroup > 16;
  constexpr bool kTranspose = kInSums && kGroup < kBlockK;
  constexpr int kGroups = kGroup == 0 ? 1 : (kTranspose ? kBlockK / kGroup : kInWeights ? 2 : 1);
  constexpr int kWords = 4 / kGroups;  // of a lane, to a group
  constexpr int kRows = 16 * kTilesN;
  constexpr int kPitch = kRows + 4;
  static_assert(!kInWeights || kPer == 8);
  __shared__ float sums[kGemvWarps * 8 * kPitch];
  GemvArgs gemv = args.gemv;
  PackedRows rows{0, static_cast<int>(gemv.m)};
  const long long expert = kGrouped ? static_cast<long long>(blockIdx.z) : 0;
  if constexpr (kGrouped) {
    wait_for_predecessor();
    rows = packed_rows(args);
    if (rows.count <= 0) return;
    gemv.m = rows.count;
    gemv.x = static_cast<const T*>(gemv.x) + rows.first * gemv.x_m;
    gemv.y = static_cast<T*>(gemv.y) + rows.first * gemv.y_m;
  }
  const auto* const weights = static_cast<const unsigned char*>(gemv.w) + expert * args.w_expert;
  const long long first_scale = expert * args.scale_expert;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int g = lane / 4;
  const int t = lane % 4;
  const GemvRange range = gemv_range(gemv);
  constexpr int kStep = kGemvWarps * kBlockK;
  const int n = static_cast<int>(gemv.n);
  const int first_j = static_cast<int>(blockIdx.x) * kRows;
  const auto row_of = [&](int tile, int half) {  // rows past the end repeat the last one
    return min(first_j + tile * 16 + half * 8 + g, n - 1);
  };

  struct Block {
    Chunk w[kTilesN][2];
    float scale[kTilesN][2][kGroups];
    unsigned context[kTilesN][2][kHasZeroPoint<kCode> ? kGroups : 1];
  };
  const auto fetch = [&](int at, Block& block) {
    const int mine = at + t * (kBlockK / 4);
    const bool valid = mine < range.end;
#pragma unroll
    for (int tile = 0; tile < kTilesN; ++tile) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = row_of(tile, half);
        block.w[tile][half] = load_weights(weights + row * gemv.w_pitch + mine / kPer * 4, valid);
#pragma unroll
        for (int i = 0; i < kGroups; ++i) {
          if constexpr (kGroup > 0) {
            const int l = (kInWeights ? mine : at) + i * kGroup;
            const long long place =
                first_scale + (row >> args.scale_shift) * args.scale_row + l / kGroup;
            block.scale[tile][half][i] =
                l < range.end ? packed_scale<kScale>(args.scales, place) : 0.0f;
            if constexpr (kHasZeroPoint<kCode>)
              block.context[tile][half][i] = Format::context(
                  l < range.end ? static_cast<float>(args.zeros[place]) : 0.0f, lane);
          }
        }
      }
    }
  };

  if (!kGrouped && args.prefetch == 0) wait_for_predecessor();
  const int first = range.begin + warp * kBlockK;
  Block ahead;
  fetch(first, ahead);
  unsigned fixed[kTilesN][2];  // contexts that hold for all of K
#pragma unroll
  for (int tile = 0; tile < kTilesN; ++tile)
#pragma unroll
    for (int half = 0; half < 2; ++half)
      fixed[tile][half] =
          Format::context(kHasZeroPoint<kCode> && kGroup == 0
                              ? static_cast<float>(args.zeros[first_scale + row_of(tile, half)])
                              : 0.0f,
                          lane);
  release_successor();
  if (!kGrouped && args.prefetch != 0) wait_for_predecessor();

  const T* const x = static_cast<const T*>(gemv.x);
  const float whole = args.tensor_scale != nullptr ? *args.tensor_scale : 1.0f;
  int base = 0;
  while (true) {
    float acc[kTilesN][kTilesM][4] = {};
    for (int at = first; at < range.end; at += kStep) {
      Block now = ahead;
      fetch(at + kStep, ahead);
      if constexpr (kTranspose) {
#pragma unroll
        for (int tile = 0; tile < kTilesN; ++tile)
#pragma unroll
          for (int half = 0; half < 2; ++half) transpose_quad(now.w[tile][half], t);
      }
#pragma unroll
      for (int group = 0; group < kGroups; ++group) {
        float part[kInSums ? kTilesN : 1][kInSums ? kTilesM : 1][4] = {};
#pragma unroll
        for (int j = group * kWords; j < (group + 1) * kWords; ++j) {
          const int l = kTranspose ? at + j * 4 * kPer + t * kPer : at + t * 4 * kPer + j * kPer;
          unsigned b[kTilesM][kPairs];
#pragma unroll
          for (int i = 0; i < kTilesM; ++i)
            load_input_pairs<kPer>(x + (base + 8 * i + g) * gemv.x_m + l,
                                   base + 8 * i + g < gemv.m && l < range.end, b[i]);
#pragma unroll
          for (int tile = 0; tile < kTilesN; ++tile) {
            unsigned pairs[2][kPairs];
#pragma unroll
            for (int half = 0; half < 2; ++half) {
              const unsigned context =
                  kHasZeroPoint<kCode> && kGroup > 0
                      ? now.context[tile][half][kHasZeroPoint<kCode> ? group : 0]
                      : fixed[tile][half];
              Format::unpack(now.w[tile][half].v[j], context, pairs[half]);
              if constexpr (kInWeights) {
                const unsigned scale = convert<T>(now.scale[tile][half][group]).bits * 0x10001u;
#pragma unroll
                for (int p = 0; p < kPairs; ++p)
                  pairs[half][p] = multiply_pair<T>(pairs[half][p], scale);
              }
            }
#pragma unroll
            for (int i = 0; i < kTilesM; ++i) {
              float (&to)[4] =
                  *(kInSums ? &part[kInSums ? tile : 0][kInSums ? i : 0] : &acc[tile][i]);
#pragma unroll
              for (int p = 0; p < kPairs; p += 2) {
                const unsigned a[4] = {pairs[0][p], pairs[1][p], pairs[0][p + 1], pairs[1][p + 1]};
                Mma<T, T>::template run<0>(to, a, b[i][p], b[i][p + 1]);
              }
            }
          }
        }
        if constexpr (kInSums) {
#pragma unroll
          for (int tile = 0; tile < kTilesN; ++tile)
#pragma unroll
            for (int i = 0; i < kTilesM; ++i)
#pragma unroll
              for (int e = 0; e < 4; ++e)
                acc[tile][i][e] =
                    fmaf(now.scale[tile][e / 2][group], part[tile][i][e], acc[tile][i][e]);
        }
      }
    }

#pragma unroll
    for (int i = 0; i < kTilesM; ++i) {
      if (base + 8 * i >= gemv.m) break;
      if (i > 0) __syncthreads();  // the previous tile's sums have been read
#pragma unroll
      for (int tile = 0; tile < kTilesN; ++tile)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          float sum = acc[tile][i][e] * whole;
          if constexpr (kGrouped && kGroup == 0)
            sum *= packed_scale<kScale>(args.scales, first_scale + row_of(tile, e / 2));
          sums[(warp * 8 + 2 * t + e % 2) * kPitch + tile * 16 + e / 2 * 8 + g] = sum;
        }
      gemv_finish_block<T, 8, kRows, kPitch>(gemv, epilogue, sums, kGemvWarps, base + 8 * i,
                                             first_j);
    }
    base += 8 * kTilesM;
    if (!kGrouped || base >= gemv.m) break;
    __syncthreads();  // the sums have been read
    fetch(first, ahead);
  }
}

}  // namespace gpk

// Attention with warp-level MMA (SM80+): out = softmax(scale q k^T) v, flash attention for every
// mask, bias, layout and head dimension up to kDim (a multiple of 8; the rest is zero). A block has
// 64 queries of one head, 16 for each of its four warps. Tiles of keys and values arrive by
// cp.async: values while scores are computed, the next keys during the softmax.
// Grid -> data: x tiles of queries, the last ones first, y heads, z sequences.
// Numerics: scores, softmax and sums in float32, P rounded to T.
#pragma once

#include "attention/sequence.cuh"
#include "attention/softmax.cuh"
#include "common/cp_async.cuh"
#include "common/dtype.cuh"
#include "common/mma.cuh"

namespace gpk {

template <class T, int kDim, int kTileN>
struct TileMma {
  static constexpr int kTileM = 64;
  static constexpr int kThreads = 128;
  static constexpr int kPitch = kDim * 2 + 16;  // bytes; no bank conflicts
  static constexpr int kSharedBytes = (kTileM + 2 * kTileN) * kPitch;
  static constexpr int kPieces = kDim / 8;

  // Rows of `dim` elements; `offset(row)` is where one starts. Rows from `count` on become zero.
  template <int kRows, class Offset>
  static __device__ __forceinline__ void load(unsigned to, const void* base, int dim, int count,
                                              const Offset& offset) {
    for (int i = static_cast<int>(threadIdx.x); i < kRows * kPieces; i += kThreads) {
      const int row = i / kPieces;
      const int piece = i - row * kPieces;
      const bool real = row < count && piece * 8 < dim;
      const T* const from = static_cast<const T*>(base) + (real ? offset(row) + piece * 8 : 0);
      cp_async<16>(to + row * kPitch + piece * 16, from, real ? 16 : 0);
    }
    cp_async_commit();
  }

  // Scores of a warp's 16 rows.
  static __device__ __forceinline__ void multiply_qk(float (&s)[kTileN / 8][4], unsigned q,
                                                     unsigned k, int lane) {
#pragma unroll
    for (int n = 0; n < kTileN / 8; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) s[n][i] = 0.0f;
    const unsigned a_at = q + (lane % 16) * kPitch + lane / 16 * 16;
    const unsigned b_at = k + (lane / 16 * 8 + lane % 8) * kPitch + lane / 8 % 2 * 16;
#pragma unroll
    for (int step = 0; step < kDim / 16; ++step) {
      unsigned a[4];
      load_matrices(a, a_at + step * 32);
#pragma unroll
      for (int n = 0; n < kTileN / 8; n += 2) {
        unsigned b[4];
        load_matrices(b, b_at + n * 8 * kPitch + step * 32);
        Mma<T, T>::template run<0>(s[n], a, b[0], b[1]);
        Mma<T, T>::template run<0>(s[n + 1], a, b[2], b[3]);
      }
    }
  }

  static __device__ __forceinline__ void multiply_pv(float (&o)[kDim / 8][4],
                                                     const unsigned (&p)[kTileN / 4], unsigned v,
                                                     int lane) {
    const unsigned b_at = v + (lane / 8 % 2 * 8 + lane % 8) * kPitch + lane / 16 * 16;
#pragma unroll
    for (int step = 0; step < kTileN / 16; ++step) {
      const unsigned a[4] = {p[4 * step], p[4 * step + 1], p[4 * step + 2], p[4 * step + 3]};
#pragma unroll
      for (int n = 0; n < kDim / 8; n += 2) {
        unsigned b[4];
        load_matrices_transposed(b, b_at + step * 16 * kPitch + n * 16);
        Mma<T, T>::template run<0>(o[n], a, b[0], b[1]);
        Mma<T, T>::template run<0>(o[n + 1], a, b[2], b[3]);
      }
    }
  }
};

template <class T, int kDim, int kTileN>
__global__ void __launch_bounds__(128) attention_tile_kernel(const AttentionArgs args) {
  using Tile = TileMma<T, kDim, kTileN>;
  const unsigned queries = shared_address(dynamic_shared());
  const unsigned keys = queries + Tile::kTileM * Tile::kPitch;
  const unsigned values = keys + kTileN * Tile::kPitch;
  const int lane = static_cast<int>(threadIdx.x) & 31;
  const int warp = static_cast<int>(threadIdx.x) >> 5;
  const int head = static_cast<int>(blockIdx.y);
  const int kv_head = head / args.group;
  const Sequence sequence(args, static_cast<int>(blockIdx.z));
  const int first = static_cast<int>(gridDim.x - 1 - blockIdx.x) * Tile::kTileM;
  if (first >= sequence.q_len) return;
  const int from = sequence.from(args, first) / kTileN * kTileN;
  const int to = sequence.to(args, min(first + Tile::kTileM, sequence.q_len) - 1);
  const auto load_keys = [&](int key) {
    Tile::template load<kTileN>(keys, args.k, args.dim, to - key, [&](int row) {
      return sequence.key(args, args.k_at, key + row, kv_head);
    });
  };
  Tile::template load<Tile::kTileM>(
      queries, args.q, args.dim, sequence.q_len - first,
      [&](int row) { return sequence.query(args, first + row, head); });
  load_keys(from);

  float o[kDim / 8][4];
#pragma unroll
  for (int n = 0; n < kDim / 8; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) o[n][i] = 0.0f;
  RowSums<false> sums(1.0f, 0.0f);  // scores come scaled
  const int row = first + warp * 16 + lane / 4;
  for (int key = from; key < to; key += kTileN) {
    cp_async_wait<0>();
    __syncthreads();
    Tile::template load<kTileN>(values, args.v, args.value_dim, to - key, [&](int r) {
      return sequence.key(args, args.v_at, key + r, kv_head);
    });
    float s[kTileN / 8][4];
    Tile::multiply_qk(s, queries + warp * 16 * Tile::kPitch, keys, lane);
    cp_async_wait<0>();
    __syncthreads();
    if (key + kTileN < to) load_keys(key + kTileN);
#pragma unroll
    for (int n = 0; n < kTileN / 8; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        s[n][i] = row + i / 2 * 8 < sequence.q_len
                      ? sequence.score(args, s[n][i], head, row + i / 2 * 8,
                                       key + n * 8 + 2 * (lane % 4) + i % 2)
                      : minus_infinity();
    float (&flat)[kTileN / 2] = *reinterpret_cast<float (*)[kTileN / 2]>(&s[0][0]);
    float factor[2];
    sums.add(flat, factor);
#pragma unroll
    for (int n = 0; n < kDim / 8; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) o[n][i] *= factor[i / 2];
    unsigned p[kTileN / 4];
    pack_pairs<T>(flat, p);
    Tile::multiply_pv(o, p, values, lane);
  }
  cp_async_wait<0>();
  sums.finish(args.sinks != nullptr ? args.sinks + head : nullptr, args.v_scale);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if (row + 8 * half >= sequence.q_len) continue;
    T* const out = static_cast<T*>(args.out) + sequence.result(args, row + 8 * half, head);
#pragma unroll
    for (int n = 0; n < kDim / 8; ++n) {
      const int column = 8 * n + 2 * (lane % 4);
      if (column < args.value_dim)
        *reinterpret_cast<unsigned*>(out + column) = pack_pair<T>(
            o[n][2 * half] * sums.inverse[half], o[n][2 * half + 1] * sums.inverse[half]);
    }
  }
}

}  // namespace gpk

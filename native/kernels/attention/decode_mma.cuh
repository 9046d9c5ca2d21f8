// Attention of few queries against a long cache: out = softmax(scale q k^T) v, bound by the bytes
// of k and v. All query heads of a key head, times q_len queries, are the rows of MMA tiles of 16,
// so that the cache is read once. Each warp streams 16 keys at a time through a ring of its own.
// After every `split` keys the results of the warps are merged in shared memory and become a part;
// the last block of a tile merges all parts. Both happen in the order of keys, so that bits depend
// on neither the batch, nor the number of blocks, nor timing.
// Grid -> data: x has groups of splits, y key heads times tiles of rows, z sequences. 8-bit caches
// are widened to float16 in registers.
// Numerics: scores, softmax and sums in float32, P rounded to 16 bits.
#pragma once

#include "attention/decode_parts.cuh"
#include "common/barrier.cuh"
#include "common/dependent_launch.cuh"
#include "common/dtype.cuh"
#include "common/mma.cuh"

namespace gpk {

using namespace kernels;

template <class T, bool kNarrow>
struct Operand16 {
  using Type = T;
};
template <class T>
struct Operand16<T, true> {
  using Type = float16;
};

template <class T, class Kv, int kDim, int kValueDim, int kWarps, int kStages>
struct DecodeMma {
  static constexpr bool kNarrow = sizeof(Kv) == 1;
  static constexpr int kBytesK = kDim * static_cast<int>(sizeof(Kv));
  static constexpr int kBytesV = kValueDim * static_cast<int>(sizeof(Kv));
  static constexpr int kPitchK = RowCopies<kBytesK>::kPitch;
  static constexpr int kPitchV = RowCopies<kBytesV>::kPitch;
  static constexpr int kStageBytes = kDecodeKeys * (kPitchK + kPitchV);
  static constexpr int kWarpBytes = kStages * kStageBytes;
  static constexpr int kMergeRow = kValueDim + 4;  // floats; maximum and sum behind the result
  static constexpr int kBlockKeys = kWarps * kDecodeKeys;  // of a step of the block
  static constexpr int kStepsK = kDim / 16;
  static constexpr int kGroupsV = kValueDim / 8;
  // 16-bit operand type of the MMA.
  using Mul = typename Operand16<T, kNarrow>::Type;

  // Columns of the result that accumulator i of a row holds: 8-bit caches interleave.
  static __device__ __forceinline__ int column(int group, int e, int t) {
    if constexpr (kNarrow) {
      return group / 2 * 16 + 4 * t + 2 * e + (group & 1);
    } else {
      return group * 8 + 2 * t + e;
    }
  }

  // s[16 x 16] = q k^T. q.load(a, step) gives the operand of 16 columns of q.
  template <class Queries>
  static __device__ __forceinline__ void multiply_qk(float (&s)[8], const Queries& q, unsigned k,
                                                     int lane) {
#pragma unroll
    for (int i = 0; i < 8; ++i) s[i] = 0.0f;
    float (&left)[4] = *reinterpret_cast<float (*)[4]>(&s[0]);
    float (&right)[4] = *reinterpret_cast<float (*)[4]>(&s[4]);
    if constexpr (!kNarrow) {
      const unsigned at = k + ((lane / 16) * 8 + lane % 8) * kPitchK + (lane / 8 % 2) * 16;
#pragma unroll
      for (int step = 0; step < kStepsK; ++step) {
        unsigned a[4], b[4];
        q.load(a, step);
        load_matrices(b, at + step * 32);
        Mma<Mul, Mul>::template run<0>(left, a, b[0], b[1]);
        Mma<Mul, Mul>::template run<0>(right, a, b[2], b[3]);
      }
    } else {
      const unsigned at = k + ((lane / 8 % 2) * 8 + lane % 8) * kPitchK + (lane / 16) * 16;
#pragma unroll
      for (int step = 0; step < kStepsK; step += 2) {
        unsigned b[4];
        load_matrices(b, at + step * 16);
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          unsigned a[4];
          q.load(a, step + j);
          Mma<Mul, Mul>::template run<0>(left, a, halves_of_e4m3(b[2 * j]),
                                         halves_of_e4m3(b[2 * j] >> 16));
          Mma<Mul, Mul>::template run<0>(right, a, halves_of_e4m3(b[2 * j + 1]),
                                         halves_of_e4m3(b[2 * j + 1] >> 16));
        }
      }
    }
  }

  // o[16 x kValueDim] += p v.
  static __device__ __forceinline__ void multiply_pv(float (&o)[kGroupsV][4],
                                                     const unsigned (&p)[4], unsigned v, int lane) {
    const unsigned at = v + ((lane / 8 % 2) * 8 + lane % 8) * kPitchV + (lane / 16) * 16;
    if constexpr (!kNarrow) {
#pragma unroll
      for (int g = 0; g < kGroupsV; g += 2) {
        unsigned b[4];
        load_matrices_transposed(b, at + g * 16);
        Mma<Mul, Mul>::template run<0>(o[g], p, b[0], b[1]);
        Mma<Mul, Mul>::template run<0>(o[g + 1], p, b[2], b[3]);
      }
    } else {
#pragma unroll
      for (int g = 0; g < kGroupsV; g += 4) {
        unsigned b[4];
        load_matrices_transposed(b, at + g * 8);
#pragma unroll
        for (int j = 0; j < 2; ++j)
#pragma unroll
          for (int odd = 0; odd < 2; ++odd)
            Mma<Mul, Mul>::template run<0>(
                o[g + 2 * j + odd], p,
                halves_of_e4m3(__byte_perm(b[2 * j], 0, odd == 0 ? 0x20 : 0x31)),
                halves_of_e4m3(__byte_perm(b[2 * j + 1], 0, odd == 0 ? 0x20 : 0x31)));
      }
    }
  }

  static __device__ __forceinline__ void store(const AttentionArgs& args, const DecodeUnit& unit,
                                               int row, int column, const DecodeSum& sum) {
    const int query = DecodeUnit::query_of(args, unit.first_row + row);
    const int head = unit.kv_head * args.group + unit.first_row + row - query * args.group;
    const float* const sink = args.sinks != nullptr ? args.sinks + head : nullptr;
    const float factor = inverse_sum(sum.total, sum.largest, sink) * args.v_scale;
    Vec<T, 4> y;
#pragma unroll
    for (int c = 0; c < 4; ++c) y.v[c] = convert<T>(sum.value[c] * factor);
    store_vec<T, 4>(static_cast<T*>(args.out) + unit.batch * args.out_at.batch +
                        query * args.out_at.row + head * args.out_at.head + column,
                    y);
  }

  // 16 rows (query, head) of q as the A operand; rows beyond are zero.
  struct HeldQueries {
    unsigned q[kStepsK][4];

    __device__ __forceinline__ HeldQueries(const AttentionArgs& args, const T* base, int first_row,
                                           int lane) {
      const int t = lane % 4;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = first_row + lane / 4 + 8 * half;
        const T* from = row_of(args, base, row);
#pragma unroll
        for (int step = 0; step < kStepsK; ++step)
#pragma unroll
          for (int part = 0; part < 2; ++part) {
            const int at = 16 * step + (kNarrow ? 4 * t + 2 * part : 2 * t + 8 * part);
            unsigned pair = 0;
            if (from != nullptr) {
              if constexpr (kNarrow) {
                pair = pack_pair<Mul>(to_compute(from[at]), to_compute(from[at + 1]));
              } else {
                pair = *reinterpret_cast<const unsigned*>(from + at);
              }
            }
            q[step][half + 2 * part] = pair;
          }
      }
    }
    __device__ __forceinline__ void load(unsigned (&a)[4], int step) const {
#pragma unroll
      for (int i = 0; i < 4; ++i) a[i] = q[step][i];
    }
  };

  static __device__ __forceinline__ const T* row_of(const AttentionArgs& args, const T* base,
                                                    int row) {
    if (row >= args.group * args.q_len) return nullptr;
    const int query = DecodeUnit::query_of(args, row);
    return base + query * args.q_at.row + (row - query * args.group) * args.q_at.head;
  }
};

// The work of a block of 32 * kWarps threads (from thread 0 on). `max_blocks` is the distance of
// the tiles in `parts`; shared memory as decode_mma_kernel's.
template <class T, class Kv, int kDim, int kValueDim, int kWarps, int kStages, bool kSoftcap>
__device__ __forceinline__ void decode_attention(const AttentionArgs& args, const DecodeUnit& unit,
                                                 int max_blocks, unsigned char* raw_shared) {
  using Decode = DecodeMma<T, Kv, kDim, kValueDim, kWarps, kStages>;
  constexpr int kColumns = kValueDim / 4;
  constexpr int kMergeRow = Decode::kMergeRow;
  __shared__ bool is_last;
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread & 31;
  const int warp = thread >> 5;
  const unsigned ring = shared_address(raw_shared) + warp * Decode::kWarpBytes;
  float* const merge = reinterpret_cast<float*>(raw_shared + kWarps * Decode::kWarpBytes);
  const int merge_rows = min(kDecodeRows, args.group * args.q_len);

  // Fetches this warp's keys of the step from `ahead` on.
  constexpr long long kSize = sizeof(Kv);
  const bool paged = args.blocks != nullptr;
  const int* const blocks =
      args.blocks + (paged ? static_cast<long long>(unit.batch) * args.blocks_row : 0);
  const long long k_outer = args.k_at.batch * kSize;
  const long long v_outer = args.v_at.batch * kSize;
  RowCopies<Decode::kBytesK> copy_k{
      static_cast<const char*>(args.k) + unit.kv_head * args.k_at.head * kSize,
      args.k_at.row * kSize, lane};
  RowCopies<Decode::kBytesV> copy_v{
      static_cast<const char*>(args.v) + unit.kv_head * args.v_at.head * kSize,
      args.v_at.row * kSize, lane};
  if (!paged) {
    copy_k.base += unit.batch * k_outer;
    copy_v.base += unit.batch * v_outer;
  }
  int ahead = unit.from + warp * kDecodeKeys;
  int ahead_stage = 0;
  int block = paged && ahead < unit.to ? blocks[ahead >> args.page_log2] : 0;
  const auto fetch = [&] {
    const int count = min(kDecodeKeys, unit.to - ahead);
    if (count > 0) {
      const unsigned at = ring + ahead_stage * Decode::kStageBytes;
      const int next = ahead + Decode::kBlockKeys;
      if (paged) {
        RowCopies<Decode::kBytesK> page_k = copy_k;
        RowCopies<Decode::kBytesV> page_v = copy_v;
        page_k.base += block * k_outer;
        page_v.base += block * v_outer;
        const int row = ahead & ((1 << args.page_log2) - 1);
        page_k.run(at, row, count);
        page_v.run(at + kDecodeKeys * Decode::kPitchK, row, count);
        if (next < unit.to) block = blocks[next >> args.page_log2];
      } else {
        copy_k.run(at, ahead, count);
        copy_v.run(at + kDecodeKeys * Decode::kPitchK, ahead, count);
      }
      ahead = next;
    }
    cp_async_commit();
    ahead_stage = ahead_stage + 1 == kStages ? 0 : ahead_stage + 1;
  };
#pragma unroll 1
  for (int i = 0; i < kStages - 1; ++i) fetch();

  const typename Decode::HeldQueries q(
      args,
      static_cast<const T*>(args.q) + unit.batch * args.q_at.batch +
          static_cast<long long>(unit.kv_head) * args.group * args.q_at.head,
      unit.first_row, lane);
  int low[2];
  int high[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int at = DecodeUnit::query_of(args, unit.first_row + lane / 4 + 8 * half) + unit.shift;
    low[half] = at - args.left;
    high[half] = min(at + args.right, unit.length - 1);
  }
  // Keys that all rows see.
  const int inside_from =
      DecodeUnit::query_of(args, unit.first_row + unit.rows - 1) + unit.shift - args.left;
  const int inside_to =
      min(DecodeUnit::query_of(args, unit.first_row) + unit.shift + args.right + 1, unit.length);
  float* const parts =
      args.parts + (static_cast<long long>(unit.tile) * max_blocks << args.splits_log2) *
                       (kDecodeRows * kMergeRow);

  float o[Decode::kGroupsV][4];
  RowSums<kSoftcap> sums(args.scale, args.softcap);
  const auto reset = [&] {
    sums = RowSums<kSoftcap>(args.scale, args.softcap);
#pragma unroll
    for (int g = 0; g < Decode::kGroupsV; ++g)
#pragma unroll
      for (int i = 0; i < 4; ++i) o[g][i] = 0.0f;
  };
  reset();
  int stage = 0;
  for (int first_key = unit.from; first_key < unit.to || first_key == unit.from;) {
    fetch();
    const int key = first_key + warp * kDecodeKeys;
    cp_async_wait<kStages - 1>();
    __syncwarp();
    if (key < unit.to) {
      const unsigned at = ring + stage * Decode::kStageBytes;
      float s[8];
      Decode::multiply_qk(s, q, at, lane);
      if (key < inside_from || key + kDecodeKeys > inside_to) {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          const int column = key + i / 4 * 8 + 2 * (lane % 4) + i % 2;
          if (column < low[i >> 1 & 1] || column > high[i >> 1 & 1]) s[i] = minus_infinity();
        }
      }
      float factor[2];
      sums.add(s, factor);
      if (__any_sync(0xffffffffu, factor[0] != 1.0f || factor[1] != 1.0f)) {
#pragma unroll
        for (int g = 0; g < Decode::kGroupsV; ++g)
#pragma unroll
          for (int i = 0; i < 4; ++i) o[g][i] *= factor[i >> 1];
      }
      unsigned p[4];
      pack_pairs<typename Decode::Mul>(s, p);
      Decode::multiply_pv(o, p, at + kDecodeKeys * Decode::kPitchK, lane);
    }
    __syncwarp();
    stage = stage + 1 == kStages ? 0 : stage + 1;
    const int split = first_key >> args.split_log2;
    first_key += Decode::kBlockKeys;
    if ((first_key & ((1 << args.split_log2) - 1)) != 0 && first_key < unit.to) continue;

    // A split ends: the results of the warps side by side, then their sum.
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = lane / 4 + 8 * half;
      const float total = quad_sum(sums.sum[half]);
      if (row >= unit.rows) continue;
      float* const mine = merge + (warp * merge_rows + row) * kMergeRow;
#pragma unroll
      for (int g = 0; g < Decode::kGroupsV; ++g)
#pragma unroll
        for (int e = 0; e < 2; ++e) mine[Decode::column(g, e, lane % 4)] = o[g][2 * half + e];
      if (lane % 4 == 0) {
        mine[kValueDim] = sums.largest[half];
        mine[kValueDim + 1] = total;
      }
    }
    reset();
    named_sync(1, 32 * kWarps);
    for (int i = thread; i < unit.rows * kColumns; i += 32 * kWarps) {
      const int row = i / kColumns;
      const int column = (i - row * kColumns) * 4;
      DecodeSum sum;
      sum.add<kValueDim, kWarps>(merge + row * kMergeRow, kWarps, merge_rows * kMergeRow, column);
      if (unit.num_splits == 1) {
        Decode::store(args, unit, row, column, sum);
      } else {
        float* const mine = parts + (static_cast<long long>(split) * kDecodeRows + row) * kMergeRow;
        const Vec<float, 4> y{{sum.value[0], sum.value[1], sum.value[2], sum.value[3]}};
        store_vec<float, 4>(mine + column, y);
        if (column == 0) {
          mine[kValueDim] = sum.largest;
          mine[kValueDim + 1] = sum.total;
        }
      }
    }
    named_sync(1, 32 * kWarps);
  }
  if (unit.num_splits == 1) return;
  if (thread == 0) {
    __threadfence();
    const auto last = static_cast<unsigned>(unit.num_blocks - 1);
    is_last = atomicInc(args.counters + unit.tile, last) == last;
    __threadfence();
  }
  named_sync(1, 32 * kWarps);
  if (!is_last) return;
  for (int i = thread; i < unit.rows * kColumns; i += 32 * kWarps) {
    const int row = i / kColumns;
    const int column = (i - row * kColumns) * 4;
    DecodeSum sum;
    sum.add<kValueDim, 16>(
        parts + (static_cast<long long>(unit.first_split) * kDecodeRows + row) * kMergeRow,
        unit.num_splits, kDecodeRows * kMergeRow, column);
    Decode::store(args, unit, row, column, sum);
  }
}

template <class T, class Kv, int kDim, int kValueDim, int kWarps, int kStages, bool kSoftcap>
__global__ void __launch_bounds__(32 * kWarps) decode_mma_kernel(const AttentionArgs args) {
  start_dependent();
  DecodeUnit unit;
  if (!unit.init(args, static_cast<int>(blockIdx.x), static_cast<int>(blockIdx.y),
                 static_cast<int>(blockIdx.z), static_cast<int>(gridDim.y)))
    return;
  decode_attention<T, Kv, kDim, kValueDim, kWarps, kStages, kSoftcap>(
      args, unit, static_cast<int>(gridDim.x), dynamic_shared());
}

}  // namespace gpk

// The online softmax of attention, in the layout of MMA accumulators: a thread has two rows, of
// which s[4 g + {0, 1}] and s[4 g + {2, 3}] are the columns 8 g + 2 (lane % 4) + {0, 1}; four
// neighbouring lanes share a row.
#pragma once

#include "common/dtype.cuh"
#include "common/fast_math.cuh"
#include "common/vec.cuh"

namespace gpk {

__device__ __forceinline__ float minus_infinity() { return __int_as_float(0xff800000); }

__device__ __forceinline__ float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

__device__ __forceinline__ float quad_sum(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

inline constexpr float kLog2E = 1.4426950408889634f;

// softcap * tanh(s / softcap) of a score in units of log2(e); -inf stays.
__device__ __forceinline__ float capped_score(float s, float softcap) {
  if (s == minus_infinity()) return s;
  const float e = exp2_fast(2.0f * s / softcap);
  return softcap * kLog2E * (1.0f - __fdividef(2.0f, 1.0f + e));
}

// What results relative to 2^largest are multiplied by; 0 for a row without keys. `sink`: a logit
// that takes part in the sum only; nullptr: none.
__device__ __forceinline__ float inverse_sum(float total, float largest, const float* sink) {
  if (sink == nullptr) return total == 0.0f ? 0.0f : 1.0f / total;
  const float top = fmaxf(largest, *sink * kLog2E);
  const float shrink = exp2_fast(largest - top);
  return shrink / (total * shrink + exp2_fast(*sink * kLog2E - top));
}

// Running maximum and sum of exponentials of two rows. Scores are in units of log2 after `scale`.
template <bool kSoftcap>
class RowSums {
 public:
  float largest[2];  // of the scaled scores
  float sum[2];      // of this thread's columns
  float inverse[2];  // of the whole sum, after finish(); 0 for a row without keys

  __device__ __forceinline__ RowSums(float scale, float softcap)
      : largest{minus_infinity(), minus_infinity()},
        sum{0.0f, 0.0f},
        inverse{0.0f, 0.0f},
        scale_(kSoftcap ? 1.0f : scale),
        cap_(softcap),
        inner_(scale) {}

  // Replaces scores by exponentials; `factor` is what earlier sums and results are multiplied by.
  template <int kSize>
  __device__ __forceinline__ void add(float (&s)[kSize], float (&factor)[2]) {
    if constexpr (kSoftcap) {
#pragma unroll
      for (int i = 0; i < kSize; ++i) s[i] = capped_score(s[i] * inner_, cap_);
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float top = s[2 * h];
#pragma unroll
      for (int i = 0; i < kSize; i += 4) top = fmaxf(top, fmaxf(s[i + 2 * h], s[i + 2 * h + 1]));
      const float before = largest[h];
      largest[h] = fmaxf(before, quad_max(top) * scale_);
      const float base = largest[h] == minus_infinity() ? 0.0f : largest[h];
      factor[h] = exp2_fast(before - base);
      float total = 0.0f;
#pragma unroll
      for (int i = 0; i < kSize; i += 4) {
        s[i + 2 * h] = exp2_fast(fmaf(s[i + 2 * h], scale_, -base));
        s[i + 2 * h + 1] = exp2_fast(fmaf(s[i + 2 * h + 1], scale_, -base));
        total += s[i + 2 * h] + s[i + 2 * h + 1];
      }
      sum[h] = fmaf(sum[h], factor[h], total);
    }
  }

  // `factor` multiplies results.
  __device__ __forceinline__ void finish(const float* sink, float factor) {
#pragma unroll
    for (int h = 0; h < 2; ++h)
      inverse[h] = inverse_sum(quad_sum(sum[h]), largest[h], sink) * factor;
  }

 private:
  float scale_;
  float cap_;
  float inner_;
};

template <class T>
__device__ __forceinline__ unsigned pack_pair(float low, float high) {
  if constexpr (kIsSame<T, bfloat16>) {
    return ptx::to_bfloats(low, high);
  } else {
    return ptx::to_halves(low, high);
  }
}

// Four lanes transpose 4 x 4 words: word j of lane i becomes word i of lane j.
__device__ __forceinline__ void transpose_quad(unsigned (&word)[4], int lane) {
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    const bool odd = (lane & 1) != 0;
    const unsigned other = __shfl_xor_sync(0xffffffffu, odd ? word[i] : word[i + 1], 1);
    (odd ? word[i] : word[i + 1]) = other;
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const bool upper = (lane & 2) != 0;
    const unsigned other = __shfl_xor_sync(0xffffffffu, upper ? word[i] : word[i + 2], 2);
    (upper ? word[i] : word[i + 2]) = other;
  }
}

// The A operand of the next MMA: pairs of columns, rounded to T.
template <class T, int kSize>
__device__ __forceinline__ void pack_pairs(const float (&s)[kSize], unsigned (&p)[kSize / 2]) {
#pragma unroll
  for (int i = 0; i < kSize / 2; ++i) p[i] = pack_pair<T>(s[2 * i], s[2 * i + 1]);
}

// Stores two rows of accumulators times `factor`, in accesses of 16 bytes: four lanes exchange
// their pieces of four groups of columns.
template <class T, int kDim>
__device__ __forceinline__ void store_rows(const float (&o)[kDim / 2], const float (&factor)[2],
                                           T* out, long long stride, int row, int num_rows) {
  static_assert(sizeof(T) == 2 && kDim % 32 == 0);
  const int lane = static_cast<int>(threadIdx.x) & 3;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    T* const to = out + static_cast<long long>(row + 8 * h) * stride;
#pragma unroll
    for (int g = 0; g < kDim / 8; g += 4) {
      unsigned piece[4];
#pragma unroll
      for (int i = 0; i < 4; ++i)
        piece[i] = pack_pair<T>(o[4 * (g + i) + 2 * h] * factor[h],
                                o[4 * (g + i) + 2 * h + 1] * factor[h]);
      transpose_quad(piece, lane);
      if (row + 8 * h < num_rows) {
        const Vec<unsigned, 4> whole{{piece[0], piece[1], piece[2], piece[3]}};
        *reinterpret_cast<Vec<unsigned, 4>*>(to + 8 * (g + lane)) = whole;
      }
    }
  }
}

}  // namespace gpk

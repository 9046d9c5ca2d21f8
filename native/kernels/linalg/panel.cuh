// What the blocks of one panel (grid x: its blocks, kBlocks at most, y: matrices) pass to each
// other for every column, by words that carry the column's tag (common/exchange.cuh): two slots in
// turn, a slot is free once every block has published the column after it. All blocks must be
// resident. A slot has for each block a few words, [word][block], and kPanelMaxCols numbers.
#pragma once

#include "common/exchange.cuh"
#include "linalg/matrix.cuh"

namespace gpk {

// The rows of a panel that this block has.
struct PanelRows {
  int first, count;

  __device__ __forceinline__ PanelRows(int rows, int per_block)
      : first(static_cast<int>(blockIdx.x) * per_block), count(min(rows - first, per_block)) {}
};

// A number of its words. Not by its address: words would be in local memory.
template <class T>
struct FromWords;
template <>
struct FromWords<float> {
  static __device__ __forceinline__ float make(const float* words) { return words[0]; }
};
template <>
struct FromWords<double> {
  static __device__ __forceinline__ double make(const float* words) {
    const unsigned long long high = __float_as_uint(words[1]);
    return __longlong_as_double(static_cast<long long>(high << 32 | __float_as_uint(words[0])));
  }
};
template <class R>
struct FromWords<Complex<R>> {
  static __device__ __forceinline__ Complex<R> make(const float* words) {
    return {FromWords<R>::make(words), FromWords<R>::make(words + sizeof(R) / 4)};
  }
};

template <class T, int kBlocks>
struct PanelExchange {
  static constexpr int kWords = sizeof(T) / 4;
  static constexpr int kLaneCols = kPanelMaxCols / 32;

  unsigned long long* slot;
  unsigned tag;

  __device__ __forceinline__ PanelExchange(unsigned long long* words, int column, unsigned t)
      : slot(words + (column & 1) * (kPanelSlotWords / 2)), tag(t) {}

  __device__ __forceinline__ unsigned long long* word(int index, int block) const {
    return slot + index * kBlocks + block;
  }
  // Word w of number i of a block is kStep words behind that of w - 1, or of i - 32 and w + kWords.
  static constexpr int kStep = kBlocks * 32;
  __device__ __forceinline__ unsigned long long* number(int i, int block) const {
    return slot + kPanelHeadWords * kBlocks + i / 32 * kWords * kStep + block * 32 + i % 32;
  }

  __device__ __forceinline__ void put(int i, T value) const {
    const float* const parts = reinterpret_cast<const float*>(&value);
#pragma unroll
    for (int w = 0; w < kWords; ++w)
      publish(number(i, static_cast<int>(blockIdx.x)) + w * kStep, parts[w], tag);
  }
  // Numbers lane, lane + 32, ... of a block's.
  __device__ __forceinline__ void get(int block, int count, T (&values)[kLaneCols]) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    float words[kLaneCols * kWords];
    receive(number(lane, block), kStep, (count - lane + 31) / 32 * kWords, tag, words);
#pragma unroll
    for (int i = 0; i < kLaneCols; ++i) {
      float parts[kWords];
#pragma unroll
      for (int w = 0; w < kWords; ++w) parts[w] = words[i * kWords + w];
      values[i] = FromWords<T>::make(parts);
    }
  }
};

}  // namespace gpk

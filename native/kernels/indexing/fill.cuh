// dst[...] = value where mask (everywhere without one): value is a number, or an array with
// strides. Side a of the layout is dst, side b the array of values, index[0].stride the mask; words
// of one element, strides in elements. Grid: ceil(total / (kBlock * kUnroll)) blocks.
#pragma once

#include "indexing/move.cuh"

namespace gpk {

template <class U, class Word, int kBlock, int kUnroll, class Layout>
__device__ __forceinline__ void fill_words(const Layout& l, Word* dst, const Word* values,
                                           Word value) {
  const long long first = static_cast<long long>(blockIdx.x) * (kBlock * kUnroll) + threadIdx.x;
  const auto* mask = static_cast<const unsigned char*>(l.index[0].data);
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const long long n = first + u * kBlock;
    if (n >= l.total) continue;
    const auto place = locate<U>(l, static_cast<U>(n));
    if (mask == nullptr || mask[place.index[0]] != 0)
      dst[place.a] = values == nullptr ? value : values[place.b];
  }
}

template <class Word, int kMaxDims, int kBlock, int kUnroll>
__global__ void __launch_bounds__(kBlock)
    masked_fill_kernel(const __grid_constant__ IndexedLayout<kMaxDims, 1> l, Word* dst,
                       const Word* values, Word value) {
  if (l.total <= 0xffffffffLL) {
    fill_words<unsigned, Word, kBlock, kUnroll>(l, dst, values, value);
  } else {
    fill_words<unsigned long long, Word, kBlock, kUnroll>(l, dst, values, value);
  }
}

}  // namespace gpk

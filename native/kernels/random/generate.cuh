// out[i] for i < n: element i comes from block i / kPerBlock of the stream, whatever the grid is.
// A thread makes kBlocks blocks at a time, one store of 16 bytes (32 for 64-bit integers of small
// range), kUnroll times. `aligned`: out starts on a boundary of that store.
// Grid: ceil(n / (256 * kUnroll * elements per store)). Bound by the writes, or for normals by the
// about thirty instructions per element.
#pragma once

#include "common/vec.cuh"
#include "random/draw.cuh"

namespace gpk {

constexpr int kGenerateThreads = 256;

template <class T, class Draw, int kBlocks, int kUnroll>
__global__ void __launch_bounds__(kGenerateThreads)
    generate_kernel(T* out, long long n, RandomStream stream, Draw draw, int aligned) {
  constexpr int kElems = Draw::kPerBlock * kBlocks;
  const long long first =
      static_cast<long long>(blockIdx.x) * (kGenerateThreads * kUnroll) + threadIdx.x;
  const auto make = [&](long long store) {
    Vec<T, kElems> made;
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
      const unsigned long long block = static_cast<unsigned long long>(store) * kBlocks + b;
      draw(random_words(stream, block, 0), stream, block, made.v + b * Draw::kPerBlock);
    }
    return made;
  };
  if (aligned != 0 && (first + (kUnroll - 1) * kGenerateThreads + 1) * kElems <= n) {
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const long long store = first + u * kGenerateThreads;
      store_vec<T, kElems>(out + store * kElems, make(store));
    }
    return;
  }
#pragma unroll 1
  for (int u = 0; u < kUnroll; ++u) {
    const long long store = first + u * kGenerateThreads;
    if (store * kElems >= n) return;
    const Vec<T, kElems> made = make(store);
#pragma unroll
    for (int i = 0; i < kElems; ++i)
      if (store * kElems + i < n) out[store * kElems + i] = made.v[i];
  }
}

}  // namespace gpk

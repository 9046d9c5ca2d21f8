// out[i] for i < n: element i comes from block i / kPerBlock of the stream, whatever the grid is. A
// thread produces kBlocks blocks at a time, one store of 16 bytes (32 for 64-bit integers of small
// range), kUnroll times. `aligned`: out is aligned to that store. Grid: ceil(n / (256 * kUnroll *
// elements per store)). Bound by the writes, or for normals by some thirty instructions per
// element.
#pragma once

#include "common/vec.cuh"
#include "random/draw.cuh"

namespace gpk {

constexpr int kGenerateThreads = 256;

// Elements produced together; rejected ones have a bit set.
template <class T, class Draw, int kBlocks>
struct Batch {
  static constexpr int kElems = Draw::kPerBlock * kBlocks;
  static constexpr bool kRejects =
      !kIsSame<void, decltype(Draw()(RandomWords(), static_cast<T*>(nullptr)))>;
  Vec<T, kElems> values;
  unsigned int rejected = 0;

  __device__ __forceinline__ Batch(const RandomStream& stream, const Draw& draw,
                                   unsigned long long first_block) {
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
      const RandomWords words = random_words(stream, first_block + b, 0);
      T* out = values.v + b * Draw::kPerBlock;
      if constexpr (kRejects) {
        rejected |= draw(words, out) << (b * Draw::kPerBlock);
      } else {
        draw(words, out);
      }
    }
  }

  // After the others were stored: rare, so a loop over memory.
  __device__ __forceinline__ void redraw(const RandomStream& stream, const Draw& draw,
                                         unsigned long long first_block, T* out, long long count) {
    if constexpr (kRejects) {
#pragma unroll 1
      for (; rejected != 0; rejected &= rejected - 1) {
        const int i = __ffs(static_cast<int>(rejected)) - 1;
        if (i < count)
          out[i] = draw.redraw(stream, first_block + i / Draw::kPerBlock, i % Draw::kPerBlock);
      }
    }
  }
};

template <class T, class Draw, int kBlocks, int kUnroll>
__global__ void __launch_bounds__(kGenerateThreads)
    generate_kernel(T* out, long long n, RandomStream stream, Draw draw, int aligned) {
  using Made = Batch<T, Draw, kBlocks>;
  constexpr int kElems = Made::kElems;
  const long long first =
      static_cast<long long>(blockIdx.x) * (kGenerateThreads * kUnroll) + threadIdx.x;
  const bool whole = aligned != 0 && (first + (kUnroll - 1) * kGenerateThreads + 1) * kElems <= n;
  if (whole) {
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const long long store = first + u * kGenerateThreads;
      Made made(stream, draw, store * kBlocks);
      store_vec<T, kElems>(out + store * kElems, made.values);
      made.redraw(stream, draw, store * kBlocks, out + store * kElems, kElems);
    }
    return;
  }
#pragma unroll 1
  for (int u = 0; u < kUnroll; ++u) {
    const long long store = first + u * kGenerateThreads;
    const long long count = n - store * kElems;
    if (count <= 0) return;
    Made made(stream, draw, store * kBlocks);
#pragma unroll
    for (int i = 0; i < kElems; ++i)
      if (i < count) out[store * kElems + i] = made.values.v[i];
    made.redraw(stream, draw, store * kBlocks, out + store * kElems, count);
  }
}

}  // namespace gpk

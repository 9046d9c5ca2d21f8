// out[i] = element size / 2, in ascending order, of x[i - size / 2 .. i - size / 2 + size - 1]
// along an axis, mirrored at both ends with the last element repeated. NaN is above all numbers.
// Grid: outputs, a thread each. The element is found bit by bit: numbers as unsigned keys, counting
// those below the prefix, so that a window of any size needs no memory.
#pragma once

#include "args/audio.h"

namespace gpk {

using namespace kernels;

__device__ __forceinline__ unsigned ordered_key(float x) {
  if (x != x) return ~0u;
  unsigned bits;
  memcpy(&bits, &x, sizeof(bits));
  return bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
}
__device__ __forceinline__ unsigned long long ordered_key(double x) {
  if (x != x) return ~0ull;
  unsigned long long bits;
  memcpy(&bits, &x, sizeof(bits));
  return bits >> 63 != 0 ? ~bits : bits | 0x8000000000000000ull;
}
__device__ __forceinline__ float number_of(unsigned key) {
  const unsigned bits = key >> 31 != 0 ? key & 0x7fffffffu : ~key;
  float x;
  memcpy(&x, &bits, sizeof(x));
  return x;
}
__device__ __forceinline__ double number_of(unsigned long long key) {
  const unsigned long long bits = key >> 63 != 0 ? key & 0x7fffffffffffffffull : ~key;
  double x;
  memcpy(&x, &bits, sizeof(x));
  return x;
}

// i mirrored into [0, n).
__device__ __forceinline__ long long mirrored(long long i, long long n) {
  if (i >= 0 && i < n) return i;
  const long long period = 2 * n;
  i %= period;
  if (i < 0) i += period;
  return i < n ? i : period - 1 - i;
}

template <class R>
__global__ void __launch_bounds__(kAudioThreads)
    audio_median(const __grid_constant__ MedianArgs args) {
  const long long at = static_cast<long long>(blockIdx.x) * kAudioThreads + threadIdx.x;
  if (at >= args.outer * args.n * args.inner) return;
  const long long line = at / args.inner;
  const long long outer = line / args.n;
  const long long i = line - outer * args.n;
  const R* const x =
      static_cast<const R*>(args.x) + outer * args.n * args.inner + (at - line * args.inner);
  using Key = decltype(ordered_key(R(0)));
  const long long first = i - args.size / 2;
  int rank = args.size / 2;  // among the keys with the prefix
  Key prefix = 0;
  for (int bit = 8 * static_cast<int>(sizeof(Key)) - 1; bit >= 0; --bit) {
    const Key high = bit + 1 == 8 * static_cast<int>(sizeof(Key)) ? Key(0) : ~Key(0) << (bit + 1);
    int zeros = 0;  // keys with the prefix and a 0 next
    for (int j = 0; j < args.size; ++j) {
      const Key key = ordered_key(x[mirrored(first + j, args.n) * args.inner]);
      if ((key & high) == prefix && (key >> bit & 1) == 0) ++zeros;
    }
    if (rank >= zeros) {
      rank -= zeros;
      prefix |= Key(1) << bit;
    }
  }
  static_cast<R*>(args.out)[at] = number_of(prefix);
}

}  // namespace gpk

// Philox 4x32 with 10 rounds (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as
// 1, 2, 3; SC 2011): a counter of four 32-bit words and a key of two give four random words.
// A stream is a key and a 96-bit position, the low words of the counter. The top word counts
// attempts: 0 for the first draw, then 1, 2, ... where a distribution rejects.
#pragma once

#include "args/random.h"

namespace gpk {

using namespace kernels;

struct RandomWords {
  unsigned int w[4];
};

// Four words at `block` after the stream's position.
__device__ __forceinline__ RandomWords random_words(const RandomStream& stream,
                                                    unsigned long long block,
                                                    unsigned int attempt) {
  const unsigned long long position = stream.position_low + block;
  unsigned int c0 = static_cast<unsigned int>(position);
  unsigned int c1 = static_cast<unsigned int>(position >> 32);
  unsigned int c2 = stream.position_high + (position < block ? 1u : 0u);
  unsigned int c3 = attempt;
  unsigned int k0 = stream.key[0];
  unsigned int k1 = stream.key[1];
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const unsigned long long x = static_cast<unsigned long long>(c0) * 0xd2511f53u;
    const unsigned long long y = static_cast<unsigned long long>(c2) * 0xcd9e8d57u;
    c0 = static_cast<unsigned int>(y >> 32) ^ c1 ^ k0;
    c1 = static_cast<unsigned int>(y);
    c2 = static_cast<unsigned int>(x >> 32) ^ c3 ^ k1;
    c3 = static_cast<unsigned int>(x);
    k0 += 0x9e3779b9u;
    k1 += 0xbb67ae85u;
  }
  return {{c0, c1, c2, c3}};
}

__device__ __forceinline__ unsigned long long word_pair(const RandomWords& words, int i) {
  return static_cast<unsigned long long>(words.w[2 * i + 1]) << 32 | words.w[2 * i];
}

}  // namespace gpk

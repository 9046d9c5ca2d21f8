#include "ops/random/host_words.h"

#include <algorithm>
#include <cstddef>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace gpk::ops {
namespace {

constexpr int kRounds = 10;
constexpr std::uint32_t kMultipliers[2] = {0xd2511f53u, 0xcd9e8d57u};
constexpr std::uint32_t kWeyl[2] = {0x9e3779b9u, 0xbb67ae85u};

#ifdef __SSE2__

// A word of two blocks in the low half of each 64-bit lane. High halves may hold anything:
// pmuludq does not read them.
using Lanes = __m128i;
constexpr int kLanes = 2;

Lanes lanes_of(const std::uint64_t (&x)[kLanes]) {
  return _mm_set_epi64x(static_cast<long long>(x[1]), static_cast<long long>(x[0]));
}
Lanes same(std::uint32_t x) { return _mm_set1_epi64x(static_cast<long long>(x)); }
Lanes times(Lanes x, Lanes y) { return _mm_mul_epu32(x, y); }
Lanes high(Lanes x) { return _mm_srli_epi64(x, 32); }
Lanes exclusive_or(Lanes x, Lanes y) { return _mm_xor_si128(x, y); }
void store(std::uint32_t* out, const Lanes (&c)[4]) {
  auto* const blocks = reinterpret_cast<__m128i*>(out);
  _mm_storeu_si128(
      blocks, _mm_unpacklo_epi64(_mm_unpacklo_epi32(c[0], c[1]), _mm_unpacklo_epi32(c[2], c[3])));
  _mm_storeu_si128(blocks + 1, _mm_unpacklo_epi64(_mm_unpackhi_epi32(c[0], c[1]),
                                                  _mm_unpackhi_epi32(c[2], c[3])));
}

#else

using Lanes = std::uint64_t;
constexpr int kLanes = 1;

Lanes lanes_of(const std::uint64_t (&x)[kLanes]) { return x[0]; }
Lanes same(std::uint32_t x) { return x; }
Lanes times(Lanes x, Lanes y) { return (x & 0xffffffffu) * (y & 0xffffffffu); }
Lanes high(Lanes x) { return x >> 32; }
Lanes exclusive_or(Lanes x, Lanes y) { return x ^ y; }
void store(std::uint32_t* out, const Lanes (&c)[4]) {
  for (int i = 0; i < 4; ++i) out[i] = static_cast<std::uint32_t>(c[i]);
}

#endif

constexpr int kGroups = 4;  // independent chains of multiplications
constexpr std::size_t kStep = std::size_t{4} * kGroups * kLanes;  // words

using Counter = Lanes[4];

void set_counter(Counter& counter, const WordSource& source, std::uint64_t first) {
  std::uint64_t parts[4][kLanes];
  for (int lane = 0; lane < kLanes; ++lane) {
    const std::uint64_t block = first + static_cast<std::uint64_t>(lane);
    const std::uint64_t low = source.position_low + block;
    parts[0][lane] = low;
    parts[1][lane] = low >> 32;
    parts[2][lane] = source.position_high + (low < block ? 1u : 0u);
    parts[3][lane] = source.attempt;
  }
  for (int i = 0; i < 4; ++i) counter[i] = lanes_of(parts[i]);
}

void run_rounds(Counter (&counters)[kGroups], std::uint64_t key) {
  auto k0 = static_cast<std::uint32_t>(key);
  auto k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < kRounds; ++round) {
    for (Counter& c : counters) {
      const Lanes x = times(c[0], same(kMultipliers[0]));
      const Lanes y = times(c[2], same(kMultipliers[1]));
      c[0] = exclusive_or(exclusive_or(high(y), c[1]), same(k0));
      c[2] = exclusive_or(exclusive_or(high(x), c[3]), same(k1));
      c[1] = y;
      c[3] = x;
    }
    k0 += kWeyl[0];
    k1 += kWeyl[1];
  }
}

void next_words(const WordSource& source, std::uint64_t first, std::uint32_t* out) {
  Counter counters[kGroups];
  for (int g = 0; g < kGroups; ++g)
    set_counter(counters[g], source, first + static_cast<std::uint64_t>(g * kLanes));
  run_rounds(counters, source.key);
  for (int g = 0; g < kGroups; ++g) store(out + 4 * g * kLanes, counters[g]);
}

}  // namespace

void random_words(const WordSource& source, std::uint64_t first, std::span<std::uint32_t> out) {
  std::size_t done = 0;
  for (; done + kStep <= out.size(); done += kStep)
    next_words(source, first + done / 4, out.data() + done);
  if (done == out.size()) return;
  std::uint32_t rest[kStep];
  next_words(source, first + done / 4, rest);
  std::copy_n(rest, out.size() - done, out.data() + done);
}

}  // namespace gpk::ops

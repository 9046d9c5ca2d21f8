// Order-preserving keys: the bits of an element mapped to an unsigned number that compares as NumPy
// orders the elements. Signed: sign bit flipped. Floating: negative numbers complemented, NaN (any
// payload) one value above +inf; -0.0 keeps its own key, just below +0.0's, so that sorting keys
// alone preserves it, and rank_of() makes the two equal. Descending: complemented.
#pragma once

#include "args/sorting.h"

namespace gpk {

using namespace kernels;

using uint64 = unsigned long long;

template <class K>
struct KeyBits {
  static constexpr K kSign = static_cast<K>(static_cast<K>(1) << (8 * sizeof(K) - 1));
  static constexpr K kAll = static_cast<K>(~static_cast<K>(0));
};

template <class K>
__device__ __forceinline__ bool is_nan_bits(K bits, const KeyOrder& order) {
  return static_cast<K>(bits & ~KeyBits<K>::kSign) > static_cast<K>(order.inf);
}

// What is compared. Ascending, kSign - 1 is the key of -0.0 and kSign that of +0.0; descending,
// vice versa: in both cases adding one to the lower makes them equal.
template <class K>
__device__ __forceinline__ K rank_of(K key, bool merge_zeros) {
  return merge_zeros && key == static_cast<K>(KeyBits<K>::kSign - 1) ? KeyBits<K>::kSign : key;
}

template <class K>
__device__ __forceinline__ K encode_key(K bits, const KeyOrder& order, bool merge_zeros) {
  constexpr K kSign = KeyBits<K>::kSign;
  if (order.kind == KeyKind::kFloat) {
    if (is_nan_bits(bits, order)) bits = static_cast<K>(order.nan);
    bits = static_cast<K>(bits ^ ((bits & kSign) != 0 ? KeyBits<K>::kAll : kSign));
    if (order.descending != 0) bits = static_cast<K>(~bits);
    return rank_of(bits, merge_zeros);
  }
  if (order.kind == KeyKind::kSigned) bits = static_cast<K>(bits ^ kSign);
  return order.descending != 0 ? static_cast<K>(~bits) : bits;
}

template <class K>
__device__ __forceinline__ K decode_key(K key, const KeyOrder& order) {
  constexpr K kSign = KeyBits<K>::kSign;
  if (order.descending != 0) key = static_cast<K>(~key);
  if (order.kind == KeyKind::kFloat)
    return static_cast<K>(key ^ ((key & kSign) != 0 ? kSign : KeyBits<K>::kAll));
  return order.kind == KeyKind::kSigned ? static_cast<K>(key ^ kSign) : key;
}

// Digit `byte` of a key, 0 the lowest.
__device__ __forceinline__ unsigned key_digit(unsigned key, int byte) {
  return __byte_perm(key, 0, 0x4440u + static_cast<unsigned>(byte));
}
__device__ __forceinline__ unsigned key_digit(unsigned char key, int) { return key; }
__device__ __forceinline__ unsigned key_digit(unsigned short key, int byte) {
  return key_digit(static_cast<unsigned>(key), byte);
}
__device__ __forceinline__ unsigned key_digit(uint64 key, int byte) {
  return __byte_perm(static_cast<unsigned>(key), static_cast<unsigned>(key >> 32),
                     static_cast<unsigned>(byte)) &
         255u;
}

}  // namespace gpk

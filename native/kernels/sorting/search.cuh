// For each query the number of elements of a sorted table that are below it (left) or not above it
// (right), or whether it occurs; by binary search in NumPy's order (NaN last and equal, -0.0 equal
// to 0.0). table: n elements, indirected through `sorter` where given. With by_data the table may
// also be in descending order: then it is read backwards and the result is n minus the count
// (digitize). out: long long, or bool for kOccurs (NaN never occurs), negated by `invert`. K:
// unsigned bits of the elements, or of one part of complex ones. Grid-stride; any grid works.
#pragma once

#include "sorting/key.cuh"

namespace gpk {

template <class K>
struct RealKey {
  K value;
  static __device__ __forceinline__ RealKey load(const void* data, long long i,
                                                 const KeyOrder& order) {
    return {encode_key(static_cast<const K*>(data)[i], order, true)};
  }
  static __device__ __forceinline__ bool is_nan(const void* data, long long i,
                                                const KeyOrder& order) {
    return order.kind == KeyKind::kFloat && is_nan_bits(static_cast<const K*>(data)[i], order);
  }
  __device__ __forceinline__ bool operator<(const RealKey& other) const {
    return value < other.value;
  }
};

// Order: NaN class, real part, imaginary part. The order's kind is that of one part.
template <class K>
struct ComplexKey {
  K real, imaginary;
  unsigned nan_class;
  static __device__ __forceinline__ ComplexKey load(const void* data, long long i,
                                                    const KeyOrder& order) {
    const K real = static_cast<const K*>(data)[2 * i];
    const K imaginary = static_cast<const K*>(data)[2 * i + 1];
    return {encode_key(real, order, true), encode_key(imaginary, order, true),
            (is_nan_bits(real, order) ? 2u : 0u) + (is_nan_bits(imaginary, order) ? 1u : 0u)};
  }
  static __device__ __forceinline__ bool is_nan(const void* data, long long i,
                                                const KeyOrder& order) {
    return load(data, i, order).nan_class != 0;
  }
  __device__ __forceinline__ bool operator<(const ComplexKey& other) const {
    if (nan_class != other.nan_class) return nan_class < other.nan_class;
    return real != other.real ? real < other.real : imaginary < other.imaginary;
  }
};

template <class Key>
__device__ __forceinline__ Key table_key(const SearchArgs& args, long long i) {
  if (args.sorter != nullptr) {
    i = args.sorter[i];  // unchecked on the host: a bad entry must not read out of bounds
    i = i < 0 ? 0 : i < args.n ? i : args.n - 1;
  }
  return Key::load(args.table, i, args.order);
}

// Number of table elements e (of n, descending: from the end) with e < query, or e <= query.
template <class Key>
__device__ __forceinline__ long long bound(const SearchArgs& args, const Key& query, bool right,
                                           bool downwards) {
  long long low = 0;
  long long count = args.n;
  while (count > 0) {
    const long long half = count / 2;
    const long long middle = low + half;
    const Key key = table_key<Key>(args, downwards ? args.n - 1 - middle : middle);
    const bool below = right ? !(query < key) : key < query;
    low = below ? middle + 1 : low;
    count = below ? count - half - 1 : half;
  }
  return low;
}

template <class Key>
__global__ void __launch_bounds__(256) search_kernel(const SearchArgs args) {
  const bool downwards =
      args.by_data != 0 && args.n > 1 && table_key<Key>(args, args.n - 1) < table_key<Key>(args, 0);
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < args.num_queries; i += step) {
    const Key query = Key::load(args.queries, i, args.order);
    const long long found = bound(args, query, args.mode == SearchMode::kRight, downwards);
    if (args.mode == SearchMode::kOccurs) {
      const bool occurs = found < args.n && !(query < table_key<Key>(args, found)) &&
                          !Key::is_nan(args.queries, i, args.order);
      static_cast<bool*>(args.out)[i] = occurs != (args.invert != 0);
    } else {
      static_cast<long long*>(args.out)[i] = downwards ? args.n - found : found;
    }
  }
}

}  // namespace gpk

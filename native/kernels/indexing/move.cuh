// move_kernel: b[...] = a[..., index, ...] (gather) or a[..., index, ...] = b[...] (scatter), by
// the layout; words of 1 to 16 bytes, whatever the dtype: plans vectorise along contiguous rows.
// address_kernel: the offset in side a that each coordinate selects, or kSkipOffset.
// Grid: ceil(total / (kBlock * kUnroll)) blocks; a thread takes words u * kBlock + thread of its
// block's range, so that accesses coalesce and every thread has kUnroll loads in flight.
// Scatter: the plan has removed duplicate destinations.
#pragma once

#include "indexing/layout.cuh"

namespace gpk {

template <int kIndexes>
struct Place {
  long long a = 0;
  long long b = 0;
  long long index[kIndexes] = {};
};

template <class Layout>
__device__ __forceinline__ void add_dim(const Layout& l, int d, long long coordinate,
                                        Place<Layout::kIndexes>& place) {
  place.a += coordinate * l.a[d];
  place.b += coordinate * l.b[d];
#pragma unroll
  for (int k = 0; k < Layout::kIndexes; ++k)
    if (k < l.num_indexes) place.index[k] += coordinate * l.index[k].stride[d];
}

// Offsets of word n. U: a type that holds n; 32-bit divisions are several times faster.
template <class U, class Layout>
__device__ __forceinline__ Place<Layout::kIndexes> locate(const Layout& l, U n) {
  Place<Layout::kIndexes> place;
#pragma unroll 1
  for (int d = l.rank - 1; d > 0; --d) {
    const U size = static_cast<U>(l.size[d]);
    const U rest = n / size;
    add_dim(l, d, static_cast<long long>(n - rest * size), place);
    n = rest;
  }
  add_dim(l, 0, static_cast<long long>(n), place);
  return place;
}

// Adds the indexed offsets to place.a. False when an index is out of bounds or kSkipOffset.
template <class Index, class Layout>
__device__ __forceinline__ bool apply_indexes(const Layout& l, const IndexReport& report,
                                              const long long (&values)[Layout::kIndexes],
                                              Place<Layout::kIndexes>& place) {
  bool good = true;
#pragma unroll
  for (int k = 0; k < Layout::kIndexes; ++k) {
    if (k >= l.num_indexes) continue;
    if (l.mode == IndexMode::kOffset) {
      good = good && values[k] != kSkipOffset;
      place.a += values[k] * l.index[k].step;
      continue;
    }
    const long long at = resolve_index(values[k], l.index[k].size, l.index[k].axis, l.mode, report);
    good = good && at >= 0;
    place.a += (at < 0 ? 0 : at) * l.index[k].step;
  }
  return good;
}

template <class Index, class Layout>
__device__ __forceinline__ void load_indexes(const Layout& l, const Place<Layout::kIndexes>& place,
                                             long long (&values)[Layout::kIndexes]) {
#pragma unroll
  for (int k = 0; k < Layout::kIndexes; ++k)
    values[k] =
        k < l.num_indexes ? load_index<Index>(l.index[k].data, l.index[k].type, place.index[k]) : 0;
}

template <class U, class Word, bool kScatter, class Index, int kBlock, int kUnroll, class Layout>
__device__ __forceinline__ void move_words(const Layout& l, Word* a, Word* b, Word value,
                                           const IndexReport& report) {
  const long long first = static_cast<long long>(blockIdx.x) * (kBlock * kUnroll) + threadIdx.x;
  Place<Layout::kIndexes> place[kUnroll];
  long long values[kUnroll][Layout::kIndexes];
  bool good[kUnroll];
  Word word[kUnroll];
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    good[u] = first + u * kBlock < l.total;
    if (!good[u]) continue;
    place[u] = locate<U>(l, static_cast<U>(first + u * kBlock));
    load_indexes<Index>(l, place[u], values[u]);
  }
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    if (!good[u]) continue;
    const bool inside = apply_indexes<Index>(l, report, values[u], place[u]);
    if constexpr (kScatter) {
      good[u] = inside;
      if (inside) word[u] = b == nullptr ? value : b[place[u].b];
    } else {
      word[u] = a[place[u].a];
    }
  }
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    if (!good[u]) continue;
    if constexpr (kScatter) {
      a[place[u].a] = word[u];
    } else {
      b[place[u].b] = word[u];
    }
  }
}

// `value` is stored by a scatter where b is null.
template <class Word, bool kScatter, class Index, int kMaxDims, int kMaxIndexes, int kBlock,
          int kUnroll>
__global__ void __launch_bounds__(kBlock, 4)
    move_kernel(const __grid_constant__ IndexedLayout<kMaxDims, kMaxIndexes> l, Word* a, Word* b,
                Word value, const __grid_constant__ IndexReport report) {
  if (l.total <= 0xffffffffLL) {
    move_words<unsigned, Word, kScatter, Index, kBlock, kUnroll>(l, a, b, value, report);
  } else {
    move_words<unsigned long long, Word, kScatter, Index, kBlock, kUnroll>(l, a, b, value, report);
  }
}

// out[n] = offset, or += with `accumulate` (kSkipOffset is kept). Side b is unused.
template <int kMaxDims, int kMaxIndexes, int kBlock>
__global__ void __launch_bounds__(kBlock)
    address_kernel(const __grid_constant__ IndexedLayout<kMaxDims, kMaxIndexes> l, long long* out,
                   int accumulate, const __grid_constant__ IndexReport report) {
  const long long n = static_cast<long long>(blockIdx.x) * kBlock + threadIdx.x;
  if (n >= l.total) return;
  auto place = l.total <= 0xffffffffLL ? locate<unsigned>(l, static_cast<unsigned>(n))
                                       : locate<unsigned long long>(l, n);
  long long values[kMaxIndexes];
  load_indexes<AnyIndex>(l, place, values);
  const bool good = apply_indexes<AnyIndex>(l, report, values, place);
  const long long before = accumulate != 0 ? out[n] : 0;
  out[n] = good && before != kSkipOffset ? before + place.a : kSkipOffset;
}

}  // namespace gpk

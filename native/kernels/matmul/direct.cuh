// C = A B for shapes that do not suit tiles, batched, arbitrary strides: thin, tiny, or short in K.
//   direct: a thread per element of C; neighbours differ in n, so N-major B coalesces.
//   rows:   a warp per element of C; lanes walk K, so K-major A and B coalesce.
// Work items are numbered split first, then batch, m, n. kConj conjugates A.
// Order of summation is fixed: by k in a thread, then over lanes as a tree. With args.partial, sums
// go there (matmul/finish.cuh reduces the splits).
#pragma once

#include "matmul/arithmetic.cuh"

namespace gpk {

constexpr int kDirectThreads = 256;

template <bool kConj, class T>
__device__ __forceinline__ typename Arithmetic<T>::Acc load_first(T x) {
  if constexpr (kConj) x.im = -x.im;
  return Arithmetic<T>::load(x);
}

// The sum over a warp, in its first lane.
template <class T>
__device__ __forceinline__ typename Arithmetic<T>::Acc warp_sum(typename Arithmetic<T>::Acc acc) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    acc = Arithmetic<T>::sum(acc, shuffle_down(acc, distance));
  return acc;
}

// One work item: its row of A and column of B, its K range, its destination.
struct DotPlace {
  long long a, b, c;
  long long k_begin, k_end;
  long long item;  // also the index into `partial`
};

__device__ __forceinline__ DotPlace dot_place(const MatmulArgs& args, long long item) {
  DotPlace place;
  place.item = item;
  long long output = item;
  place.k_begin = 0;
  place.k_end = args.k;
  if (args.splits > 1) {
    const long long outputs = args.num_batches * args.m * args.n;
    const long long part = item / outputs;
    output = item - part * outputs;
    place.k_begin = part * args.k_per_split;
    const long long end = place.k_begin + args.k_per_split;
    if (end < args.k) place.k_end = end;
  }
  const long long rest = output / args.n;
  const long long col = output - rest * args.n;
  const long long batch = rest / args.m;
  const long long row = rest - batch * args.m;
  const BatchOffsets at = batch_offsets(args, batch);
  place.a = at.a + row * args.a_m;
  place.b = at.b + col * args.b_n;
  place.c = at.c + row * args.c_m + col * args.c_n;
  return place;
}

template <class T, bool kConj>
__device__ __forceinline__ typename Arithmetic<T>::Acc dot(const MatmulArgs& args,
                                                           const DotPlace& place, long long first,
                                                           long long step) {
  typename Arithmetic<T>::Acc acc{};
  const long long a_step = step * args.a_k;
  const long long b_step = step * args.b_k;
  const T* a = static_cast<const T*>(args.a) + place.a + first * args.a_k;
  const T* b = static_cast<const T*>(args.b) + place.b + first * args.b_k;
#pragma unroll 8
  for (long long k = first; k < place.k_end; k += step) {
    Arithmetic<T>::multiply_into(acc, load_first<kConj>(*a), Arithmetic<T>::load(*b));
    a += a_step;
    b += b_step;
  }
  return acc;
}

template <class T>
__device__ __forceinline__ void write_dot(const MatmulArgs& args, const DotPlace& place,
                                          typename Arithmetic<T>::Acc acc) {
  using Acc = typename Arithmetic<T>::Acc;
  if (args.partial != nullptr) {
    static_cast<Acc*>(args.partial)[place.item] = acc;
  } else {
    static_cast<T*>(args.c)[place.c] = from_compute<T>(acc);
  }
}

template <class T, bool kConj>
__global__ void __launch_bounds__(kDirectThreads) matmul_direct_kernel(MatmulArgs args) {
  const long long item = static_cast<long long>(blockIdx.x) * kDirectThreads + threadIdx.x;
  if (item >= args.splits * args.num_batches * args.m * args.n) return;
  const DotPlace place = dot_place(args, item);
  write_dot<T>(args, place, dot<T, kConj>(args, place, place.k_begin, 1));
}

template <class T, bool kConj>
__global__ void __launch_bounds__(kDirectThreads) matmul_rows_kernel(MatmulArgs args) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const long long item =
      static_cast<long long>(blockIdx.x) * (kDirectThreads / 32) + threadIdx.x / 32;
  if (item >= args.splits * args.num_batches * args.m * args.n) return;
  const DotPlace place = dot_place(args, item);
  const auto acc = warp_sum<T>(dot<T, kConj>(args, place, place.k_begin + lane, 32));
  if (lane == 0) write_dot<T>(args, place, acc);
}

}  // namespace gpk

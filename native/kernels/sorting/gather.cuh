// Elements of rows by index, and the parts of complex numbers as keys.
// gather: out[r, j] = in[r, index[r, j]] for j < count; rows of in: len, of index: index_len, both
// contiguous. Indices are unsigned (kWide 0) or 64 bits; index_out, where given, receives them as
// long long. T is any word of the elements' size.
// complex_part: keys[r, j] of element [r, index[r, j]] (index null: j): the imaginary part, the
// real part, or the class that NumPy orders by first: 0 no NaN, 1 imaginary NaN, 2 real NaN, 3
// both. Grid-stride loops; any grid is right.
#pragma once

#include "sorting/key.cuh"

namespace gpk {

struct alignas(16) Word16 {
  uint64 low, high;
};

struct GatherArgs {
  const void* in;
  const void* index;
  void* out;             // may be null
  long long* index_out;  // may be null
  long long rows, len, index_len, count;
};

template <class T, bool kWide>
__global__ void __launch_bounds__(256) gather_kernel(const GatherArgs args) {
  const long long total = args.rows * args.count;
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < total;
       i += step) {
    const long long row = args.rows == 1 ? 0 : i / args.count;
    const long long at = row * args.index_len + (i - row * args.count);
    const long long index =
        kWide ? static_cast<const long long*>(args.index)[at]
              : static_cast<long long>(static_cast<const unsigned*>(args.index)[at]);
    if (args.out != nullptr)
      static_cast<T*>(args.out)[i] = static_cast<const T*>(args.in)[row * args.len + index];
    if (args.index_out != nullptr) args.index_out[i] = index;
  }
}

enum ComplexPart : unsigned { kImaginary, kReal, kClass };

struct ComplexPartArgs {
  const void* in;
  const void* index;  // null: in order
  void* keys;         // parts as they are, or unsigned char for kClass
  long long rows, len;
  unsigned part;
  unsigned wide;  // index holds 64 bits
  KeyOrder order;
};

// K: the bits of one part.
template <class K>
__global__ void __launch_bounds__(256) complex_part_kernel(const ComplexPartArgs args) {
  const long long total = args.rows * args.len;
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < total;
       i += step) {
    long long from = i;
    if (args.index != nullptr)
      from =
          i / args.len * args.len + (args.wide != 0 ? static_cast<const long long*>(args.index)[i]
                                                    : static_cast<const unsigned*>(args.index)[i]);
    const K real = static_cast<const K*>(args.in)[2 * from];
    const K imaginary = static_cast<const K*>(args.in)[2 * from + 1];
    if (args.part == kClass)
      static_cast<unsigned char*>(args.keys)[i] = static_cast<unsigned char>(
          (is_nan_bits(real, args.order) ? 2 : 0) + (is_nan_bits(imaginary, args.order) ? 1 : 0));
    else
      static_cast<K*>(args.keys)[i] = args.part == kReal ? real : imaginary;
  }
}

}  // namespace gpk

// Elements of rows by index, and the parts of complex numbers as keys.
// gather: out[r, j] = in[r, index[r, j]] for j < count; rows of in: len, of index: index_len, both
// contiguous. Indices are unsigned (kWide 0) or 64 bits; index_out, where given, receives them as
// long long. T is any word of the elements' size.
// complex_part: keys[r, j] of element [r, index[r, j]] (index null: j): the imaginary part, the
// real part, or the class that NumPy orders by first: 0 no NaN, 1 imaginary NaN, 2 real NaN, 3
// both. Grid-stride loops; any grid works.
#pragma once

#include "common/vec.cuh"
#include "sorting/key.cuh"

namespace gpk {

// Row and column of element i = first, first + step, ... of rows of `len`. first and step are below
// 2**31, so that 32-bit divisions at the start suffice.
struct RowWalk {
  long long row, column, len;
  unsigned step_rows, step_columns;

  __device__ __forceinline__ RowWalk(unsigned first, unsigned step, long long row_len)
      : row(0), column(first), len(row_len), step_rows(0), step_columns(step) {
    if (row_len >= 1ll << 31) return;
    const unsigned short_len = static_cast<unsigned>(row_len);
    row = first / short_len;
    column = first % short_len;
    step_rows = step / short_len;
    step_columns = step % short_len;
  }
  __device__ __forceinline__ void next() {
    row += step_rows;
    column += step_columns;
    if (column < len) return;
    column -= len;
    ++row;
  }
};

template <class T, bool kWide>
__global__ void __launch_bounds__(256) gather_kernel(const GatherArgs args) {
  const unsigned step = gridDim.x * blockDim.x;
  const unsigned first = blockIdx.x * blockDim.x + threadIdx.x;
  RowWalk walk(first, step, args.count);
  for (long long i = first; walk.row < args.rows; i += step, walk.next()) {
    const long long at = walk.row * args.index_len + walk.column;
    const long long index =
        kWide ? static_cast<const long long*>(args.index)[at]
              : static_cast<long long>(static_cast<const unsigned*>(args.index)[at]);
    if (args.out != nullptr)
      static_cast<T*>(args.out)[i] = static_cast<const T*>(args.in)[walk.row * args.len + index];
    if (args.index_out != nullptr) args.index_out[i] = index;
  }
}

// K: the bits of one part.
template <class K>
__global__ void __launch_bounds__(256) complex_part_kernel(const ComplexPartArgs args) {
  const unsigned step = gridDim.x * blockDim.x;
  const unsigned first = blockIdx.x * blockDim.x + threadIdx.x;
  RowWalk walk(first, step, args.len);
  for (long long i = first; walk.row < args.rows; i += step, walk.next()) {
    long long from = i;
    if (args.index != nullptr)
      from = walk.row * args.len + (args.wide != 0 ? static_cast<const long long*>(args.index)[i]
                                                   : static_cast<const unsigned*>(args.index)[i]);
    const K real = static_cast<const K*>(args.in)[2 * from];
    const K imaginary = static_cast<const K*>(args.in)[2 * from + 1];
    if (args.part == ComplexPart::kClass)
      static_cast<unsigned char*>(args.keys)[i] = static_cast<unsigned char>(
          (is_nan_bits(real, args.order) ? 2 : 0) + (is_nan_bits(imaginary, args.order) ? 1 : 0));
    else
      static_cast<K*>(args.keys)[i] = args.part == ComplexPart::kReal ? real : imaginary;
  }
}

}  // namespace gpk

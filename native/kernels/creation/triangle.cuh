// tril and triu: out[b, i, j] = x[b, i, j] where (j < i + bound) == lower, else 0.
// tril keeps j <= i + k (bound = k + 1), triu keeps j >= i + k (bound = k).
// x and out are C-contiguous (batch, rows, cols) of kVec-element accesses that never cross a row;
// the element type is any word of that width. Grid: one access per thread, 256 threads per block.
// Accesses that are all zero load nothing.
#pragma once

#include "common/dtype.cuh"
#include "common/vec.cuh"

namespace gpk {

template <class Word, int kVec>
__global__ void __launch_bounds__(256)
    triangle_kernel(const Word* x, Word* out, long long bound, bool lower, long long rows,
                    long long accesses_per_row, long long num_accesses) {
  const long long access = static_cast<long long>(blockIdx.x) * 256 + threadIdx.x;
  if (access >= num_accesses) return;
  long long flat_row;
  long long row;
  if (num_accesses <= 0xffffffffll) {  // 32-bit division is several times cheaper
    flat_row = static_cast<unsigned>(access) / static_cast<unsigned>(accesses_per_row);
    row = static_cast<unsigned>(flat_row) % static_cast<unsigned>(rows);
  } else {
    flat_row = access / accesses_per_row;
    row = flat_row % rows;
  }
  const long long first = (access - flat_row * accesses_per_row) * kVec;
  const long long edge = row + bound;
  const bool any_kept = lower ? first < edge : first + kVec - 1 >= edge;
  Vec<Word, kVec> value = {};
  if (any_kept) {
    value = load_vec<Word, kVec>(x + access * kVec);
#pragma unroll
    for (int i = 0; i < kVec; ++i)
      if ((first + i < edge) != lower) value.v[i] = Word{};
  }
  store_vec<Word, kVec>(out + access * kVec, value);
}

}  // namespace gpk

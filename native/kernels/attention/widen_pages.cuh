// Pages of 8-bit caches in the dtype of the queries, for kernels that multiply 16 bits: the pages
// of each sequence that its queries see, and those before them in the first tile, which kernels
// load and hide. Every entry of the tables gets a page of its own, or pages keep their ids. An id
// that is no page gives zeros. The conversion is exact; scales are applied to scores and results.
// Grid -> data: x pages of a sequence in turn, those of keys at even blocks and those of values at
// odd ones, y key heads, z sequences.
#pragma once

#include "attention/sequence.cuh"
#include "common/floats.cuh"

namespace gpk {

// kV elements to an access.
template <class T, class Kv, int kV>
__global__ void __launch_bounds__(256, 6)
    widen_pages_kernel(const AttentionArgs args, const WidePages pages) {
  const Sequence sequence(args, static_cast<int>(blockIdx.z));
  const int head = static_cast<int>(blockIdx.y);
  const bool is_value = (blockIdx.x & 1) != 0;
  const int rows = 1 << args.page_log2;
  const int pieces = (is_value ? args.value_dim : args.dim) / kV;
  const AttentionStrides from_at = is_value ? args.v_at : args.k_at;
  const long long to_row = static_cast<long long>(gridDim.y) * pieces * kV;
  const Kv* const from = static_cast<const Kv*>(is_value ? args.v : args.k) + head * from_at.head;
  T* const to = static_cast<T*>(is_value ? pages.v : pages.k) + head * pieces * kV;
  const long long first_entry = static_cast<long long>(sequence.batch) * args.blocks_row;
  const int first = sequence.from(args, 0) / pages.tile * pages.tile >> args.page_log2;
  const int last = (sequence.length + rows - 1) >> args.page_log2;
  // Page `place` of the result; load(row, at, x) gives its elements.
  const auto write = [&](long long place, const auto& load) {
#pragma unroll 4
    for (int i = static_cast<int>(threadIdx.x); i < rows * pieces; i += 256) {
      const int row = i / pieces;
      const int at = (i - row * pieces) * kV;
      float x[kV];
      load(row, at, x);
      store_floats<T, kV>(to + (place * rows + row) * to_row + at, x);
    }
  };
  const auto clear = [&](long long place) {
    write(place, [](int, int, float (&x)[kV]) {
      for (int v = 0; v < kV; ++v) x[v] = 0.0f;
    });
  };
  const bool moves = pages.zero_page < 0;
  if (!moves && sequence.batch == 0 && blockIdx.x < 2) clear(pages.zero_page);
  for (int column = first + static_cast<int>(blockIdx.x >> 1); column < last;
       column += static_cast<int>(gridDim.x >> 1)) {
    const long long entry = first_entry + column;
    const long long page = args.blocks[entry];
    const bool is_page = page >= 0 && page < pages.num_pages;
    const long long place = moves ? entry : is_page ? page : pages.zero_page;
    if (threadIdx.x == 0 && head == 0 && !is_value) pages.blocks[entry] = static_cast<int>(place);
    if (is_page) {
      write(place, [&](int row, int at, float (&x)[kV]) {
        load_floats<Kv, kV>(from + page * from_at.batch + row * from_at.row + at, x);
      });
    } else if (moves) {
      clear(place);
    }
  }
}

}  // namespace gpk

// out[r][start_i + c] = in_i[r][c]: arrays side by side, by words of W, the widest that divides
// every row and address. A block takes kThreads * kUnroll words of one input; the inputs' pointers
// and the first block of each are in the arguments. Loads of a thread are issued before its stores.
#pragma once

#include "common/vec.cuh"
#include "elementwise/divider.cuh"

namespace gpk {

using namespace kernels;

template <class W>
__global__ void __launch_bounds__(ConcatArgs::kThreads)
    concat_kernel(const __grid_constant__ ConcatArgs args) {
  constexpr unsigned kThreads = ConcatArgs::kThreads;
  constexpr int kUnroll = ConcatArgs::kUnroll;
  int which = 0;
  while (which + 1 < args.num_pieces && blockIdx.x >= args.piece[which + 1].first_block) ++which;
  const ConcatPiece& piece = args.piece[which];
  const unsigned num_words = piece.num_words;
  const Divider row = piece.row;
  const unsigned first = (blockIdx.x - piece.first_block) * (kThreads * kUnroll) + threadIdx.x;
  const W* in = static_cast<const W*>(piece.in);
  W* out = static_cast<W*>(args.out) + piece.start;
  W x[kUnroll];
#pragma unroll
  for (int u = 0; u < kUnroll; ++u)
    if (first + u * kThreads < num_words) x[u] = in[first + u * kThreads];
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const unsigned i = first + u * kThreads;
    if (i >= num_words) continue;
    const unsigned r = divide(i, row);
    out[r * args.row_words + (i - r * row.divisor)] = x[u];
  }
}

}  // namespace gpk

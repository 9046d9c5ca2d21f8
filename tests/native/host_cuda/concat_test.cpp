// concat_kernel on the host: pieces of every size side by side, nothing outside them touched.
#include "host_cuda/host_cuda.h"
// First: CUDA's built-ins.
#include <gtest/gtest.h>

#include "elementwise/concat.cuh"

namespace gpk {
namespace {

// Of the host's make_divider.
Divider divider_of(unsigned d) {
  unsigned shift = 0;
  while ((1ull << shift) < d) ++shift;
  return {d, static_cast<unsigned>((1ull << 32) * ((1ull << shift) - d) / d + 1), shift};
}

template <class W>
void check(unsigned rows, const std::vector<unsigned>& lengths) {
  std::vector<std::vector<W>> inputs;
  ConcatArgs args{};
  unsigned blocks = 0;
  unsigned next = 1;
  for (const unsigned length : lengths) {
    std::vector<W>& in = inputs.emplace_back(rows * length);
    for (W& word : in) word = static_cast<W>(next++ * 2654435761u >> 3);
    constexpr unsigned kBlockWords = ConcatArgs::kThreads * ConcatArgs::kUnroll;
    const auto words = static_cast<unsigned>(in.size());
    args.piece[args.num_pieces++] = {in.data(), args.row_words, divider_of(length), words, blocks};
    args.row_words += length;
    blocks += (words + kBlockWords - 1) / kBlockWords;
  }
  const auto total = static_cast<std::size_t>(rows) * static_cast<std::size_t>(args.row_words);
  constexpr W kGuard = 0x5a;
  std::vector<W> out(total + 8, kGuard);
  args.out = out.data();
  host_cuda::launch(blocks, ConcatArgs::kThreads, [&] { concat_kernel<W>(args); });
  std::size_t at = 0;
  for (unsigned r = 0; r < rows; ++r)
    for (std::size_t i = 0; i < lengths.size(); ++i)
      for (unsigned c = 0; c < lengths[i]; ++c)
        ASSERT_EQ(out[at++], inputs[i][r * lengths[i] + c]) << r << ", piece " << i << ", " << c;
  for (; at < out.size(); ++at) ASSERT_EQ(out[at], kGuard);
}

TEST(Concat, PiecesOfEverySize) {
  check<unsigned char>(3, {1, 2, 5});
  check<unsigned short>(1, {4099, 1, 64, 1024});
  check<unsigned int>(64, {16, 16, 16, 16});
  check<unsigned long long>(33, {31, 1, 64});
  check<unsigned int>(2, std::vector<unsigned>(ConcatArgs::kMaxPieces, 3));
}

}  // namespace
}  // namespace gpk

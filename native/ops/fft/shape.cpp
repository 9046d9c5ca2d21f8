#include "ops/fft/shape.h"

#include <algorithm>
#include <functional>

namespace gpk::ops::fft {
namespace {

constexpr int kBlockThreads = 256;
constexpr int kGeneralElems = 2048;  // of a block, so that several are resident
constexpr int kGeneralColumns = 8;

// Multiples of powers of two that signals and images come in.
constexpr int kMultiples[] = {3, 5, 15, 25, 125};
constexpr int kMaxMultiple = 4096;
constexpr int kMaxPower = 16384;
constexpr int kMaxColumn = 2048;  // of a pass of several

void add_radix(FftShape& shape, int radix) {
  shape.radices[static_cast<std::size_t>(shape.num_stages++)] = radix;
}

// Powers of two: as few stages as possible, none much smaller than the others.
void add_powers_of_two(FftShape& shape, int twos) {
  while (twos > 6 || twos == 4) {
    if (twos == 9) break;
    add_radix(shape, 16);
    twos -= 4;
  }
  switch (twos) {
    case 9: add_radix(shape, 8); [[fallthrough]];
    case 6: add_radix(shape, 8); [[fallthrough]];
    case 3: add_radix(shape, 8); break;
    case 5: add_radix(shape, 8); [[fallthrough]];
    case 2: add_radix(shape, 4); break;
    case 1: add_radix(shape, 2); break;
    default: break;
  }
}

std::size_t bytes_of(const FftShape& shape, bool wide, int buffers) {
  return static_cast<std::size_t>(buffers) * static_cast<std::size_t>(shape.group) *
         static_cast<std::size_t>(shape.pitch) * (wide ? 16 : 8);
}

// At least `n` and padding, and `rest` modulo a row of banks.
int pitch_of(int n, bool wide, int rest) {
  const int banks = wide ? 8 : 16;
  const int least = n + n / 16 + 1;
  return least + ((rest - least) % banks + banks) % banks;
}

// Transforms of a block whose columns are adjacent: enough for whole sectors.
int columns_of(int n, bool wide) {
  const int columns = n <= 256 ? 16 : n <= 1024 ? 8 : 4;
  return wide ? std::max(2, columns / 2) : columns;
}

}  // namespace

void add_radices(FftShape& shape) {
  int rest = shape.n;
  int twos = 0;
  for (; rest % 2 == 0; rest /= 2) ++twos;
  if (shape.n == 16) {  // four threads instead of one
    add_radix(shape, 4);
    add_radix(shape, 4);
    return;
  }
  add_powers_of_two(shape, twos);
  for (const int prime : {13, 11, 7, 5, 3})
    for (; rest % prime == 0; rest /= prime) add_radix(shape, prime);
  std::stable_sort(shape.radices.begin(), shape.radices.begin() + shape.num_stages,
                   std::greater<>());
}

const std::vector<int>& block_lengths() {
  static const std::vector<int> lengths = [] {
    std::vector<int> found;
    for (int n = 2; n <= kMaxPower; n *= 2) found.push_back(n);
    for (const int multiple : kMultiples)
      for (int n = 4 * multiple; n <= kMaxMultiple; n *= 2) found.push_back(n);
    std::sort(found.begin(), found.end());
    return found;
  }();
  return lengths;
}

bool has_block(int n, bool wide, const FftPass& pass) {
  if (!std::binary_search(block_lengths().begin(), block_lengths().end(), n)) return false;
  const bool plain = pass.fetch == FftFetch::kComplex && pass.put == FftPut::kComplex;
  if (pass.in == FftSide::kRow && pass.out == FftSide::kRow) {
    if (pass.twiddle || n > (wide ? kMaxPower / 2 : kMaxPower)) return false;
    return plain || (pass.fetch == FftFetch::kReal && pass.put == FftPut::kComplex) ||
           (pass.fetch == FftFetch::kPacked && pass.put == FftPut::kHalf) ||
           (pass.fetch == FftFetch::kHalf && pass.put == FftPut::kPacked &&
            n <= (wide ? kMaxPower / 4 : kMaxPower));  // longer ones run out of registers
  }
  const bool whole = pass.in == pass.out && !pass.twiddle;
  if ((n & (n - 1)) != 0 || n > (whole ? 2 * kMaxColumn : kMaxColumn)) return false;
  if (pass.in == FftSide::kRow)  // the last of several passes
    return !pass.twiddle && pass.fetch == FftFetch::kComplex &&
           (pass.put == FftPut::kComplex || pass.put == FftPut::kPacked);
  if (pass.out == FftSide::kRow) return false;
  if (!pass.twiddle) return plain;
  return pass.put == FftPut::kComplex &&  // the first of several passes, or one in between
         (plain || pass.fetch == FftFetch::kReal || pass.fetch == FftFetch::kPacked ||
          pass.fetch == FftFetch::kHalf);
}

FftShape block_shape(int n, bool wide, FftSide in, FftSide out) {
  FftShape shape;
  shape.block = true;
  shape.n = n;
  add_radices(shape);
  const bool rows = in == FftSide::kRow && out == FftSide::kRow;
  shape.threads_each = n / shape.radices[0];
  shape.group =
      rows ? std::max(1, std::min(kBlockThreads / shape.threads_each, 128)) : columns_of(n, wide);
  // Two butterflies a thread where one would leave too few registers for them.
  while (shape.threads_each * shape.group > 512) shape.threads_each /= 2;
  shape.threads = shape.threads_each * shape.group;
  const int banks = wide ? 8 : 16;
  const int rest = !rows                        ? banks / std::min(banks, shape.group)
                   : shape.threads_each < banks ? shape.threads_each
                                                : 0;
  shape.pitch = pitch_of(n, wide, rest);
  shape.shared_bytes = bytes_of(shape, wide, 1);
  return shape;
}

FftShape general_shape(int n, bool wide, FftSide in, FftSide out, std::size_t shared_bytes) {
  FftShape shape;
  shape.n = n;
  add_radices(shape);
  shape.pitch = pitch_of(n, wide, 1);
  shape.threads = kernels::kFftGeneralThreads;
  const bool rows = in == FftSide::kRow && out == FftSide::kRow;
  shape.group = std::clamp(kGeneralElems / n, rows ? 1 : kGeneralColumns, 64);
  while (shape.group > 1 && bytes_of(shape, wide, 2) > shared_bytes) shape.group /= 2;
  shape.shared_bytes = bytes_of(shape, wide, 2);
  return shape;
}

}  // namespace gpk::ops::fft

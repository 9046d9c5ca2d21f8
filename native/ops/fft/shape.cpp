#include "ops/fft/shape.h"

#include <algorithm>
#include <array>
#include <functional>

#include "base/ceil_div.h"

namespace gpk::ops::fft {
namespace {

constexpr int kBlockThreads = 256;
constexpr int kGeneralElems = 2048;  // of a block, so that several are resident
constexpr int kGeneralColumns = 8;

constexpr int kMaxBlock = 16384;
constexpr int kMaxColumn = 2048;       // of a pass of several
constexpr int kMaxConvolution = 4096;  // longer ones run out of registers
constexpr int kMaxThreads = 512;
constexpr int kMaxValues = 16;  // of a thread, in registers; twice that where threads run short

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

// At least `n`, with padding or without, and `rest` modulo a row of banks.
int pitch_of(int n, bool wide, int rest, bool padded = true) {
  const int banks = wide ? 8 : 16;
  const int least = padded ? n + n / 16 + 1 : n;
  return least + ((rest - least) % banks + banks) % banks;
}

// Transforms of a block whose columns are adjacent: enough for whole sectors.
int columns_of(int n, bool wide) {
  const int columns = n <= 256 ? 16 : n <= 1024 ? 8 : 4;
  return wide ? std::max(2, columns / 2) : columns;
}

// Transforms of a block whose rows are.
int rows_of(int threads_each) { return std::clamp(kBlockThreads / threads_each, 1, 128); }

bool is_power_of_two(int n) { return (n & (n - 1)) == 0; }

// Instructions of a butterfly, about: of the DFT; for each value its way through shared memory, its
// address and its root; and the roots that are evaluated rather than multiplied.
double butterfly_cost(int radix) {
  static constexpr std::array<int, 17> kDft = {0,   0,   4, 16,  16, 44,  44,  100, 52,
                                               120, 108, 0, 112, 0,  228, 212, 144};
  static constexpr double kValue = 14;
  static constexpr double kRoot = 28;
  int roots = 1;
  for (int j = 2; j < radix; j *= 2) ++roots;
  return kDft[static_cast<std::size_t>(radix)] + kValue * radix + kRoot * roots;
}

// The stages and threads of n whose instructions are the fewest, idle threads counted. n is a
// product of 2, 3, 5 and 7; columns: transforms of a block, 0 for rows.
class CheapestStages {
 public:
  CheapestStages(int n, int columns, bool wide) : columns_(columns) {
    stages_.n = n;
    const int elems = n * std::max(columns, 1);
    if (!wide && 4 * elems > 3 * kMaxValues * kMaxThreads) values_ = 2 * kMaxValues;
    if (wide && 2 * elems <= kMaxValues * kMaxThreads) threads_ = kMaxThreads / 2;
    for (; best_.num_stages == 0; values_ += kMaxValues / 4) visit(n, 16);
  }
  [[nodiscard]] const FftShape& best() const { return best_; }

 private:
  // Radices in descending order; `rest` is what is left of n.
  void visit(int rest, int largest) {
    if (rest == 1) {
      for (int s = 0; s < stages_.num_stages; ++s)
        for (int threads = stages_.n / radix(s); threads > 1; threads = (threads + 1) / 2)
          judge(threads);
      judge(1);
      return;
    }
    if (stages_.num_stages == kMaxStages) return;
    for (const int r : {16, 15, 14, 12, 10, 9, 8, 7, 6, 5, 4, 3, 2}) {
      if (r > largest || rest % r != 0) continue;
      add_radix(stages_, r);
      visit(rest / r, r);
      --stages_.num_stages;
    }
  }

  void judge(int threads) {
    const int group = columns_ > 0 ? columns_ : rows_of(threads);
    if (threads * group > threads_) return;
    const double lanes = 32.0 * ((threads * group + 31) / 32) / group;
    double cost = 0;
    for (int s = 0; s < stages_.num_stages; ++s) {
      const auto each = static_cast<int>(ceil_div(stages_.n / radix(s), threads));
      if (each * radix(s) > values_) return;
      cost += lanes * (kStageCost + each * butterfly_cost(radix(s)));
    }
    if (best_.num_stages > 0 && cost >= cost_) return;
    cost_ = cost;
    best_ = stages_;
    best_.threads_each = threads;
    best_.group = group;
  }

  [[nodiscard]] int radix(int stage) const {
    return stages_.radices[static_cast<std::size_t>(stage)];
  }

  static constexpr int kMaxStages = 6;
  static constexpr double kStageCost = 30;  // barriers
  int columns_;
  int threads_ = kMaxThreads;  // half as many have twice the registers
  int values_ = kMaxValues;    // of a thread at most
  FftShape stages_, best_;
  double cost_ = 0;
};

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

bool is_block_length(int n) {
  if (n < 2 || n > kMaxBlock) return false;
  for (const int prime : {2, 3, 5, 7})
    while (n % prime == 0) n /= prime;
  return n == 1;
}

bool has_block(int n, bool wide, const FftPass& pass) {
  if (!is_block_length(n)) return false;
  const bool plain = pass.fetch == FftFetch::kComplex && pass.put == FftPut::kComplex;
  if (pass.in == FftSide::kRow && pass.out == FftSide::kRow) {
    if (pass.twiddle || n > (wide ? kMaxBlock / 2 : kMaxBlock)) return false;
    return plain || (pass.fetch == FftFetch::kReal && pass.put == FftPut::kComplex) ||
           (pass.fetch == FftFetch::kPacked && pass.put == FftPut::kHalf) ||
           (pass.fetch == FftFetch::kHalf && pass.put == FftPut::kPacked &&
            n <= (wide ? kMaxBlock / 4 : kMaxBlock));  // longer ones run out of registers
  }
  const bool whole = pass.in == pass.out && !pass.twiddle;
  if (n > (whole && is_power_of_two(n) ? 2 * kMaxColumn : kMaxColumn)) return false;
  if (pass.in == FftSide::kRow)  // the last of several passes
    return !pass.twiddle && pass.fetch == FftFetch::kComplex &&
           (pass.put == FftPut::kComplex || pass.put == FftPut::kPacked);
  if (pass.out == FftSide::kRow) return false;
  if (!pass.twiddle) return plain;
  return pass.put == FftPut::kComplex &&  // the first of several passes, or one in between
         (plain || pass.fetch == FftFetch::kReal || pass.fetch == FftFetch::kPacked ||
          pass.fetch == FftFetch::kHalf);
}

bool has_bluestein(int n, bool wide, const FftPass& pass) {
  const bool rows = pass.in == FftSide::kRow && pass.out == FftSide::kRow;
  const int most = rows ? kMaxConvolution : kMaxConvolution / 2;
  return is_block_length(n) && n <= (wide ? most / 2 : most);
}

FftShape block_shape(int n, bool wide, FftSide in, FftSide out) {
  const bool rows = in == FftSide::kRow && out == FftSide::kRow;
  const int columns = rows ? 0 : columns_of(n, wide);
  FftShape shape;
  if (is_power_of_two(n)) {
    shape.n = n;
    add_radices(shape);
    shape.threads_each = n / shape.radices[0];
    shape.group = rows ? rows_of(shape.threads_each) : columns;
    // Two butterflies a thread where one would leave too few registers for them.
    while (shape.threads_each * shape.group > kMaxThreads) shape.threads_each /= 2;
  } else {
    shape = CheapestStages(n, columns, wide).best();
  }
  shape.block = true;
  shape.threads = shape.threads_each * shape.group;
  const int banks = wide ? 8 : 16;
  const int rest = !rows                        ? banks / std::min(banks, shape.group)
                   : shape.threads_each < banks ? shape.threads_each
                                                : 0;
  shape.pitch = pitch_of(n, wide, rest, shape.radices[0] % kernels::kFftPaddedRadix == 0);
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

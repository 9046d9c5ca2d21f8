#include "ops/fft/plan.h"

#include <algorithm>

#include "base/text.h"
#include "ops/fft/shape.h"

namespace gpk::ops::fft {
namespace {

constexpr int kPrimes[] = {2, 3, 5, 7, 11, 13};
// Passes with fewer columns than this in a block waste memory bandwidth.
constexpr int kMinColumns = 4;
constexpr std::int64_t kMaxPass = 16384;  // points of a transform in one pass

// The kernel of a pass. shared_bytes above the limit: there is none. bluestein: of both transforms
// in one launch.
FftShape shape_of(int n, const FftPass& pass, bool wide, const FftLimits& limits,
                  bool bluestein = false) {
  if (!limits.general && (bluestein ? has_bluestein(n, wide, pass) : has_block(n, wide, pass))) {
    FftShape shape = block_shape(n, wide, pass.in, pass.out);
    if (shape.shared_bytes <= limits.shared_bytes) return shape;
  }
  return general_shape(n, wide, pass.in, pass.out, limits.shared_bytes);
}

bool fits(const FftShape& shape, const FftLimits& limits) {
  return shape.shared_bytes <= limits.shared_bytes && shape.num_stages <= kernels::kFftMaxStages;
}

// The longest transform of fft_general with so many of them in a block.
int longest_general(bool wide, int columns, const FftLimits& limits) {
  const std::size_t bytes = static_cast<std::size_t>(columns) * (wide ? 34 : 17);  // with padding
  return static_cast<int>(limits.shared_bytes / bytes) - 32;
}

// All divisors of a smooth number, ascending.
std::vector<std::int64_t> divisors(std::int64_t n) {
  std::vector<std::int64_t> found{1};
  for (const int prime : kPrimes) {
    const std::size_t before = found.size();
    std::int64_t power = 1;
    for (; n % prime == 0; n /= prime) {
      power *= prime;
      for (std::size_t i = 0; i < before; ++i) found.push_back(found[i] * power);
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

// Two or three factors up to `longest`, as equal as possible; the first is the smallest.
std::vector<int> split(std::int64_t n, int longest) {
  const std::vector<std::int64_t> all = divisors(n);
  const auto balanced = [&](std::int64_t product) {
    std::int64_t best = 1;
    for (const std::int64_t d : all)
      if (product % d == 0 && d * d <= product) best = d;
    return best;
  };
  const std::int64_t first = balanced(n);
  if (n / first <= longest) return {static_cast<int>(first), static_cast<int>(n / first)};
  std::vector<int> best;
  for (const std::int64_t d : all) {
    if (n % d != 0 || d > longest) continue;
    const std::int64_t second = balanced(n / d);
    const std::int64_t third = n / d / second;
    if (third > longest) continue;
    std::vector<int> candidate{static_cast<int>(d), static_cast<int>(second),
                               static_cast<int>(third)};
    const auto largest = [](const std::vector<int>& of) {
      return *std::max_element(of.begin(), of.end());
    };
    if (best.empty() || largest(candidate) < largest(best)) best = std::move(candidate);
  }
  return best;
}

std::vector<FftPass> passes_of(std::int64_t n, const FftPlan& plan, const FftDesc& desc,
                               const FftLimits& limits) {
  FftPass whole;
  whole.in = desc.in_row ? FftSide::kRow : FftSide::kColumn;
  whole.out = desc.out_row ? FftSide::kRow : FftSide::kColumn;
  whole.fetch = plan.fetch;
  whole.put = plan.put;
  if (n <= kMaxPass) {
    whole.shape = shape_of(static_cast<int>(n), whole, desc.wide, limits, plan.bluestein);
    if (fits(whole.shape, limits)) return {whole};
  }
  const int longest = limits.general ? longest_general(desc.wide, kMinColumns, limits) : 2048;
  std::vector<int> factors = split(n, longest);
  // Powers of a prime may leave no choice.
  if (factors.empty()) factors = split(n, longest_general(desc.wide, 1, limits));
  std::vector<FftPass> passes;
  for (std::size_t i = 0; i < factors.size(); ++i) {
    FftPass pass;
    const bool first = i == 0;
    const bool last = i + 1 == factors.size();
    pass.in = last ? FftSide::kRow : FftSide::kColumn;
    pass.out = FftSide::kColumn;
    pass.fetch = first ? plan.fetch : FftFetch::kComplex;
    pass.put = last && plan.put != FftPut::kHalf ? plan.put : FftPut::kComplex;
    pass.twiddle = !last;
    pass.shape = plan.bluestein
                     ? general_shape(factors[i], desc.wide, pass.in, pass.out, limits.shared_bytes)
                     : shape_of(factors[i], pass, desc.wide, limits);
    passes.push_back(pass);
  }
  return passes;
}

// Of Bluestein's filter, one row.
std::vector<FftPass> filter_passes(const FftPlan& plan, bool wide, const FftLimits& limits) {
  FftPlan filter;
  filter.fetch = FftFetch::kFilter;
  const FftDesc desc{FftKind::kComplex, plan.length, wide, true, true};
  return passes_of(plan.length, filter, desc, limits);
}

// Points of a convolution in one launch: few different ones, since each has a kernel of its own.
std::int64_t block_convolution(std::int64_t least) {
  std::int64_t power = 32;
  while (2 * power < least) power *= 2;
  for (const std::int64_t eighths : {8, 10, 12})
    if (power / 8 * eighths >= least) return power / 8 * eighths;
  return 2 * power;
}

const char* name(FftSide side) { return side == FftSide::kRow ? "row" : "column"; }

std::string to_string(const FftPass& pass) {
  std::string radices;
  for (int s = 0; s < pass.shape.num_stages; ++s)
    radices = cat(radices, s > 0 ? "x" : "", pass.shape.radices[static_cast<std::size_t>(s)]);
  return cat(pass.shape.block ? "block " : "general ", radices.empty() ? "1" : radices, ", ",
             pass.shape.group, " a block of ", pass.shape.threads, " threads, ", name(pass.in),
             " to ", name(pass.out), pass.twiddle ? ", twiddles" : "", ", ",
             pass.shape.shared_bytes, " bytes");
}

}  // namespace

bool is_smooth(std::int64_t n) {
  for (const int prime : kPrimes)
    while (n % prime == 0) n /= prime;
  return n == 1;
}

std::int64_t next_smooth(std::int64_t n) {
  std::int64_t best = 2;
  while (best < n) best *= 2;
  for (std::int64_t fives = 1; fives < best; fives *= 5)
    for (std::int64_t threes = fives; threes < best; threes *= 3) {
      std::int64_t candidate = 2 * threes;
      while (candidate < n) candidate *= 2;
      best = std::min(best, candidate);
    }
  return best;
}

FftPlan plan_fft(const FftDesc& desc, const FftLimits& limits) {
  FftPlan plan;
  plan.bluestein = !is_smooth(desc.n);
  const bool pairs = !plan.bluestein && desc.n % 2 == 0;
  switch (desc.kind) {
    case FftKind::kComplex: break;
    case FftKind::kComplexOfReal: plan.fetch = FftFetch::kReal; break;
    case FftKind::kFromReal:
      plan.fetch = pairs ? FftFetch::kPacked : FftFetch::kReal;
      plan.put = pairs ? FftPut::kHalf : FftPut::kComplex;
      break;
    case FftKind::kToReal:
      plan.fetch = pairs ? FftFetch::kHalf : FftFetch::kHermitian;
      plan.put = pairs ? FftPut::kPacked : FftPut::kReal;
      break;
  }
  const bool real = desc.kind == FftKind::kFromReal || desc.kind == FftKind::kToReal;
  plan.length = static_cast<int>(plan.bluestein  ? next_smooth(2 * desc.n - 1)
                                 : pairs && real ? desc.n / 2
                                                 : desc.n);
  const std::int64_t convolution = block_convolution(2 * desc.n - 1);
  if (plan.bluestein && !limits.general && convolution <= kMaxPass) {
    FftPlan block = plan;
    block.length = static_cast<int>(convolution);
    block.passes = passes_of(block.length, block, desc, limits);
    if (block.passes.size() == 1 && block.passes[0].shape.block) plan = block;
  }
  if (plan.passes.empty()) plan.passes = passes_of(plan.length, plan, desc, limits);
  if (plan.bluestein) plan.filter = filter_passes(plan, desc.wide, limits);
  plan.merge = plan.put == FftPut::kHalf && plan.passes.size() > 1;
  return plan;
}

std::string to_string(const FftPlan& plan) {
  std::string text = plan.bluestein ? cat("Bluestein by convolutions of ", plan.length)
                                    : cat("complex transforms of ", plan.length);
  for (const FftPass& pass : plan.passes) text = cat(text, "\n  ", to_string(pass));
  if (plan.merge) text = cat(text, "\n  merge");
  return text;
}

}  // namespace gpk::ops::fft

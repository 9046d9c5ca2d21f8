// Which kernel for few rows, and how it cuts the work: pure.
#include <algorithm>
#include <bit>
#include <cmath>

#include "base/ceil_div.h"
#include "core/promote.h"
#include "jit/bundle.h"
#include "ops/matmul/engine_gemv.h"
#include "ops/matmul/formats.h"
#include "ops/matmul/matmul.h"

namespace gpk::ops::gemm {
namespace {

constexpr std::int64_t kMaxRows = 16;     // without tensor cores
constexpr std::int64_t kMaxMmaRows = 64;  // by rows of w
constexpr std::int64_t kMaxMmaColumnRows = 16;
constexpr double kMmaColumnRowUs = 0.0062;  // of w, down K
constexpr std::int64_t kLargeWeights = std::int64_t{64} << 20;
constexpr int kRingWarps = 16;
constexpr std::int64_t kMaxSize = std::int64_t{1} << 30;  // kernels count in 32 bits
constexpr std::int64_t kMaxGrid = 65535;
constexpr int kBlockWarps = 8;
constexpr int kMaxCluster = 8;
constexpr std::size_t kStaticBytes = 16384;  // of kMmaRows with a norm: sums of 8 rows

int largest_power(std::int64_t x) {
  return static_cast<int>(std::bit_floor(static_cast<std::uint64_t>(std::max<std::int64_t>(x, 1))));
}

int divisor_bytes(std::int64_t bytes) {
  const auto bits = static_cast<std::uint64_t>(bytes) | 16u;
  return static_cast<int>(bits & (~bits + 1));
}

// Few rows first: `t` is the desc as the kernel sees it, x = a, w = b.
struct Few {
  const MatmulDesc& t;
  const GemmMachine& machine;
  bool transpose;

  [[nodiscard]] const MatmulProblem& p() const { return t.problem; }
  [[nodiscard]] bool by_rows() const { return t.b_k_major(); }
  [[nodiscard]] int itemsize_of() const { return static_cast<int>(itemsize(t.a.dtype)); }
  [[nodiscard]] bool half() const { return itemsize_of() == 2; }

  [[nodiscard]] int align() const {
    const std::int64_t along = by_rows() ? p().k : p().n;
    const int exact = std::min<int>(t.align_b, divisor_bytes(along * itemsize_of()));
    return exact == 16 ? 16 : std::min(exact, 4);  // there are no kernels of 8
  }
};

MatmulPlan make_plan(const Few& few, GemvKernel kernel) {
  MatmulPlan plan;
  plan.engine = MatmulEngine::gemv;
  plan.kernel = static_cast<std::uint8_t>(kernel);
  plan.transpose = few.transpose;
  plan.fused = true;
  plan.k_per_split = few.p().k;
  return plan;
}

// Split-K for `blocks` blocks, each range with at least `least` of K: within a cluster where there
// is one and it is enough, else for the finish pass.
void split(MatmulPlan& plan, const Few& few, std::int64_t blocks, std::int64_t wanted_blocks,
           std::int64_t least) {
  const std::int64_t k = few.p().k;
  std::int64_t parts =
      std::min(ceil_div(wanted_blocks, blocks), std::max<std::int64_t>(k / least, 1));
  if (parts <= 1) return;
  const bool clusters = few.machine.sm >= 90;
  const bool cluster =
      clusters && (parts <= kMaxCluster || blocks * kMaxCluster >= few.machine.sms);
  parts = cluster ? std::min(largest_power(parts), kMaxCluster) : std::min(parts, kMaxGrid);
  plan.k_per_split = ceil_div(ceil_div(k, parts), 64) * 64;
  plan.splits = ceil_div(k, plan.k_per_split);
  if (cluster && plan.splits == largest_power(plan.splits))
    plan.cluster = static_cast<std::int32_t>(plan.splits);
}

// Measured on an H200: rows of w in flight, warps over K as long as each has 1024 of it.
MatmulPlan plan_rows(const Few& few) {
  MatmulPlan plan = make_plan(few, GemvKernel::kRows);
  const std::int64_t sms = few.machine.sms;
  const MatmulProblem& p = few.p();
  plan.tile_m = p.m == 1 ? 1 : 4;
  plan.tile_n = few.align() == 16 ? 2 : 1;
  plan.tile_k = few.align() == 16 && plan.tile_m == 1 ? 4 : 2;
  const std::int64_t warp_k = 512 / few.itemsize_of();
  int warps = std::clamp(largest_power(p.k / (4 * warp_k)), 1, kBlockWarps);
  const auto blocks = [&] { return ceil_div(p.n, plan.tile_n * kBlockWarps / warps); };
  while (warps < kBlockWarps && blocks() < 2 * sms && p.k >= 4 * warp_k * warps) warps *= 2;
  plan.group = warps;
  split(plan, few, blocks() * ceil_div(p.m, plan.tile_m) * p.num_batches(), sms,
        2 * warp_k * warps);
  return plan;
}

MatmulPlan plan_columns(const Few& few) {
  MatmulPlan plan = make_plan(few, GemvKernel::kColumns);
  const std::int64_t sms = few.machine.sms;
  const MatmulProblem& p = few.p();
  plan.tile_m = p.m == 1 ? 1 : 4;
  const int per_lane = 16 / few.itemsize_of();
  const bool wide = plan.tile_m > 1 || few.align() != 16 || p.n >= 16384;
  plan.tile_n = (wide ? 16 : 8) * per_lane;
  plan.group = kBlockWarps;
  const std::int64_t blocks =
      ceil_div(p.n, plan.tile_n) * ceil_div(p.m, plan.tile_m) * p.num_batches();
  // One full wave; two splits rather than one block per multiprocessor, as long as all are
  // resident.
  const bool alone = blocks >= sms * 19 / 20 && blocks <= sms;
  split(plan, few, blocks, alone ? 2 * blocks : sms * 19 / 20, 256);
  return plan;
}

MatmulPlan plan_mma_rows(const Few& few) {
  MatmulPlan plan = make_plan(few, GemvKernel::kMmaRows);
  const std::int64_t sms = few.machine.sms;
  const MatmulProblem& p = few.p();
  const int tiles_m = static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(ceil_div(p.m, 8))));
  plan.tile_m = 8 * tiles_m;
  const bool narrow = tiles_m == 8 || (tiles_m == 1 && ceil_div(p.n, 32) < sms);
  plan.tile_n = narrow ? 16 : 32;
  plan.tile_k = tiles_m == 4 ? 2 : narrow && tiles_m == 1 ? 8 : 4;
  int warps = kBlockWarps;
  const auto blocks = [&] { return ceil_div(p.n, plan.tile_n * kBlockWarps / warps); };
  while (warps > 1 && (p.k < std::int64_t{32} * plan.tile_k * warps || blocks() > 3 * sms))
    warps /= 2;
  plan.group = warps;
  split(plan, few, blocks() * p.num_batches(), sms, std::int64_t{64} * plan.tile_k * warps);
  return plan;
}

MatmulPlan plan_mma_columns(const Few& few) {
  MatmulPlan plan = make_plan(few, GemvKernel::kMmaColumns);
  const MatmulProblem& p = few.p();
  plan.tile_m = p.m <= 8 ? 8 : 16;
  plan.tile_n = 128;
  plan.group = kBlockWarps;
  split(plan, few, ceil_div(p.n, plan.tile_n) * p.num_batches(), few.machine.sms * 19 / 20, 512);
  return plan;
}

// Two small rings on a multiprocessor, or, for what takes long, one of twice the size.
MatmulPlan plan_ring(const Few& few) {
  MatmulPlan plan = make_plan(few, GemvKernel::kRing);
  const MatmulProblem& p = few.p();
  plan.tile_m = 1;
  plan.tile_n = p.n * p.k * few.itemsize_of() < kLargeWeights ? 1 : 2;
  plan.tile_k = 2048 / few.itemsize_of();
  plan.group = kRingWarps;
  plan.stages = 3;
  return plan;
}

bool ring_fits(const Few& few, const MatmulPlan& plan) {
  const MatmulProblem& p = few.p();
  const int blocks = gemv_ring_blocks(plan.tile_n, few.machine.sms);
  const GemvVariant v{.kernel = GemvKernel::kRing,
                      .dtype = few.t.a.dtype,
                      .tile_m = plan.tile_m,
                      .tile_n = plan.tile_n,
                      .tile_k = plan.tile_k,
                      .group = plan.group,
                      .stages = plan.stages};
  return few.machine.sm >= 90 && few.align() == 16 && p.m == 1 && p.n >= std::int64_t{2} * blocks &&
         p.k * few.itemsize_of() >= 2048 &&
         gemv_ring_bytes(v, p.n, p.k, blocks) * static_cast<std::size_t>(3 - plan.tile_n) <=
             few.machine.shared_bytes;
}

// Warps whose range of K is not whole steps wait for one another.
double uneven(const Few& few, const MatmulPlan& plan) {
  const std::int64_t step = std::int64_t{512} / few.itemsize_of() * plan.tile_k;
  const std::int64_t part = ceil_div(few.p().k, plan.group);
  return part > step && part % step != 0 ? 1.15 : 1.0;
}

// What a last wave that is not full adds to the time of all waves, as a share of it. Of kernels
// whose blocks per multiprocessor are known (registers).
double tail(const Few& few, const MatmulPlan& plan) {
  const MatmulProblem& p = few.p();
  const bool rows = static_cast<GemvKernel>(plan.kernel) == GemvKernel::kRows;
  if (plan.tile_m > 1 || few.align() < 16) return 0.0;
  const std::int64_t columns =
      rows ? std::int64_t{plan.tile_n} * kBlockWarps / plan.group : std::int64_t{plan.tile_n};
  const auto blocks = static_cast<double>(ceil_div(p.n, columns) * p.num_batches() * plan.splits);
  const double waves = blocks / ((rows ? 4.0 : 2.0) * few.machine.sms);
  return waves > 1.0 ? std::ceil(waves) / waves - 1.0 : 0.0;
}

// kColumns: a warp goes down its part of K, whatever the width; short loads, and more rows, leave
// fewer of them in flight, and blocks of several rows have a multiprocessor alone. As measured on
// random shapes.
double column_us(const Few& few, const MatmulPlan& plan) {
  const bool one = plan.tile_m == 1;
  const double row_us = few.align() == 16  ? one ? 0.004 : 0.012
                        : few.align() == 4 ? one ? 0.010 : 0.022
                        : one              ? 0.022
                                           : 0.050;
  const MatmulProblem& p = few.p();
  const std::int64_t blocks =
      ceil_div(p.n, plan.tile_n) * ceil_div(p.m, plan.tile_m) * p.num_batches() * plan.splits;
  const std::int64_t waves = ceil_div(blocks, std::int64_t{few.machine.sms} * (one ? 2 : 1));
  return 1.0 + row_us * static_cast<double>(plan.k_per_split * waves);
}

// kRows, w in pieces: x comes in such pieces too, for every row of it.
double piece_us(const Few& few, const MatmulPlan& plan, double once_us) {
  const bool single = few.align() < 4;
  const double weights = single ? 2.7 : 1.55;
  if (static_cast<GemvKernel>(plan.kernel) == GemvKernel::kColumns)
    return once_us * weights * static_cast<double>(ceil_div(few.p().m, plan.tile_m));
  return once_us * std::max(weights, (single ? 1.9 : 0.95) * static_cast<double>(few.p().m));
}

// As measured on an H200, with weights that are not in the L2: the first microseconds of reading
// are slower than the rest.
double predict(const Few& few, const MatmulPlan& plan, const MatmulDesc& desc) {
  const auto kernel = static_cast<GemvKernel>(plan.kernel);
  const double passes = static_cast<double>(ceil_div(few.p().m, plan.tile_m));
  const double once_us = operands_us(desc, few.machine);
  const double traffic = once_us * passes;
  const double slow = std::min(traffic, 8.0);
  double us = kLaunchUs;
  switch (kernel) {
    case GemvKernel::kRows:
    case GemvKernel::kColumns:
      if (few.align() < 16) {
        us += 1.0 + piece_us(few, plan, once_us);
      } else if (plan.tile_m > 1) {
        us += 1.0 + traffic * (1.0 + 0.25 * (plan.tile_m - 1));
      } else {
        us += kernel == GemvKernel::kRows
                  ? 0.1 + uneven(few, plan) * 0.875 * (1.0 + tail(few, plan)) * traffic + 0.3 * slow
                  : 1.0 + (1.0 + 0.6 * tail(few, plan)) * traffic;
      }
      break;
    case GemvKernel::kRing: us += 0.6 + 0.95 * traffic + 0.35 * slow; break;
    case GemvKernel::kMmaRows: us += 1.5 + traffic * (1.03 + 0.05 * plan.tile_m / 8); break;
    case GemvKernel::kMmaColumns:
      us += 1.5 + std::max(traffic * 1.15 * plan.tile_m / 8,
                           kMmaColumnRowUs * static_cast<double>(plan.k_per_split));
      break;
  }
  if (kernel == GemvKernel::kColumns) us = std::max(us, kLaunchUs + column_us(few, plan));
  if (plan.splits > 1) us += plan.cluster > 1 ? 0.5 : finish_us(desc, few.machine, plan.splits);
  if (gemv_copies_input(desc, plan)) us += kLaunchUs;
  return us;
}

bool fits(const Few& few) {
  const MatmulDesc& t = few.t;
  const MatmulProblem& p = t.problem;
  return p.m <= kMaxMmaRows && p.m <= p.n && p.k >= 64 && p.k < kMaxSize && p.n < kMaxSize &&
         p.batch_shape.size() <= 1 && p.num_batches() <= kMaxGrid &&
         (t.b_k_major() || t.b_n_major());
}

void propose_few(const MatmulDesc& desc, const Few& few, std::vector<MatmulPlan>& plans) {
  if (!fits(few)) return;
  const std::int64_t m = few.p().m;
  // From 8 rows on SM90 has wgmma, with x as the narrow operand.
  const bool tensor = few.half() && few.align() == 16 && few.machine.sm >= 80 &&
                      (few.machine.sm != 90 || m < 8) && m > 1;
  std::vector<MatmulPlan> found;
  if (few.by_rows()) {
    if (m <= kMaxRows) found.push_back(plan_rows(few));
    if (tensor) found.push_back(plan_mma_rows(few));
    const MatmulPlan ring = plan_ring(few);
    if (ring_fits(few, ring)) found.push_back(ring);
  } else {
    if (m <= kMaxRows) found.push_back(plan_columns(few));
    if (tensor && m <= kMaxMmaColumnRows && few.p().k % 4 == 0)
      found.push_back(plan_mma_columns(few));
  }
  for (MatmulPlan& plan : found) {
    // A stack of x is not copied.
    if (gemv_copies_input(desc, plan) && !few.p().batch_shape.empty()) continue;
    plan.predicted_us = static_cast<float>(predict(few, plan, desc));
    plans.push_back(plan);
  }
}

}  // namespace

GemvVariant gemv_variant(const MatmulDesc& desc, const MatmulPlan& plan) {
  const MatmulDesc t = plan.transpose ? transposed(desc) : desc;
  return {.kernel = static_cast<GemvKernel>(plan.kernel),
          .dtype = t.a.dtype,
          .tile_m = plan.tile_m,
          .tile_n = plan.tile_n,
          .tile_k = plan.tile_k,
          .group = plan.group,
          .stages = plan.stages,
          .align = Few{t, GemmMachine{}, plan.transpose}.align(),
          .gated = desc.gated,
          .normed = desc.normed};
}

std::size_t gemv_ring_bytes(const GemvVariant& v, std::int64_t n, std::int64_t k, int blocks) {
  const auto stages = static_cast<std::size_t>(v.group) * static_cast<std::size_t>(v.stages);
  const std::int64_t rows = ceil_div(n, blocks) + v.tile_n;
  return stages * static_cast<std::size_t>(v.tile_n * v.tile_k) * itemsize(v.dtype) + stages * 8 +
         static_cast<std::size_t>(rows * ceil_div(k, v.tile_k) * v.tile_m) * sizeof(float);
}

std::size_t gemv_norm_bytes(std::int64_t m, std::int64_t k) {
  constexpr std::int64_t kPad = 32;
  return static_cast<std::size_t>(m * (k + kPad) * 2);
}

int gemv_ring_blocks(int tile_n, int sms) { return tile_n == 1 ? 2 * sms : sms; }

bool gemv_copies_input(const MatmulDesc& desc, const MatmulPlan& plan) {
  const MatmulDesc t = plan.transpose ? transposed(desc) : desc;
  const GemvVariant v = gemv_variant(desc, plan);
  const auto kernel = static_cast<GemvKernel>(plan.kernel);
  const int wanted = kernel == GemvKernel::kColumns      ? 16
                     : kernel == GemvKernel::kMmaColumns ? 8
                                                         : v.align;
  return t.problem.a_k != 1 || t.align_a < wanted;
}

bool takes_gemv(const MatmulDesc& d) {
  if (!is_dense(d) || d.a.dtype != d.b.dtype) return false;
  if (d.a.dtype != DType::kFloat32 && d.a.dtype != DType::kFloat16 && d.a.dtype != DType::kBFloat16)
    return false;
  return d.dtype_c == d.a.dtype || d.dtype_c == DType::kFloat32;
}

bool takes_few_rows(const MatmulDesc& desc, const GemmMachine& machine) {
  constexpr std::int64_t kLeastSize = 64;
  const Few few{desc, machine, false};
  const MatmulProblem& p = desc.problem;
  const std::int64_t most = desc.normed ? kMaxNormRows : desc.gated ? kMaxGatedRows : kMaxFewRows;
  return takes_gemv(desc) && few.half() && few.align() == 16 && machine.sm >= 80 && few.by_rows() &&
         p.m <= most && p.n >= kLeastSize && p.k >= kLeastSize && p.k < kMaxSize &&
         p.n < kMaxSize / 2 && p.batch_shape.empty() &&
         (!desc.normed || (p.a_k == 1 && desc.align_a == 16 &&
                           gemv_norm_bytes(p.m, p.k) + kStaticBytes <= machine.shared_bytes));
}

std::vector<MatmulPlan> propose_few_rows(const MatmulDesc& desc, const GemmMachine& machine) {
  if (!takes_few_rows(desc, machine)) return {};
  const Few few{desc, machine, false};
  const MatmulProblem& p = desc.problem;
  MatmulPlan plan = make_plan(few, GemvKernel::kMmaRows);
  plan.tile_m =
      static_cast<std::int32_t>(8 * std::bit_ceil(static_cast<std::uint64_t>(ceil_div(p.m, 8))));
  plan.tile_k = 4;
  // The order of sums follows from warps and splits: these must not depend on m.
  const std::int64_t rows = desc.gated ? 2 * p.n : p.n;
  // Warps side by side along k read long runs of each row of w.
  const std::int64_t step = std::int64_t{32} * plan.tile_k;
  plan.group = static_cast<int>(std::min<std::int64_t>(kBlockWarps, largest_power(p.k / step)));
  const std::int64_t blocks = ceil_div(rows, std::int64_t{16} * kBlockWarps / plan.group);
  split(plan, few, blocks, machine.sms, step * plan.group);
  // A fragment of x serves two tiles of w where loads of x would cost as much as those of w.
  plan.tile_n = desc.gated || (p.m > 8 && p.m <= 32) ? 32 : 16;
  plan.predicted_us = static_cast<float>(predict(few, plan, desc));
  const jit::KernelSpec spec = spec_gemv(desc, plan);
  if (!machine.jit && !jit::in_bundle(spec.file, spec.expression, machine.sm)) return {};
  return {plan};
}

void propose_gemv(const MatmulDesc& desc, const GemmMachine& machine,
                  std::vector<MatmulPlan>& plans) {
  // Rows have the same sums however many there are, but only within a kernel, and large GEMMs run
  // on other engines.
  if (!takes_gemv(desc) || desc.batch_invariant || desc.conjugate) return;
  propose_few(desc, Few{desc, machine, false}, plans);
  const MatmulDesc t = transposed(desc);
  propose_few(desc, Few{t, machine, true}, plans);
}

}  // namespace gpk::ops::gemm

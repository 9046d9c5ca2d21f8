// float64 GEMM as exact GEMMs of int8 slices, which have plans of their own. Of the products of
// slices s and t those with s + t < 8 count; slices lie side by side, those of b in reverse order,
// so that all with s + t = g are one GEMM of (g + 1) k. Kernels: kernels/matmul/ozaki.cuh.
#include <algorithm>

#include "base/ceil_div.h"
#include "core/context.h"
#include "core/view.h"
#include "ops/device_address.h"
#include "ops/elementwise/copy.h"
#include "ops/kernel_table.h"
#include "ops/matmul/formats.h"
#include "ops/matmul/kernel_ids.h"
#include "ops/matmul/matmul_args.h"
#include "ops/matmul/plan_cache.h"
#include "ops/submit.h"

namespace gpk::ops::gemm {
namespace {

using kernels::kOzakiSlices;
using kernels::kOzakiThreads;

// Sums of kOzakiSlices products of at most 2^14 for each of k stay below 2^31: two of the products
// have a factor of a first slice, which is at most 64.
constexpr std::int64_t kMaxChunk = 16384;
constexpr std::int64_t kMaxK = 64 * kMaxChunk;       // sums of chunks in 64 bits
constexpr std::int64_t kMaxSumsBytes = 256ll << 20;  // of the temporary between the GEMMs and C
constexpr std::int64_t kPanelAlign = 128;
constexpr std::int64_t kMaxGridY = 65535;

// k in parts, each padded for TMA; long ones to whole lines of the L2.
struct Chunks {
  std::int64_t count, pitch;
};
Chunks chunks_of(std::int64_t k) {
  const std::int64_t count = ceil_div(k, kMaxChunk);
  const std::int64_t align = k < 512 ? 16 : 128;
  return {count, ceil_div(ceil_div(k, count), align) * align};
}

jit::KernelSpec spec_of(bool sum) {
  jit::KernelSpec spec;
  spec.file = "matmul/ozaki.cuh";
  spec.kernel = static_cast<std::uint8_t>(kOzakiKernel + (sum ? 1 : 0));
  spec.op = "matmul";
  spec.expression = sum ? "gpk::ozaki_sum" : "gpk::ozaki_slices";
  return spec;
}

const Kernel& ozaki_kernel(const Array& on, bool sum) {
  return kernel(Context::get(on.device().index),
                {Family::matmul, static_cast<std::uint8_t>(kOzakiKernel + (sum ? 1 : 0)), 0},
                [&] { return spec_of(sum); });
}

Dims joined(const Dims& first, const Dims& last) {
  Dims all = Dims::filled(first.size() + last.size(), 0);
  std::copy(last.begin(), last.end(), std::copy(first.begin(), first.end(), all.data()));
  return all;
}

struct Slices {
  Array values;  // int8 [chunks, batches..., rows, kOzakiSlices * pitch]; one batch for equal ones
  Array exponents;  // int32 [all batches, rows]
};

// Of `rows` [batches..., rows, k] with any strides.
Slices make_slices(const Array& rows, const Dims& batch, Chunks chunks, bool reversed,
                   const char* op) {
  const Array x = contiguous(rows, op);
  const int rank = x.ndim();
  const std::int64_t num_rows = x.shape()[rank - 2];
  const Dims of_rows(x.shape().span().first(static_cast<std::size_t>(rank - 1)));
  const Array values =
      Array::empty(joined({chunks.count}, joined(of_rows, {kOzakiSlices * chunks.pitch})),
                   DType::kInt8, x.device(), op);
  const Array exponents = Array::empty(of_rows, DType::kInt32, x.device(), op);
  kernels::OzakiSliceArgs args{};
  args.x = address(x);
  args.slices = address(values);
  args.exponents = address(exponents);
  args.rows = exponents.size();
  args.k = x.shape()[rank - 1];
  args.chunks = chunks.count;
  args.pitch = chunks.pitch;
  args.reversed = reversed ? 1 : 0;
  void* params[] = {&args};
  submit(ozaki_kernel(x, false), grid_1d(args.rows, 1, kOzakiThreads), {&x, &values, &exponents},
         params);
  return {values, contiguous(broadcast_to(exponents, joined(batch, {num_rows}), op), op)};
}

// An operand as rows of k; batches that it is the same for are one.
Array rows_of(const Array& from, const Dims& batch, const Dims& steps, std::int64_t rows,
              std::int64_t row_step, std::int64_t k, std::int64_t k_step) {
  Dims shape = batch;
  for (int d = 0; d < batch.size(); ++d)
    if (steps[d] == 0) shape[d] = 1;
  return {joined(shape, {rows, k}), joined(steps, {row_step, k_step}), from.dtype(), from.buffer(),
          from.offset_elems()};
}

// Some slices of a chunk, side by side, for all batches.
Array chunk_of(const Array& values, std::int64_t chunk, const Dims& batch,
               std::int64_t first_column, std::int64_t columns, const char* op) {
  const Array part = squeeze(slice_axis(values, 0, chunk, 1, 1), {0}, op);
  const int rank = part.ndim();
  const Array wanted = slice_axis(part, rank - 1, first_column, columns, 1);
  return broadcast_to(wanted, joined(batch, {part.shape()[rank - 2], columns}), op);
}

void multiply_slices(const Slices& a, const Slices& b, const Dims& batch, Chunks chunks,
                     std::int64_t first_row, const Array& sums, const char* op) {
  const int rank = batch.size() + 2;
  Dims swapped = Dims::filled(rank, 0);
  for (int d = 0; d < rank; ++d) swapped[d] = d;
  std::swap(swapped[rank - 2], swapped[rank - 1]);
  const std::int64_t count = sums.shape()[rank];
  for (std::int64_t chunk = 0; chunk < chunks.count; ++chunk)
    for (int g = 0; g < kOzakiSlices; ++g) {
      const std::int64_t width = (g + 1) * chunks.pitch;
      const std::int64_t from = (kOzakiSlices - 1 - g) * chunks.pitch;
      const Array c = squeeze(slice_axis(slice_axis(sums, 0, chunk, 1, 1), 1, g, 1, 1), {0, 1}, op);
      run_gemm({slice_axis(chunk_of(a.values, chunk, batch, 0, width, op), rank - 2, first_row,
                           count, 1),
                permute(chunk_of(b.values, chunk, batch, from, width, op), swapped, op), c},
               op);
    }
}

void add_sums(const GemmCall& call, const MatmulProblem& p, const Slices& a, const Slices& b,
              Chunks chunks, std::int64_t first_row, const Array& sums) {
  MatmulArgs args = make_matmul_args(p, 1, p.k);
  args.a = address(call.a);
  args.b = address(call.b);
  args.c = address(call.c);
  kernels::OzakiSumArgs of{};
  of.sums = address(sums);
  of.exponents_a = address(a.exponents);
  of.exponents_b = address(b.exponents);
  of.first_row = first_row;
  of.num_rows = sums.shape()[sums.ndim() - 2];
  of.chunks = chunks.count;
  LaunchConfig config = grid_1d(p.n, kOzakiThreads, kOzakiThreads);
  config.grid[1] =
      static_cast<unsigned>(std::min<std::int64_t>(kMaxGridY, args.num_batches * of.num_rows));
  void* params[] = {&args, &of};
  submit(ozaki_kernel(call.c, true), config,
         {&call.a, &call.b, &call.c, &sums, &a.exponents, &b.exponents}, params);
}

// Rows of C at a time, whose sums have the room of kMaxSumsBytes.
std::int64_t panel_rows(const MatmulProblem& p, Chunks chunks) {
  const std::int64_t row_bytes = chunks.count * kOzakiSlices * p.num_batches() * p.n * 4;
  const std::int64_t rows = kMaxSumsBytes / row_bytes;
  return rows < kPanelAlign ? std::max<std::int64_t>(rows, 1) : rows / kPanelAlign * kPanelAlign;
}

// The GEMM of s + t = g.
MatmulDesc slice_desc(const MatmulDesc& desc, Chunks chunks, int g) {
  const MatmulProblem& p = desc.problem;
  MatmulDesc inner;
  inner.a.dtype = inner.b.dtype = DType::kInt8;
  inner.dtype_c = inner.dtype_acc = DType::kInt32;
  const std::int64_t pitch = kOzakiSlices * chunks.pitch;
  inner.problem = {p.m, p.n, (g + 1) * chunks.pitch, pitch, 1, 1, pitch, p.n, 1, {}, {}, {}, {}};
  if (p.num_batches() > 1) {
    inner.problem.batch_shape = {p.num_batches()};
    inner.problem.batch_a = {p.m * pitch};
    inner.problem.batch_b = {p.n * pitch};
    inner.problem.batch_c = {p.m * p.n};
  }
  if (p.n % 4 != 0) inner.align_c = 4;
  return inner;
}

}  // namespace

bool takes_ozaki(const MatmulDesc& d) {
  return d.float64_int8 && is_dense(d) && d.a.dtype == DType::kFloat64 &&
         d.b.dtype == DType::kFloat64 && d.dtype_c == DType::kFloat64;
}

void propose_ozaki(const MatmulDesc& desc, const GemmMachine& machine,
                   std::vector<MatmulPlan>& plans) {
  const MatmulProblem& p = desc.problem;
  if (!takes_ozaki(desc) || desc.epilogue != 0 || p.k == 0 || p.k > kMaxK) return;
  const Chunks chunks = chunks_of(p.k);
  const auto count = static_cast<double>(chunks.count);
  double us = 0.0;
  for (int g = 0; g < kOzakiSlices; ++g)
    us += count * plan_matmul(slice_desc(desc, chunks, g), machine).predicted_us;
  // Operands become slices of the same size; eight int32 sums become an element of C.
  const auto batches = static_cast<double>(p.num_batches());
  const double operands = 16.0 * static_cast<double>((p.m + p.n) * p.k);
  const double sums = (8.0 + 4.0 * double{kOzakiSlices} * count) * static_cast<double>(p.m * p.n);
  us += 3.0 * kLaunchUs + batches * (operands + sums) / plan::dram_bytes_per_us(machine);
  MatmulPlan plan;
  plan.engine = MatmulEngine::ozaki;
  plan.fused = true;
  plan.predicted_us = static_cast<float>(us);
  plans.push_back(plan);
}

void launch_ozaki(const GemmCall& call, const MatmulDesc& desc, const MatmulPlan& /*plan*/,
                  const char* op) {
  const InnerPlans inner;
  const MatmulProblem& p = desc.problem;
  const Chunks chunks = chunks_of(p.k);
  const Dims& batch = p.batch_shape;
  const Slices a = make_slices(rows_of(call.a, batch, p.batch_a, p.m, p.a_m, p.k, p.a_k), batch,
                               chunks, false, op);
  const Slices b = make_slices(rows_of(call.b, batch, p.batch_b, p.n, p.b_n, p.k, p.b_k), batch,
                               chunks, true, op);
  const std::int64_t panel = panel_rows(p, chunks);
  for (std::int64_t first = 0; first < p.m; first += panel) {
    const std::int64_t count = std::min(panel, p.m - first);
    const Array sums =
        Array::empty(joined({chunks.count, kOzakiSlices}, joined(batch, {count, p.n})),
                     DType::kInt32, call.c.device(), op);
    multiply_slices(a, b, batch, chunks, first, sums, op);
    add_sums(call, p, a, b, chunks, first, sums);
  }
}

jit::KernelSpec spec_ozaki(const MatmulDesc& /*desc*/, const MatmulPlan& /*plan*/) {
  return spec_of(true);
}

void enumerate_ozaki(std::vector<jit::KernelSpec>& specs) {
  for (const bool sum : {false, true}) specs.push_back(spec_of(sum));
}

}  // namespace gpk::ops::gemm

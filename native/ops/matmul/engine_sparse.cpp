// 2:4 sparse weights times float16 or bfloat16 rows of the same type, by mma.sp (SM80 and newer).
// Kernel: kernels/matmul/gemm_sparse.cuh. Tiles do not change the order of summation, splits do:
// with few_rows they depend on the weights alone.
#include <algorithm>

#include "base/ceil_div.h"
#include "base/text.h"
#include "core/context.h"
#include "core/view.h"
#include "ops/device_address.h"
#include "ops/elementwise/copy.h"
#include "ops/kernel_table.h"
#include "ops/matmul/gemm_tiles.h"
#include "ops/matmul/kernel_ids.h"
#include "ops/matmul/packed_operand.h"

namespace gpk::ops::gemm {
namespace {

constexpr int kNumSparseTiles = 3;
constexpr std::int32_t kSparseTileK = 64;
constexpr std::int64_t kMaxFewSplits = 8;
constexpr std::int64_t kMaxSparseRows = std::int64_t{1} << 31;

struct SparseTile {
  std::int32_t m, n, threads, warp_m, warp_n, stages, max_blocks;
  double share, alone;
};

// Three stages of the first: 99 KiB are all that SM86, SM89 and SM120 have.
const SparseTile& sparse_tile(int kernel) {
  static constexpr SparseTile kRows[kNumSparseTiles] = {
      {128, 128, 256, 32, 64, 3, 1, 0.80, 1.0},
      {64, 64, 128, 32, 32, 4, 3, 0.55, 0.5},
      {16, 128, 128, 16, 32, 4, 3, 0.25, 0.5},
  };
  return kRows[kernel];
}

// A stage: x, half as many values of w, a word of metadata for 16 x 64 of a quad's lane.
GemmTile sparse_gemm_tile(int kernel) {
  const SparseTile& row = sparse_tile(kernel);
  const std::int32_t stage = kSparseTileK * (2 * row.m + row.n) + 8 * row.n;
  return {row.m,          row.n,     kSparseTileK, row.stages, row.threads, row.stages * stage,
          row.max_blocks, row.share, row.alone};
}

// mma.sync's dense share of the peak, 0.48 as for groups of rows (grouped_plan), and what half of
// the multiplications saves. Not measured for sparse weights.
double sparse_rate(const GemmMachine& machine, DType dtype) {
  double share = 0.85;
  if (machine.sm >= 90 && machine.sm < 100) share = 0.48;
  if (machine.sm >= 100 && machine.sm < 120) share = 0.2;
  return 1.5 * share * plan::tensor_flops_per_us(machine, dtype);
}

std::uint8_t sparse_kernel_id(int kernel) {
  return static_cast<std::uint8_t>(kSparseKernel + kernel);
}

jit::KernelSpec sparse_spec(int kernel, DType dtype) {
  const SparseTile& row = sparse_tile(kernel);
  jit::KernelSpec spec;
  spec.file = "matmul/gemm_sparse.cuh";
  spec.kernel = sparse_kernel_id(kernel);
  spec.variant = static_cast<std::uint64_t>(dtype);
  spec.op = "linear";
  spec.bundled = false;
  spec.expression = cat("gpk::gemm_sparse_kernel<", info(dtype).cuda_name, ", ", row.m, ", ", row.n,
                        ", ", row.warp_m, ", ", row.warp_n, ", ", row.stages, ">");
  return spec;
}

bool rows_are_direct(const MatmulDesc& desc) { return desc.a_k_major() && desc.align_a == 16; }

std::int64_t padded_k(const MatmulDesc& desc) { return ceil_div(desc.problem.k, 8) * 8; }

// The desc with x as aligned_rows() copies it.
MatmulDesc aligned_desc(const MatmulDesc& desc) {
  MatmulDesc direct = desc;
  if (!rows_are_direct(desc)) {
    direct.problem.a_m = padded_k(desc);
    direct.problem.a_k = 1;
    direct.align_a = 16;
  }
  return direct;
}

// Rows on 16 bytes; what is past k is not read.
Array aligned_rows(const Array& x, const MatmulDesc& desc, const char* op) {
  const std::int64_t k = x.shape()[1];
  const Array rows = Array::empty({x.shape()[0], padded_k(desc)}, x.dtype(), x.device(), op);
  const Array view = slice_axis(rows, 1, 0, k, 1);
  copy_into(view, x, op);
  return view;
}

// Enough blocks to read the weights at the rate of memory. So few that the finish pass adds them in
// order, whatever the number of results.
std::int64_t few_rows_splits(const MatmulProblem& p, const GemmMachine& machine) {
  const std::int64_t wanted = ceil_div(2 * std::int64_t{machine.sms}, ceil_div(p.n, 128));
  return std::clamp<std::int64_t>(p.k / (8 * kSparseTileK), 1, std::min(wanted, kMaxFewSplits));
}

}  // namespace

bool takes_sparse(const MatmulDesc& d) {
  if (d.groups.kind != GroupKind::kNone || !d.a.is_plain()) return false;
  if (d.a.dtype != DType::kFloat16 && d.a.dtype != DType::kBFloat16) return false;
  if (d.dtype_c != d.a.dtype && d.dtype_c != DType::kFloat32) return false;
  return d.b.packing == plan::Packing::kSparse24 && d.b.dtype == d.a.dtype;
}

void propose_sparse(const MatmulDesc& desc, const GemmMachine& machine,
                    std::vector<MatmulPlan>& plans) {
  if (!takes_sparse(desc) || machine.sm < 80) return;
  // Many rows must sum in the same order: the engine dequantize does that.
  if (desc.batch_invariant && !desc.few_rows) return;
  const MatmulProblem& p = desc.problem;
  if (!p.batch_shape.empty() || p.k == 0 || p.n >= kMaxSparseRows || !desc.b_k_major()) return;
  const OrientedDesc direct{false, aligned_desc(desc)};
  if (!tiles_fit(direct.desc)) return;
  for (int i = 0; i < kNumSparseTiles; ++i) {
    const std::size_t before = plans.size();
    propose_tile(direct, machine, MatmulEngine::sparse, static_cast<std::uint8_t>(i),
                 sparse_gemm_tile(i), sparse_rate(machine, desc.a.dtype), desc.a.dtype, plans,
                 desc.few_rows ? few_rows_splits(p, machine) : 0);
    if (!rows_are_direct(desc) && plans.size() > before)
      plans.back().predicted_us +=
          static_cast<float>(plan::kLaunchUs + 4.0 * static_cast<double>(p.m * p.k) /
                                                   plan::dram_bytes_per_us(machine));
  }
}

void launch_sparse(const GemmCall& call, const MatmulDesc& desc, const MatmulPlan& plan,
                   const char* op) {
  Context& context = Context::get(call.c.device().index);
  const DType dtype = desc.a.dtype;
  const Kernel& code = kernel(
      context, {Family::matmul, sparse_kernel_id(plan.kernel), static_cast<std::uint64_t>(dtype)},
      [&] { return sparse_spec(plan.kernel, dtype); });
  GemmCall direct = call;
  if (!rows_are_direct(desc)) direct.a = aligned_rows(call.a, desc, op);
  const PackedWeight weight = packed_operand(call);
  const Array& metadata = *weight.metadata;
  kernels::SparseTileArgs sparse{address(weight.values), address(metadata),
                                 weight.values.strides()[0], metadata.shape()[0],
                                 metadata.shape()[1]};
  launch_tiles(direct, aligned_desc(desc), plan, code, sparse_gemm_tile(plan.kernel), dtype, op,
               &sparse);
}

jit::KernelSpec spec_sparse(const MatmulDesc& desc, const MatmulPlan& plan) {
  return sparse_spec(plan.kernel, desc.a.dtype);
}

void enumerate_sparse(std::vector<jit::KernelSpec>& specs) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16})
    for (int i = 0; i < kNumSparseTiles; ++i) specs.push_back(sparse_spec(i, dtype));
}

}  // namespace gpk::ops::gemm

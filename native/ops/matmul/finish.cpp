#include "ops/matmul/finish.h"

#include <algorithm>
#include <bit>

#include "base/ceil_div.h"
#include "base/text.h"
#include "core/context.h"
#include "core/promote.h"
#include "ops/device_address.h"
#include "ops/kernel_table.h"
#include "ops/matmul/kernel_ids.h"
#include "ops/matmul/matmul_args.h"
#include "ops/submit.h"
#include "plan/key_builder.h"

namespace gpk::ops::gemm {
namespace {

constexpr unsigned kThreads = 256;
// From this many splits on a warp adds them, where so few results keep a thread each too busy.
constexpr std::int64_t kWarpFinish = 16;
constexpr std::int64_t kFewResults = 16384;
constexpr std::int64_t kMaxGridY = 65535;

// From what to what. Without an epilogue signed integers go as unsigned ones: the same bits.
struct Types {
  DType sum, c;
};

DType unsigned_of(DType dtype) {
  switch (dtype) {
    case DType::kInt8: return DType::kUInt8;
    case DType::kInt16: return DType::kUInt16;
    case DType::kInt32: return DType::kUInt32;
    case DType::kInt64: return DType::kUInt64;
    default: return dtype;
  }
}

Types types_of(const MatmulDesc& desc) {
  if (desc.epilogue != 0) return {desc.dtype_acc, desc.dtype_c};
  return {unsigned_of(desc.dtype_acc), unsigned_of(desc.dtype_c)};
}

constexpr Types kTypes[] = {
    {DType::kFloat32, DType::kFloat32},     {DType::kFloat32, DType::kFloat16},
    {DType::kFloat32, DType::kBFloat16},    {DType::kFloat64, DType::kFloat64},
    {DType::kComplex64, DType::kComplex64}, {DType::kComplex128, DType::kComplex128},
    {DType::kUInt32, DType::kBool},         {DType::kUInt32, DType::kUInt8},
    {DType::kUInt32, DType::kUInt16},       {DType::kUInt32, DType::kUInt32},
    {DType::kUInt64, DType::kUInt64},       {DType::kInt32, DType::kInt8},
    {DType::kInt32, DType::kInt16},         {DType::kInt32, DType::kInt32},
    {DType::kInt64, DType::kInt64},         {DType::kInt32, DType::kFloat32},
    {DType::kInt32, DType::kFloat16},       {DType::kInt32, DType::kBFloat16},
};

std::uint64_t variant_bits(Types types) {
  return plan::KeyBuilder()
      .field("sum", types.sum, plan::kDTypeBits)
      .field("c", types.c, plan::kDTypeBits)
      .key();
}

jit::KernelSpec spec_of(Types types, bool warp) {
  jit::KernelSpec spec;
  spec.kernel = warp ? kFinishWarpKernel : kFinishKernel;
  spec.variant = variant_bits(types);
  spec.file = "matmul/finish.cuh";
  spec.op = "matmul";
  spec.expression = cat(warp ? "gpk::matmul_finish_warp_kernel<" : "gpk::matmul_finish_kernel<",
                        info(types.sum).cuda_name, ", ", info(types.c).cuda_name, ">");
  return spec;
}

// How many sums a thread takes: FinishMath::kVec of the kernel.
std::int64_t sums_per_thread(DType sum) { return sum == DType::kFloat32 ? 4 : 1; }

bool stores_groups(const MatmulProblem& p, const MatmulDesc& desc, std::int64_t vec) {
  const auto group = static_cast<std::int64_t>(itemsize(desc.dtype_c)) * vec;
  return p.n % vec == 0 && p.c_n == 1 && group <= desc.align_c;
}

}  // namespace

Array make_partial(const MatmulDesc& desc, std::int64_t splits, Device device, const char* op) {
  const MatmulProblem& p = desc.problem;
  return Array::empty({splits * p.num_batches() * p.m * p.n}, desc.dtype_acc, device, op);
}

void launch_finish(const GemmCall& call, const MatmulDesc& desc, const Array& partial,
                   std::int64_t splits, bool transpose) {
  Context& context = Context::get(call.c.device().index);
  const Types types = types_of(desc);
  const MatmulProblem& problem = desc.problem;
  const std::int64_t results = problem.num_batches() * problem.m * problem.n;
  const bool warp = splits >= kWarpFinish && results <= kFewResults;
  const Kernel& k = kernel(
      context, {Family::matmul, warp ? kFinishWarpKernel : kFinishKernel, variant_bits(types)},
      [&] { return spec_of(types, warp); });
  const MatmulProblem p = transpose ? transposed(problem) : problem;
  MatmulArgs args = make_matmul_args(p, splits, 0);
  args.c = address(call.c);
  args.partial = address(partial);
  EpilogueArgs epilogue = make_epilogue_args(call, desc.steps);
  unsigned flags = desc.epilogue;
  int swap = transpose ? 1 : 0;
  const auto arrays = arrays_of(call, &partial);
  if (warp) {
    void* params[] = {&args, &epilogue, &flags, &swap};
    submit(k, grid_1d(args.num_batches * p.m * p.n, kThreads / 32, kThreads), arrays, params);
    return;
  }
  const std::int64_t vec = sums_per_thread(desc.dtype_acc);
  int vector_load = p.n % vec == 0 ? 1 : 0;
  int vector_store = stores_groups(p, desc, vec) ? 1 : 0;
  const std::int64_t groups = ceil_div(p.n, vec);
  LaunchConfig config;
  config.block[0] = static_cast<unsigned>(
      std::min<std::uint64_t>(kThreads, std::bit_ceil(static_cast<std::uint64_t>(groups))));
  config.block[1] = kThreads / config.block[0];
  config.grid[0] = static_cast<unsigned>(ceil_div(groups, config.block[0]));
  const std::int64_t rows = args.num_batches * p.m;
  config.grid[1] = static_cast<unsigned>(std::min(kMaxGridY, ceil_div(rows, config.block[1])));
  void* params[] = {&args, &epilogue, &flags, &swap, &vector_load, &vector_store};
  submit(k, config, arrays, params);
}

void enumerate_finish(std::vector<jit::KernelSpec>& specs) {
  for (const Types& types : kTypes)
    for (const bool warp : {false, true}) specs.push_back(spec_of(types, warp));
}

}  // namespace gpk::ops::gemm

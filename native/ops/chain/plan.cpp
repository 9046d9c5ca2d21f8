#include "ops/chain/plan.h"

#include <algorithm>

#include "base/round_up.h"
#include "base/text.h"
#include "ops/op.h"
#include "plan/key_builder.h"

namespace gpk::ops::chain {
namespace {

constexpr std::int64_t kStaticBytes = 1024;  // what the kernel declares itself
constexpr int kMinStages = 2;
constexpr int kMaxStages = 8;
// SM 120 has neither the registers nor the shared memory.
constexpr int kSms[] = {90, 100};
constexpr int kDims[] = {32, 64, 96, 128};

// Behind the ring and the rows: sums of both halves, three phases.
constexpr std::int64_t kFixedBytes =
    std::int64_t{2} * kernels::kChainWarps * kernels::kChainRows * kernels::kChainSumPitch * 4 +
    3 * std::int64_t{sizeof(kernels::ChainPhase)};
constexpr std::int64_t kBarrierBytes = 16;  // of a stage: full, free

std::int64_t aligned(std::int64_t bytes) { return round_up(bytes, 128); }

const char* kv_name(const Variant& v) {
  return v.kv_dtype == v.dtype ? info(v.dtype).cuda_name : "gpk::float8_e4m3fn";
}

}  // namespace

ChainPlan plan_chain(const Recording& r, const plan::Machine& machine) {
  if (!std::ranges::count(kSms, machine.sm))
    Recorder::refuse(cat("sm_", machine.sm, ": chains need SM 90 or 100"));
  if (r.phases.empty() || r.stage_bytes == 0) Recorder::refuse("no linear layers");
  ChainPlan plan;
  plan.variant.dtype = *r.dtype;
  plan.variant.kv_dtype = r.kv_dtype.value_or(*r.dtype);
  plan.variant.dim = r.dim.value_or(plan.variant.dim);
  if (std::find(std::begin(kDims), std::end(kDims), plan.variant.dim) == std::end(kDims))
    Recorder::refuse(cat("heads of ", plan.variant.dim, ", expected 32, 64, 96 or 128"));
  const std::int64_t stage = aligned(r.stage_bytes);
  const std::int64_t rows = aligned(r.row_bytes);
  const std::int64_t tables =
      r.tables.lengths == nullptr
          ? 0
          : aligned(r.tables.rows * (3 + std::int64_t{r.tables.blocks_row}) * 4);
  const std::int64_t room =
      static_cast<std::int64_t>(machine.shared_bytes) - kStaticBytes - kFixedBytes - rows - tables;
  const std::int64_t stages = std::min<std::int64_t>(room / (stage + kBarrierBytes), kMaxStages);
  if (stages < kMinStages)
    Recorder::refuse(cat(rows, " bytes of rows leave no shared memory for weights"));
  plan.stages = static_cast<int>(stages);
  plan.stage_bytes = static_cast<int>(stage);
  plan.row_bytes = static_cast<int>(rows);
  plan.table_bytes = static_cast<int>(tables);
  plan.shared_bytes =
      static_cast<std::size_t>(stages * (stage + kBarrierBytes) + rows + kFixedBytes + tables);
  return plan;
}

std::uint64_t chain_key(const Variant& v) {
  return plan::KeyBuilder()
      .field("dtype", v.dtype, plan::kDTypeBits)
      .field("kv_dtype", v.kv_dtype, plan::kDTypeBits)
      .field("dim / 32", v.dim / 32, 4)
      .key();
}

jit::KernelSpec chain_spec(const Variant& v) {
  jit::KernelSpec spec;
  spec.file = "chain/chain.cuh";
  spec.op = "chain";
  spec.variant = chain_key(v);
  spec.exact_sms.assign(std::begin(kSms), std::end(kSms));
  spec.bundled = v.kv_dtype == v.dtype && v.dim % 64 == 0;
  spec.expression =
      cat("gpk::chain_kernel<", info(v.dtype).cuda_name, ", ", kv_name(v), ", ", v.dim, ">");
  return spec;
}

std::string to_string(const ChainPlan& plan) {
  return cat(name(plan.variant.dtype), ", heads of ", plan.variant.dim, ", ", plan.stages,
             " stages of ", plan.stage_bytes, " bytes, ", plan.row_bytes, " bytes of rows");
}

}  // namespace gpk::ops::chain

namespace gpk::ops {

void enumerate_chain(std::vector<jit::KernelSpec>& specs) {
  constexpr DType e4m3 = DType::kFloat8E4M3FN;
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16})
    for (const int dim : chain::kDims)
      for (const DType kv : {dtype, e4m3}) specs.push_back(chain::chain_spec({dtype, kv, dim}));
}

}  // namespace gpk::ops

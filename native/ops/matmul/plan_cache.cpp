#include "ops/matmul/plan_cache.h"

#include "core/context.h"
#include "ops/matmul/decision.h"

namespace gpk::ops::gemm {
namespace {

constexpr int kMaxRank = 6;  // of what fits into a GemmKey

template <class T>
std::uint64_t bits(T x) {
  return static_cast<std::uint64_t>(x);
}

// All of an address that a plan depends on.
std::uint64_t low(const Array& array) { return array.device_ptr() & 15u; }

void add_strides(GemmKey& key, const Array& array) {
  for (int d = 0; d < array.ndim(); ++d) key.add(bits(array.strides()[d]));
}

std::uint64_t quantization_bits(const Quantization& q) {
  return bits(q.layout) | bits(q.packing) << 8 | bits(q.block) << 16 |
         bits(q.zero_points.has_value()) << 24 |
         bits(q.scales ? q.scales->dtype() : DType::kFloat32) << 25;
}

// Everything a desc is made from. False where there is no room: very many dimensions.
bool set_key(GemmKey& key, const GemmCall& call, const Context& context) {
  const Epilogue& e = call.epilogue;
  const int rank = call.c.ndim();
  if (rank > kMaxRank) return false;
  const bool quantized = call.quant_a.layout != plan::ScaleLayout::kNone ||
                         call.quant_b.layout != plan::ScaleLayout::kNone ||
                         call.quant_a.packing != plan::Packing::kNone ||
                         call.quant_b.packing != plan::Packing::kNone;
  key.add(bits(reinterpret_cast<std::uintptr_t>(&context)));
  key.add(bits(call.a.dtype()) | bits(call.b.dtype()) << 8 | bits(call.c.dtype()) << 16 |
          bits(rank) << 24 | bits(epilogue_flags(call)) << 32 | bits(call.conjugate) << 48 |
          bits(call.tf32) << 49 | bits(call.batch_invariant) << 50 | bits(call.fast_accum) << 51 |
          bits(quantized) << 52 | bits(call.groups.kind) << 53 | bits(call.few_rows) << 57 |
          bits(call.gated) << 58 | bits(call.norm.has_value()) << 59 | bits(call.tf32x3) << 60 |
          bits(call.float64_int8) << 61);
  key.add(low(call.a) | low(call.b) << 4 | low(call.c) << 8);
  for (int d = 0; d < rank; ++d) key.add(bits(call.c.shape()[d]));
  key.add(bits(call.a.shape()[rank - 1]));
  for (const Array* x : {&call.a, &call.b, &call.c}) add_strides(key, *x);
  if (quantized) key.add(quantization_bits(call.quant_a) | quantization_bits(call.quant_b) << 32);
  if (call.groups.kind != GroupKind::kNone)
    key.add(bits(call.b.shape()[0]) << 1 | bits(call.groups.device.has_value()));
  for (const auto* x : {&call.quant_a.scales, &call.quant_b.scales, &e.bias, &e.residual}) {
    if (!*x) continue;
    if ((*x)->ndim() > kMaxRank) return false;
    key.add(bits((*x)->size()) << 16 | bits((*x)->ndim()) << 8 | low(**x));
    add_strides(key, **x);
  }
  return true;
}

std::shared_ptr<const PlannedGemm> make_planned(const GemmCall& call, const Context& context,
                                                const char* op) {
  auto result = std::make_shared<PlannedGemm>();
  result->desc = make_desc(call, &result->fit);
  if (result->fit == DescFit::kFits)
    result->plan = decide_plan(result->desc, gemm_machine_of(context), op).plan;
  return result;
}

}  // namespace

std::shared_ptr<const PlannedGemm> planned(const GemmCall& call, Context& context, const char* op) {
  GemmKey key;
  const bool has_key = set_key(key, call, context);
  if (has_key) [[likely]]
    if (auto found = GemmPlans::find(key)) [[likely]]
      return found;
  if (GemmRecorder::record(call)) return nullptr;
  const auto make = [&] { return make_planned(call, context, op); };
  return has_key ? GemmPlans::make(key, make) : make();
}

}  // namespace gpk::ops::gemm

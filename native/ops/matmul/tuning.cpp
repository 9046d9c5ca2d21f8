#include "ops/matmul/tuning.h"

#include <charconv>

#include "base/text.h"
#include "ops/matmul/plan_cache.h"

namespace gpk::ops::gemm {
namespace {

std::optional<MatmulEngine> engine_named(std::string_view text) {
#define GPK_ENGINE(name) \
  if (text == #name) return MatmulEngine::name;
#include "ops/matmul/engines.def"
#undef GPK_ENGINE
  return std::nullopt;
}

template <class T>
bool read_number(std::string_view& rest, T& out) {
  const std::string_view field = plan::next_field(rest, ' ');
  const auto [end, problem] = std::from_chars(field.data(), field.data() + field.size(), out);
  return problem == std::errc() && end == field.data() + field.size();
}

bool is_plan(std::string_view fields) {
  MatmulPlan plan;
  return read_plan(fields, plan);
}

}  // namespace

plan::TuningStore& tuning_store() {
  static auto* instance = new plan::TuningStore("matmul", is_plan);
  return *instance;
}

std::string tuning_key(const MatmulDesc& desc, const GemmMachine& machine) {
  return cat("sm_", machine.sm, " ", machine.sms, " ", to_string(desc));
}

std::string plan_fields(const MatmulPlan& p) {
  return cat(name(p.engine), " ", static_cast<int>(p.kernel), " ", static_cast<int>(p.transpose),
             " ", static_cast<int>(p.fused), " ", p.tile_m, " ", p.tile_n, " ", p.tile_k, " ",
             p.stages, " ", p.cluster, " ", p.group, " ", p.splits, " ", p.k_per_split);
}

bool read_plan(std::string_view rest, MatmulPlan& plan) {
  const auto engine = engine_named(plan::next_field(rest, ' '));
  if (!engine) return false;
  plan.engine = *engine;
  int transpose = 0, fused = 0;
  const bool ok = read_number(rest, plan.kernel) && read_number(rest, transpose) &&
                  read_number(rest, fused) && read_number(rest, plan.tile_m) &&
                  read_number(rest, plan.tile_n) && read_number(rest, plan.tile_k) &&
                  read_number(rest, plan.stages) && read_number(rest, plan.cluster) &&
                  read_number(rest, plan.group) && read_number(rest, plan.splits) &&
                  read_number(rest, plan.k_per_split) && rest.empty();
  plan.transpose = transpose != 0;
  plan.fused = fused != 0;
  return ok;
}

std::optional<TunedPlan> find_tuned(const MatmulDesc& desc, const GemmMachine& machine) {
  if (tuning_store().empty()) return std::nullopt;
  const auto text = tuning_store().find(tuning_key(desc, machine));
  if (!text) return std::nullopt;
  TunedPlan tuned{{}, text->us, text->native_us};
  read_plan(text->plan, tuned.plan);
  tuned.plan.predicted_us = static_cast<float>(tuned.us);
  return tuned;
}

void store_tuned(const MatmulDesc& desc, const GemmMachine& machine, const TunedPlan& tuned) {
  tuning_store().store(tuning_key(desc, machine),
                       {plan_fields(tuned.plan), tuned.us, tuned.native_us});
  GemmPlans::forget();
}

std::size_t clear_tuned(bool file) {
  const std::size_t count = tuning_store().clear(file);
  GemmPlans::forget();
  return count;
}

}  // namespace gpk::ops::gemm

// GEMM plans that were measured on this machine (plan/tuning_store.h).
#pragma once

#include <optional>
#include <string>

#include "ops/matmul/plan.h"
#include "plan/tuning_store.h"

namespace gpk::ops::gemm {

struct TunedPlan {
  MatmulPlan plan;
  double us = 0.0;         // measured
  double native_us = 0.0;  // the best of our own kernels; 0: none was measured
};

// The family's store, and its words: what a measurement is good for, a plan as a line of fields.
plan::TuningStore& tuning_store();
std::string tuning_key(const MatmulDesc& desc, const GemmMachine& machine);
std::string plan_fields(const MatmulPlan& plan);
bool read_plan(std::string_view fields, MatmulPlan& plan);

std::optional<TunedPlan> find_tuned(const MatmulDesc& desc, const GemmMachine& machine);
// Remembers a choice and forgets plans made without it.
void store_tuned(const MatmulDesc& desc, const GemmMachine& machine, const TunedPlan& tuned);
// Forgets all of them; with `file` also on disk. Returns how many there were.
std::size_t clear_tuned(bool file);

}  // namespace gpk::ops::gemm

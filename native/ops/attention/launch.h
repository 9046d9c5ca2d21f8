// From a plan to a launch.
#pragma once

#include <optional>
#include <vector>

#include "core/array.h"
#include "jit/builtin.h"
#include "kernels/args/attention.h"
#include "ops/attention/plan.h"

namespace gpk::ops::attention {

// Checked arguments: four dimensions each (packed and paged ones too), contiguous along the last.
struct AttentionCall {
  AttentionDesc desc;
  Array q, k, v, out;
  std::optional<Array> mask = {};  // [batch, heads, q_len, kv_len], by strides
  std::optional<Array> bias = {};
  std::optional<Array> sinks = {};
  std::optional<Array> lengths = {};
  std::optional<Array> q_starts = {};
  std::optional<Array> k_starts = {};
  std::optional<Array> blocks = {};
  std::int64_t left = 0;  // keys before its own that a query sees
  std::int64_t right = 0;
  double scale = 1.0;
  double softcap = 0.0;
  double v_scale = 1.0;
};

void launch_attention(const AttentionCall& call, const AttentionPlan& plan);

// The part of the arguments that does not depend on the plan.
kernels::AttentionArgs args_of(const AttentionCall& call);

// Gives 8-bit keys and values q's dtype, in new arrays; of pages those that `next`, the plan of the
// wide call, loads.
void widen_cache(AttentionCall& call, const AttentionPlan& next);
void enumerate_widening(std::vector<jit::KernelSpec>& specs);

}  // namespace gpk::ops::attention

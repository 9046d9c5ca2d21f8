#include "ops/matmul/tuner.h"

#include <algorithm>

#include "base/error.h"
#include "core/context.h"
#include "core/graph.h"
#include "ops/elementwise/copy.h"
#include "ops/matmul/decision.h"
#include "ops/matmul/engine_cublaslt.h"
#include "ops/matmul/formats.h"
#include "plan/measure.h"

namespace gpk::ops::gemm {
namespace {

constexpr std::size_t kMaxCopies = 8;
constexpr double kMargin = 0.99;

bool is_native(const MatmulPlan& plan) { return plan.engine != MatmulEngine::cublaslt; }

// The same values and strides in memory of its own.
Array moved(const Array& x, const char* op) {
  std::int64_t extent = 1;
  for (int d = 0; d < x.ndim(); ++d) extent += (x.shape()[d] - 1) * x.strides()[d];
  const Array room = Array::empty({extent}, x.dtype(), x.device(), op);
  copy_into(room, Array({extent}, {1}, x.dtype(), x.buffer(), x.offset_elems()), op);
  return Array(x.shape(), x.strides(), x.dtype(), room.buffer(), room.offset_elems());
}

bool can_move(const Array& x) {
  return x.size() > 0 && std::all_of(x.strides().begin(), x.strides().end(),
                                     [](std::int64_t step) { return step >= 0; });
}

// As many copies as it takes for the next one not to find its operands in the L2: layers of a model
// do not either. Their result is not the call's own, which a residual may be read from.
std::vector<GemmCall> copies_of(const GemmCall& call, const MatmulDesc& desc,
                                const GemmMachine& machine, const char* op) {
  std::vector<GemmCall> copies{call};
  if (can_move(call.c)) copies[0].c = moved(call.c, op);
  if (!can_move(call.a) || !can_move(call.b)) return copies;
  const double each = std::max(bytes_once(desc), 1.0);
  const double wanted = 2.0 * static_cast<double>(machine.l2_bytes) / each;
  try {
    while (copies.size() < kMaxCopies && static_cast<double>(copies.size()) < wanted) {
      GemmCall next = copies[0];
      next.a = moved(call.a, op);
      next.b = moved(call.b, op);
      copies.push_back(std::move(next));
    }
  } catch (const OutOfMemory&) {  // fewer, then
  }
  return copies;
}

std::vector<MeasuredPlan> measured(const std::vector<MatmulPlan>& plans,
                                   const std::vector<GemmCall>& calls, const MatmulDesc& desc,
                                   const char* op) {
  std::vector<plan::Trial> trials;
  for (const MatmulPlan& plan : plans)
    trials.push_back(
        {plan.predicted_us,
         [&](std::size_t run) { launch_plan(calls[run % calls.size()], desc, plan, op); },
         [&] { return !cublaslt_refused(desc, plan); }});
  plan::measure(trials, calls.size(), calls[0].c.device());
  std::vector<MeasuredPlan> result;
  for (std::size_t i = 0; i < plans.size(); ++i)
    if (trials[i].usable()) result.push_back({plans[i], trials[i].us});
  return result;
}

}  // namespace

std::vector<MeasuredPlan> tune_gemm(const GemmCall& call, const char* op) {
  forbid_in_capture(op, "it measures");
  const GemmMachine machine = gemm_machine_of(Context::get(call.c.device().index));
  DescFit fit = DescFit::kFits;
  const MatmulDesc desc = make_desc(call, &fit);
  if (fit != DescFit::kFits) return {};
  check_formats(desc, op);
  std::vector<MatmulPlan> candidates = all_candidates(desc, machine);
  plan::keep_promising(candidates, [](const MatmulPlan& plan) { return !is_native(plan); });
  std::vector<MeasuredPlan> plans =
      measured(candidates, copies_of(call, desc, machine, op), desc, op);
  std::stable_sort(plans.begin(), plans.end(),
                   [](const MeasuredPlan& x, const MeasuredPlan& y) { return x.us < y.us; });
  const auto native = std::find_if(plans.begin(), plans.end(),
                                   [](const MeasuredPlan& one) { return is_native(one.plan); });
  const bool keep_native = native != plans.end() && native->us * kMargin <= plans.front().us;
  const MeasuredPlan& best = keep_native ? *native : plans.front();
  store_tuned(desc, machine, {best.plan, best.us, native == plans.end() ? 0.0 : native->us});
  launch_plan(call, desc, best.plan, op);
  return plans;
}

}  // namespace gpk::ops::gemm

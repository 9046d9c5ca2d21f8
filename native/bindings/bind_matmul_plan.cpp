// GEMM planning: explain and tune.
#include "base/error.h"
#include "base/text.h"
#include "bindings/bind.h"
#include "core/context.h"
#include "ops/matmul/cublaslt.h"
#include "ops/matmul/explain.h"
#include "ops/matmul/tuner.h"

namespace gpk::bind {
namespace {

namespace gemm = ops::gemm;

constexpr int kPretendedSm = 90;

std::vector<gemm::GemmCall> calls_of(const py::function& call, const char* op) {
  std::vector<gemm::GemmCall> calls;
  {
    const gemm::GemmRecorder recorder(calls);
    call();
  }
  if (calls.empty())
    throw InvalidArgument(cat(op, ": the call has no GEMM to plan: its result is empty"));
  return calls;
}

py::dict plan_dict(const gemm::MatmulPlan& plan) {
  py::dict d;
  d["text"] = to_string(plan);
  d["engine"] = name(plan.engine);
  d["kernel"] = static_cast<int>(plan.kernel);
  d["transpose"] = plan.transpose;
  d["fused"] = plan.fused;
  d["tile"] = py::make_tuple(plan.tile_m, plan.tile_n, plan.tile_k);
  d["stages"] = plan.stages;
  d["cluster"] = plan.cluster;
  d["group"] = plan.group;
  d["splits"] = plan.splits;
  d["k_per_split"] = plan.k_per_split;
  d["predicted_us"] = plan.predicted_us;
  return d;
}

py::dict explanation_dict(const gemm::MatmulExplanation& explanation) {
  py::dict d;
  d["text"] = explanation.text;
  d["product"] = to_string(explanation.desc);
  if (explanation.fit != gemm::DescFit::kFits) {
    d["choice"] = py::none();
    d["candidates"] = py::list();
    d["reason"] = "copies";
    return d;
  }
  py::list candidates;
  for (const gemm::MatmulPlan& plan : explanation.decision.plans)
    candidates.append(plan_dict(plan));
  d["choice"] = plan_dict(explanation.decision.plan);
  d["candidates"] = candidates;
  d["reason"] = name(explanation.decision.reason);
  return d;
}

// A GPU that need not be present.
gemm::GemmMachine pretended(int sm) {
  gemm::GemmMachine machine;
  machine.sm = sm;
  machine.jit = jit::jit_available();
  machine.policy = Config::get().matmul;
  if (sm < 90) machine.shared_bytes = sm == 80 ? 166912 : 101376;
  return machine;
}

py::list explain_products(const py::function& call, std::optional<int> sm, bool every_plan) {
  if (sm && *sm < kMinSm)
    throw InvalidArgument(
        cat("explain_matmul: sm is ", *sm, ", expected a compute capability of at least ", kMinSm));
  py::list result;
  for (const gemm::GemmCall& one : calls_of(call, "explain_matmul")) {
    gemm::MatmulExplanation explanation;
    {
      const WithoutGil released;
      std::optional<gemm::GemmMachine> machine;
      if (sm || !one.c.device().is_cuda()) machine = pretended(sm.value_or(kPretendedSm));
      if (every_plan) {
        if (!machine) machine = gemm::gemm_machine_of(Context::get(one.c.device().index));
        machine->every_plan = true;
      }
      explanation = explain_gemm(one, machine);
    }
    result.append(explanation_dict(explanation));
  }
  return result;
}

py::list tune_products(const py::function& call) {
  py::list result;
  for (const gemm::GemmCall& one : calls_of(call, "tune_matmul")) {
    if (!one.c.device().is_cuda())
      throw InvalidArgument("tune_matmul: the arrays are on the CPU, expected a GPU");
    std::vector<gemm::MeasuredPlan> measured;
    {
      const WithoutGil released;
      measured = gemm::tune_gemm(one, "tune_matmul");
    }
    py::list plans;
    for (const gemm::MeasuredPlan& each : measured)
      plans.append(py::make_tuple(to_string(each.plan), each.us));
    result.append(plans);
  }
  return result;
}

py::object with_plan(const py::function& call, std::string prefix) {
  const gemm::ForcedPlan forced(std::move(prefix));
  return call();
}

py::dict cublaslt_info() {
  const gemm::CublasLtSearch* search = nullptr;
  {
    const WithoutGil released;
    search = &gemm::find_cublaslt();
  }
  py::dict d;
  d["available"] = search->library != nullptr;
  d["version"] = search->library != nullptr ? search->library->version : 0;
  d["path"] = search->library != nullptr ? search->library->path : "";
  d["tried"] = search->tried;
  return d;
}

}  // namespace

void bind_matmul_plan(py::module_& m) {
  m.def("explain_products", explain_products, py::arg("call"), py::arg("sm") = py::none(),
        py::arg("every_plan") = false,
        "The plan of each GEMM of a call; nothing is computed. every_plan: candidates are all that "
        "could run, not only the most promising.");
  m.def("tune_products", tune_products, py::arg("call"),
        "Measures every plan of each GEMM of a call: (plan, microseconds), fastest first.");
  m.def("with_matmul_plan", with_plan, py::arg("call"), py::arg("prefix"),
        "Runs a call; its GEMMs use the first plan whose text starts with `prefix`.");
  m.def("clear_matmul_tuning", &gemm::clear_tuned, py::arg("file") = true,
        "Drops measured choices; returns how many there were.");
  m.def(
      "matmul_tuning_path", [] { return gemm::tuning_store().path(); },
      "The file they are kept in; empty: none.");
  m.def("cublaslt_info", cublaslt_info, "Whether cuBLASLt was found, where, and what was tried.");
}

}  // namespace gpk::bind

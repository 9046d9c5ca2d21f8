#include "ops/matmul/engine_cublaslt.h"

#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "core/context.h"
#include "core/graph.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/nvtx.h"
#include "core/promote.h"
#include "device/launch_gate.h"
#include "ops/matmul/cublaslt_operation.h"
#include "ops/matmul/formats.h"
#include "ops/matmul/plan_cache.h"
#include "ops/submit.h"
#include "plan/thread_cache.h"

namespace gpk::ops::gemm {
namespace {

constexpr const char* kName = "cublasLtMatmul";

using plan::is_fp8;
bool is_half(DType dtype) { return dtype == DType::kFloat16 || dtype == DType::kBFloat16; }

bool is_unscaled_or_tensor(const plan::OperandFormat& format) {
  return format.scales <= plan::ScaleLayout::kTensor;
}

bool layouts_fit(const MatmulDesc& d) {
  const MatmulProblem& p = d.problem;
  const bool a_rows = p.a_k == 1 && p.a_m >= p.k, a_columns = p.a_m == 1 && p.a_k >= p.m;
  const bool b_rows = p.b_n == 1 && p.b_k >= p.n, b_columns = p.b_k == 1 && p.b_n >= p.k;
  if (!(a_rows || a_columns) || !(b_rows || b_columns) || p.c_n != 1 || p.c_m < p.n) return false;
  if (p.batch_shape.size() > 1) return false;
  if (!p.batch_shape.empty() && (p.batch_a[0] < 0 || p.batch_b[0] < 0 || p.batch_c[0] <= 0 ||
                                 p.batch_shape[0] > (std::int64_t{1} << 30)))
    return false;
  if (!is_fp8(d.a.dtype) && d.a.dtype != DType::kInt8) return true;
  // Narrow types must be K-major, in groups of 16 bytes.
  const std::int64_t group = is_fp8(d.a.dtype) ? 16 : 4;
  return a_rows && b_columns && p.m % group == 0 && p.n % group == 0 && p.k % group == 0 &&
         d.align_a == 16 && d.align_b == 16 && d.align_c == 16;
}

// The same order of steps: alpha and scales, bias, activation; nothing after it.
bool epilogue_fits(const MatmulDesc& d, bool transposed) {
  if (d.epilogue == 0) return true;
  const bool floats = is_half(d.dtype_c) || d.dtype_c == DType::kFloat32;
  if (!floats || d.dtype_acc != DType::kFloat32 || (d.epilogue & kEpilogueResidual) != 0)
    return false;
  const Activation activation = activation_of(d.epilogue);
  if (activation == Activation::kSilu || activation == Activation::kGeluErf) return false;
  const bool bias = (d.epilogue & kEpilogueBias) != 0;
  if (!bias && activation == Activation::kNone) return true;
  if (!d.problem.batch_shape.empty()) return false;
  if (bias && (transposed || d.steps.bias != 1 || d.align_bias != 16)) return false;
  return !(bias && is_fp8(d.a.dtype) && d.dtype_c == DType::kFloat32);  // theirs is bfloat16 there
}

struct Oriented {
  bool transpose = false;
  MatmulDesc desc;
};

Oriented orient(const MatmulDesc& desc) {
  const bool transpose = !desc.c_n_major() && desc.c_m_major();
  return {transpose, transpose ? transposed(desc) : desc};
}

// Handles, one per library and GPU; they live as long as the process. nullptr: the library does not
// go with the driver or the GPU.
LtHandle handle_for(const CublasLt& library, Context& context) {
  struct Handles {
    std::mutex mutex;
    std::map<std::pair<const CublasLt*, Context*>, LtHandle> handles;
  };
  static auto* all = new Handles;
  const std::lock_guard lock(all->mutex);
  const auto [at, is_new] = all->handles.try_emplace({&library, &context}, nullptr);
  if (is_new) {
    context.make_current();
    if (const int status = library.api.cublasLtCreate(&at->second); status != kLtSuccess) {
      at->second = nullptr;
      log_message(LogLevel::kWarning, cat("matmul: cuBLASLt cannot be used here, cublasLtCreate "
                                          "failed with status ",
                                          status, " (", library.path, ")"));
    }
  }
  return at->second;
}

struct OperationKey {
  const CublasLt* library = nullptr;
  const Context* context = nullptr;
  MatmulDesc desc;

  [[nodiscard]] unsigned hash() const noexcept {
    const MatmulProblem& p = desc.problem;
    std::uint64_t mixed = 0;
    for (const std::int64_t word :
         {p.m, p.n, p.k, p.a_m, p.b_k, p.c_m, static_cast<std::int64_t>(desc.epilogue),
          static_cast<std::int64_t>(desc.a.dtype)})
      mixed = plan::mix(mixed, static_cast<std::uint64_t>(word));
    return static_cast<unsigned>(mixed >> 40);
  }
  friend bool operator==(const OperationKey&, const OperationKey&) = default;
};

// nullptr where the library cannot be used at all.
LtOperationPlan* operation_for(const CublasLt& library, Context& context, const MatmulDesc& desc,
                               const GemmCall& call) {
  thread_local plan::ThreadCache<OperationKey, std::unique_ptr<LtOperationPlan>> operations;
  const OperationKey key{&library, &context, desc};
  if (const auto* found = operations.find(key); found != nullptr) return found->get();
  LtHandle handle = handle_for(library, context);
  if (handle == nullptr) return nullptr;
  return operations.put(key, std::make_unique<LtOperationPlan>(library, handle, desc, call)).get();
}

struct Refusals {
  std::mutex mutex;
  std::set<std::string> descs;
};
Refusals& refusals() {
  static auto* instance = new Refusals;
  return *instance;
}

// True when the work was submitted. Where the library cannot, nothing was.
bool run(const GemmCall& call, const Oriented& oriented, const char* op) {
  const CublasLt* library = find_cublaslt().library;
  if (library == nullptr) return false;
  Context& context = Context::get(call.c.device().index);
  context.make_current();
  // The library loads code on first use, which a capture would refuse.
  std::optional<RelaxedCaptureScope> relaxed;
  if (capturing_graph() != nullptr) relaxed.emplace();
  LtOperationPlan* operation = operation_for(*library, context, oriented.desc, call);
  if (operation == nullptr || operation->status() != kLtSuccess) return false;
  std::optional<Array> workspace;
  if (operation->workspace_bytes() > 0)
    workspace = Array::empty({static_cast<std::int64_t>(operation->workspace_bytes())},
                             DType::kUInt8, call.c.device(), op);
  const auto arrays = arrays_of(call, workspace ? &*workspace : nullptr);
  const Submission submission(kName, arrays);
  GatedWork work(*submission.stream());
  const nvtx::Range range(kName);
  const unsigned one[3] = {1, 1, 1};
  context.note_launch(kName, one, one, submission.stream()->handle());
  const Array& a = oriented.transpose ? call.b : call.a;
  const Array& b = oriented.transpose ? call.a : call.b;
  const int status =
      operation->run(call, a.device_ptr(), b.device_ptr(), workspace ? workspace->device_ptr() : 0,
                     submission.stream()->handle());
  if (status == kLtNotSupported || status == kLtInvalidValue || status == kLtArchMismatch)
    return false;
  if (status != kLtSuccess)
    throw Error(cat(op, ": cublasLtMatmul failed with status ", status, " (", library->path, ")"));
  work.submitted();
  return true;
}

}  // namespace

bool takes_cublaslt(const MatmulDesc& d) {
  if (!is_dense(d) || !takes_result(d)) return false;
  if (is_fp8(d.a.dtype))
    return is_unscaled_or_tensor(d.a) && is_unscaled_or_tensor(d.b) && is_fp8(d.b.dtype) &&
           (d.a.dtype == DType::kFloat8E4M3FN || d.b.dtype == DType::kFloat8E4M3FN);
  if (d.a.dtype != d.b.dtype || !d.a.is_plain() || !d.b.is_plain()) return false;
  switch (d.a.dtype) {
    case DType::kInt8: return d.dtype_c == DType::kInt32;
    case DType::kFloat16:
    case DType::kBFloat16:
    case DType::kFloat32:
    case DType::kFloat64:
    case DType::kComplex64:
    case DType::kComplex128: return true;
    default: return false;
  }
}

bool cublaslt_can(const MatmulDesc& desc, int sm) {
  if (desc.conjugate || desc.batch_invariant || desc.problem.k == 0) return false;
  const Oriented oriented = orient(desc);
  if (!takes_cublaslt(desc) || (is_fp8(desc.a.dtype) && sm < 89)) return false;
  return layouts_fit(oriented.desc) && epilogue_fits(desc, oriented.transpose);
}

bool cublaslt_refused(const MatmulDesc& desc, const MatmulPlan& plan) {
  if (plan.engine != MatmulEngine::cublaslt) return false;
  const std::lock_guard lock(refusals().mutex);
  if (refusals().descs.empty()) return false;
  return refusals().descs.contains(to_string(plan.fused ? desc : raw_desc(desc)));
}

void propose_cublaslt(const MatmulDesc& desc, const GemmMachine& machine,
                      std::vector<MatmulPlan>& plans) {
  if (!machine.cublaslt || !cublaslt_can(desc, machine.sm)) return;
  MatmulPlan plan;
  plan.engine = MatmulEngine::cublaslt;
  plan.fused = true;
  plan.transpose = orient(desc).transpose;
  double rate = tensor_flops_per_us(machine, desc.a.dtype);
  if (desc.a.dtype == DType::kFloat32 && !desc.tf32) rate = 0.0;
  if (rate == 0.0) rate = simt_flops_per_us(machine);
  const double wide = desc.dtype_acc == DType::kFloat64 || desc.dtype_acc == DType::kComplex128
                          ? 1.0  // tensor cores, where there are any
                          : 0.7;
  plan.predicted_us = static_cast<float>(
      2.0 * kLaunchUs + std::max(flops(desc) / (rate * wide), 1.2 * operands_us(desc, machine)));
  plans.push_back(plan);
}

void launch_cublaslt(const GemmCall& call, const MatmulDesc& desc, const MatmulPlan& plan,
                     const char* op) {
  (void)plan;
  if (run(call, orient(desc), op)) return;
  {
    const std::lock_guard lock(refusals().mutex);
    if (refusals().descs.insert(to_string(desc)).second)
      log_message(LogLevel::kInfo, cat("cuBLASLt has no kernel for ", to_string(desc)));
  }
  GemmPlans::forget();
  const GemmMachine machine = gemm_machine_of(Context::get(call.c.device().index));
  launch_plan(call, desc, plan_matmul(desc, machine), op);
}

jit::KernelSpec spec_cublaslt(const MatmulDesc& desc, const MatmulPlan& plan) {
  (void)desc;
  (void)plan;
  return {};
}

void enumerate_cublaslt(std::vector<jit::KernelSpec>& specs) { (void)specs; }

}  // namespace gpk::ops::gemm

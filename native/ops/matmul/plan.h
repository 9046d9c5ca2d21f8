// Which kernel runs a GEMM, and how the work is divided.
#pragma once

#include <string>
#include <vector>

#include "jit/builtin.h"
#include "ops/matmul/desc.h"
#include "ops/matmul/gemm_cost.h"

namespace gpk::ops::gemm {

enum class MatmulEngine : std::uint8_t {
#define GPK_ENGINE(name) name,
#include "ops/matmul/engines.def"
#undef GPK_ENGINE
};
const char* name(MatmulEngine engine);

// What selects and launches a kernel.
struct MatmulChoice {
  MatmulEngine engine = MatmulEngine::general;
  std::uint8_t kernel = 0;  // the engine's own numbers
  bool transpose = false;   // computes C^T = B^T A^T
  bool fused = false;       // the engine applies the epilogue; without one: does not matter
  std::int32_t tile_m = 0, tile_n = 0, tile_k = 0;
  std::int32_t stages = 0;
  std::int32_t cluster = 1;
  std::int32_t group = 0;  // rasterisation: tiles are walked in groups of so many rows
  // Split-K: `splits` ranges of `k_per_split`; above one, partial sums are added in order.
  std::int64_t splits = 1;
  std::int64_t k_per_split = 0;
  friend bool operator==(const MatmulChoice&, const MatmulChoice&) = default;
};

// Plans are equal if their choices are.
struct MatmulPlan : MatmulChoice {
  float predicted_us = 0.0f;
};
std::string to_string(const MatmulPlan& plan);

// What each engine defines.
//   takes:     pure. Whether its kernels take the formats of `desc`: a, b, dtype_c, tf32 and
//              groups. Sizes, strides and the machine are for propose.
//   propose:   pure. Appends the plans it would run `desc` by, with predicted_us, or none. A desc
//              with an epilogue: only plans that apply it (fused). Common code asks again with
//              raw_desc(desc), and adds the pass that applies the epilogue.
//   launch:    on the current stream. Addresses are those of `call`, sizes and strides those of
//              `desc`: batches are joined there, and c may be a temporary of another shape.
//   spec:      the kernel that launch would load; one without a file where it loads none, or one
//              that is always there.
//   enumerate: every kernel that its plans can choose.
#define GPK_ENGINE(name)                                                                   \
  bool takes_##name(const MatmulDesc& desc);                                               \
  void propose_##name(const MatmulDesc& desc, const GemmMachine& machine,                  \
                      std::vector<MatmulPlan>& plans);                                     \
  void launch_##name(const GemmCall& call, const MatmulDesc& desc, const MatmulPlan& plan, \
                     const char* op);                                                      \
  jit::KernelSpec spec_##name(const MatmulDesc& desc, const MatmulPlan& plan);             \
  void enumerate_##name(std::vector<jit::KernelSpec>& specs);
#include "ops/matmul/engines.def"
#undef GPK_ENGINE

// The plan's kernel (the engine's, not that of the finish pass).
jit::KernelSpec plan_spec(const MatmulDesc& desc, const MatmulPlan& plan);

// Drops plans whose kernel cannot be loaded: without NVRTC there are only those in the bundle.
void keep_loadable(const MatmulDesc& desc, const GemmMachine& machine,
                   std::vector<MatmulPlan>& plans);

// All proposals for `desc`, those that need a pass for the epilogue (not fused) included; cheapest
// first, ties in the order of the engines. Pure. Empty only for formats that no engine takes. No
// dimension of desc.problem but k is 0.
std::vector<MatmulPlan> propose_matmul(const MatmulDesc& desc, const GemmMachine& machine);

// The one to run by the model: the first, but cuBLASLt's only where the policy asks for it, or
// where nothing else but the general engine proposed.
MatmulPlan choose_plan(const std::vector<MatmulPlan>& plans, MatmulPolicy policy);

// Both. What was measured is for decision.h.
MatmulPlan plan_matmul(const MatmulDesc& desc, const GemmMachine& machine);

void launch_plan(const GemmCall& call, const MatmulDesc& desc, const MatmulPlan& plan,
                 const char* op);

}  // namespace gpk::ops::gemm

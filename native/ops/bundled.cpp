// Which kernels are in the PTX bundle, and which of them are prefetched.
#include <algorithm>
#include <set>
#include <string_view>
#include <tuple>

#include "core/context.h"
#include "jit/sources.h"
#include "ops/matmul/typical.h"
#include "ops/op.h"

namespace gpk::ops {
namespace {

constexpr int kBaseSm = 80;
constexpr std::size_t kMaxPrefetchedProducts = 8;

// Architectures at which the code of a kernel changes (#if __CUDA_ARCH__ >= 900 in its files).
// Among the mma.sync kernels only the TF32 ones do.
std::set<int> arch_steps(const jit::KernelSpec& spec) {
  constexpr std::string_view kMacro = "__CUDA_ARCH__ >= ";
  std::set<int> steps{kBaseSm};
  if (spec.expression.starts_with("gpk::gemm_mma_kernel<") &&
      !spec.expression.starts_with("gpk::gemm_mma_kernel<float,"))
    return steps;
  for (const jit::EmbeddedSource* source : jit::embedded_closure(spec.file))
    for (std::size_t at = source->text.find(kMacro); at != std::string_view::npos;
         at = source->text.find(kMacro, at + 1))
      steps.insert(std::stoi(std::string(source->text.substr(at + kMacro.size(), 4))) / 10);
  return steps;
}

void enumerate(Family family, std::vector<jit::KernelSpec>& specs) {
  switch (family) {
#define GPK_FAMILY(name) \
  case Family::name: enumerate_##name(specs); break;
#include "ops/families.def"
#undef GPK_FAMILY
  }
}

}  // namespace

std::vector<BundledKernel> bundled_kernels() {
  std::vector<BundledKernel> kernels;
  std::set<std::tuple<std::string, std::string, int>> seen;
  const auto add = [&](const jit::KernelSpec& spec, int sm) {
    if (seen.emplace(spec.file, spec.expression, sm).second) kernels.push_back({spec, sm});
  };
  for (const jit::KernelSpec& spec : all_kernel_specs()) {
    if (!spec.bundled) continue;
    for (const int sm : spec.exact_sms) add(spec, sm);
    if (spec.exact_sms.empty())
      for (const int sm : arch_steps(spec)) add(spec, sm);
  }
  for (const plan::Machine& machine : plan::typical_machines())
    for (const jit::KernelSpec& spec : gemm::typical_kernels(machine)) {
      // The newest code path for the machine's architecture.
      const auto steps = arch_steps(spec);
      add(spec, spec.exact_sms.empty() ? *std::prev(steps.upper_bound(machine.sm)) : machine.sm);
    }
  return kernels;
}

std::vector<jit::KernelSpec> prefetch_list(Family family, Context& context) {
  std::vector<jit::KernelSpec> specs;
  if (family == Family::matmul) {
    specs = gemm::typical_kernels(plan::machine_of(context));
    specs.resize(std::min(specs.size(), kMaxPrefetchedProducts));
    return specs;
  }
  enumerate(family, specs);
  std::erase_if(specs, [](const jit::KernelSpec& spec) { return !spec.prefetched; });
  return specs;
}

}  // namespace gpk::ops

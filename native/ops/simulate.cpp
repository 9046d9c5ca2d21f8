#include "ops/simulate.h"

#include <vector>

#include "base/text.h"

namespace gpk::ops {

void SimulatedKernel::run(std::uint64_t variant, const jit::CompileRequest& request,
                          const LaunchConfig& config, std::span<const Array* const> arrays,
                          void** params) {
  std::shared_ptr<jit::HostKernel> kernel;
  {
    const std::lock_guard lock(mutex_);
    Variant& found = variants_[variant];
    if (!found.kernel) {
      found.program = jit::Program::build(request, {DeviceKind::kCpu, 0});
      found.kernel = found.program->host_kernel(request.name_expressions.front());
    }
    kernel = found.kernel;
  }
  std::vector<jit::HostRange> ranges;
  for (const Array* array : arrays) {
    if (array == nullptr) continue;
    ranges.push_back(
        {array->buffer()->data(), array->buffer()->bytes(),
         cat("an array (", gpk::name(array->dtype()), ' ', gpk::to_string(array->shape()), ')')});
  }
  kernel->run(config, ranges, params);
}

}  // namespace gpk::ops

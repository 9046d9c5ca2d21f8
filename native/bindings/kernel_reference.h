// Kernel calls on the CPU device, implemented by the Python function given as reference=.
#pragma once

#include <functional>

#include "bindings/kernel_call.h"

namespace gpk::bind {

// A call of the state's reference function with these values (borrowed). Throws GpuUnavailable when
// it has none.
std::function<void()> reference_call(const KernelState& state, PyObject* const* values);

// Runs it, or records it as a launch of the graph being captured.
void call_reference(const std::shared_ptr<KernelState>& state, PyObject* const* values,
                    const LaunchConfig& config);

// The CPU's counterpart of check_launch.
void check_on_cpu(const KernelState& state, const LaunchConfig& config);

}  // namespace gpk::bind

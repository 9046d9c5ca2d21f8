// Kernel calls on the CPU device: by the Python function given as reference=, else in the
// simulator.
#pragma once

#include <functional>

#include "bindings/kernel_call.h"

namespace gpk::bind {

// A call of the kernel with these values (borrowed), which it keeps alive. The function may be
// called with or without the GIL, any number of times. Throws what make_kernel_state kept as
// host_problem when there is neither a reference nor a simulator.
std::function<void()> host_call(const std::shared_ptr<KernelState>& state, PyObject* const* values,
                                const LaunchConfig& config);

// Runs it, or records it as a launch of the graph being captured.
void call_on_cpu(const std::shared_ptr<KernelState>& state, PyObject* const* values,
                 const LaunchConfig& config);

// The CPU's counterpart of check_launch.
void check_on_cpu(const KernelState& state, const LaunchConfig& config);

}  // namespace gpk::bind

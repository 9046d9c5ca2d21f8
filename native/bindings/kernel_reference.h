// Kernel calls on the CPU device: the Python function given as reference= stands in.
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

// What check_launch is on a GPU.
void check_on_cpu(const KernelState& state, const LaunchConfig& config);

}  // namespace gpk::bind

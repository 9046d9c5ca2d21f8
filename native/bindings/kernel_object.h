// JITKernel and BoundKernel as C-API types with vectorcall: a launch costs the argument conversion
// and the driver's call.
#pragma once

#include "bindings/kernel_call.h"

namespace gpk::bind {

// A JITKernel object around a state; new reference.
PyObject* make_kernel_object(std::shared_ptr<KernelState> state);

// Compiles `source` on the default device; `expressions` are the names to look up later.
std::shared_ptr<jit::Program> build_program(const std::string& source, const std::string& name,
                                            const std::vector<std::string>& options,
                                            const std::vector<std::string>& expressions);

}  // namespace gpk::bind

// JITKernel and BoundKernel as C-API types with vectorcall: a launch costs the argument conversion
// and the driver call.
#pragma once

#include "bindings/kernel_call.h"

namespace gpk::bind {

// A JITKernel object around a state; new reference.
PyObject* make_kernel_object(std::shared_ptr<KernelState> state);

// Compiles on the default device.
std::shared_ptr<jit::Program> build_program(const jit::CompileRequest& request);

}  // namespace gpk::bind

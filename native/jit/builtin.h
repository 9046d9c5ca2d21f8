// Built-in kernels: from a name in the embedded sources to a loaded kernel.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/module.h"
#include "jit/compiler.h"

namespace gpk {
class Context;
}

namespace gpk::jit {

struct KernelSpec {
  const char* file = nullptr;  // "elementwise/binary.cuh"
  std::string expression;      // "gpk::binary_kernel<float, gpk::Add, 4, false, 256, 2>"
  const char* op = nullptr;    // "add": what messages and profilers show
  // Architectures whose special instructions the kernel needs (90 for wgmma); empty: any.
  std::vector<int> exact_sms;
  // In the PTX bundle. False: a faster variant that only NVRTC makes; plans choose it only where
  // jit_available(), and something in the bundle does its work elsewhere.
  bool bundled = true;
};

// Whether NVRTC can be had. Searched once, at the first call; then one load.
bool jit_available();

// What NVRTC is asked for.
CompileRequest compile_request(const KernelSpec& spec, int sm);

// Compiles for the GPU of `context` (disk cache, then NVRTC) or, without NVRTC, takes the bundled
// PTX. Throws NvrtcError / CompileError; says what is missing when neither is there.
std::shared_ptr<Kernel> load_builtin(Context& context, const KernelSpec& spec);

}  // namespace gpk::jit

// Built-in kernels: from a name expression in the embedded sources to a loaded kernel.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/module.h"
#include "jit/compiler.h"

namespace gpk::inline core {
class Context;
}

namespace gpk::jit {

struct KernelSpec {
  const char* file = nullptr;  // "elementwise/map.cuh"
  std::string expression;      // "gpk::map_any<gpk::Add, float, 2>"
  const char* op = nullptr;    // "add": shown in messages and profilers
  // Architectures whose specific instructions the kernel needs (90 for wgmma); empty: any.
  std::vector<int> exact_sms;
  // In the PTX bundle. False: a faster variant; plans choose it only where is_loadable(), and a
  // bundled kernel is the fallback elsewhere.
  bool bundled = true;
  // Large and frequently used: assembled in the background when its family is first used
  // (prefetch.h).
  bool prefetched = false;
  // Its id in kernel tables within the family: KernelKey of ops/kernel_table.h.
  std::uint8_t kernel = 0;
  std::uint64_t variant = 0;
};

// Whether NVRTC is available. Searched once, on the first call; then one load.
bool jit_available();

// Whether load_builtin() would find NVRTC or bundled PTX.
bool is_loadable(const KernelSpec& spec, int sm);

// The request for NVRTC.
CompileRequest compile_request(const KernelSpec& spec, int sm);

// Machine code from the disk cache; else bundled PTX assembled by the driver, which takes a
// fraction of the time of a compile; else NVRTC. The result is cached. Throws NvrtcError /
// CompileError; the message names what to install when neither is available.
std::shared_ptr<Kernel> load_builtin(Context& context, const KernelSpec& spec);

// The first half of it, for bundled kernels: afterwards the machine code is in the disk cache.
void prepare_builtin(Context& context, const KernelSpec& spec);

}  // namespace gpk::jit

// Built-in kernels: from a name in the embedded sources to a loaded kernel.
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
  const char* op = nullptr;    // "add": what messages and profilers show
  // Architectures whose special instructions the kernel needs (90 for wgmma); empty: any.
  std::vector<int> exact_sms;
  // In the PTX bundle. False: a faster variant; plans choose it only where is_loadable(), and
  // something in the bundle does its work elsewhere.
  bool bundled = true;
  // Large and often used: prepared in the background when its family is first used (prefetch.h).
  bool prefetched = false;
  // What kernel tables know it by within its family: KernelKey of ops/kernel_table.h.
  std::uint8_t kernel = 0;
  std::uint64_t variant = 0;
};

// Whether NVRTC can be had. Searched once, at the first call; then one load.
bool jit_available();

// Whether load_builtin() would find NVRTC or bundled PTX.
bool is_loadable(const KernelSpec& spec, int sm);

// What NVRTC is asked for.
CompileRequest compile_request(const KernelSpec& spec, int sm);

// Machine code from the disk cache; else bundled PTX, assembled by the driver, since that takes a
// fraction of the time of a compile; else NVRTC. What was made is kept in the cache. Throws
// NvrtcError / CompileError; says what is missing when neither is there.
std::shared_ptr<Kernel> load_builtin(Context& context, const KernelSpec& spec);

// The first half of it, for bundled kernels: afterwards the machine code is in the disk cache.
void prepare_builtin(Context& context, const KernelSpec& spec);

}  // namespace gpk::jit

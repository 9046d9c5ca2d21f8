// Finds and loads NVRTC, NVIDIA's run-time compiler. Nothing happens before the first call.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace gpk::jit {

using NvrtcProgram = struct NvrtcProgramTag*;

struct NvrtcApi {
#define GPK_NVRTC(name, need, params) int(*name) params = nullptr;
#include "jit/nvrtc_functions.def"
#undef GPK_NVRTC
};

// A loaded NVRTC.
struct Nvrtc {
  NvrtcApi api;
  int major = 0;
  int minor = 0;
  std::string path;        // absolute path of the library file
  std::vector<int> archs;  // supported targets: {75, 80, ...}; empty if it cannot tell
  std::string
      include_folder;  // CUDA headers of the same version (cuda_fp16.h); empty if none found
};

// What the search did, whether or not it succeeded.
struct NvrtcSearch {
  const Nvrtc* nvrtc = nullptr;    // nullptr: not found
  std::vector<std::string> tried;  // every name or path tried, in order, with the outcome
};

// Searches once per process, in the order of docs/environment.md: PYGPUKIT_NVRTC_PATH (when set,
// nothing else is tried, not even a loaded library, so that a wrong path hides NVRTC), already
// loaded, pip wheels (nvidia/*/lib below each package root), conda, the system loader, CUDA_PATH /
// CUDA_HOME; newest major first. Never throws for a missing library.
const NvrtcSearch& find_nvrtc();

// The loaded NVRTC. Throws NvrtcError (kNotLoaded) that starts with "NVRTC JIT compiler not
// available" and lists every path tried and the pip command that fixes it.
const Nvrtc& nvrtc();

// The version that find_nvrtc() will find, inferred from file names alone: the builtins library
// beside NVRTC carries it. Loading NVRTC takes milliseconds that a disk cache hit need not pay.
// nullopt when NVRTC is already loaded, or when the names do not tell (system search, toolkits).
struct NvrtcVersion {
  int major = 0;
  int minor = 0;
};
std::optional<NvrtcVersion> predict_nvrtc_version();

// The message of that error.
std::string not_available_message(const NvrtcSearch& search);

// Folders that may hold pip's nvidia/ packages (Python's sys.path). Called at the first search,
// with no lock held, so it may take the GIL; first searches that race may each call it.
void set_package_roots(std::function<std::vector<std::string>()> roots);
// Calls that function, for the searches of other libraries. May take the GIL.
std::vector<std::string> package_roots();

// Discards the search and uses `nvrtc` instead (nullptr: search again). For tests only.
void set_nvrtc_for_testing(const Nvrtc* nvrtc);

}  // namespace gpk::jit

#include "jit/missing_header.h"

#include <algorithm>
#include <array>

#include "base/text.h"

namespace gpk::jit {
namespace {

// The name in NVRTC's "could not open source file "x.h"", "cannot open source file "x.h"".
std::string_view missing_header(std::string_view log) {
  constexpr std::string_view kPhrase = "open source file \"";
  const std::size_t at = log.find(kPhrase);
  if (at == std::string_view::npos) return {};
  log.remove_prefix(at + kPhrase.size());
  return log.substr(0, log.find('"'));
}

bool starts_with_any(std::string_view name, const auto& prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](std::string_view prefix) { return name.starts_with(prefix); });
}

constexpr std::array<std::string_view, 5> kCccl{"cuda/", "cub/", "thrust/", "nv/", "libcudacxx/"};
constexpr std::array<std::string_view, 9> kRuntime{"cuda",
                                                   "cooperative_groups",
                                                   "mma.h",
                                                   "math_constants.h",
                                                   "vector_types.h",
                                                   "cuComplex.h",
                                                   "crt/",
                                                   "device_",
                                                   "sm_"};

std::string pip_name(std::string_view package, int major, int minor) {
  const std::string suffix = major >= 13 ? std::string() : cat("-cu", major);
  return cat("\"", package, suffix, "==", major, ".", minor, ".*\"");
}

}  // namespace

std::string missing_header_advice(std::string_view log, const Nvrtc& nvrtc) {
  const std::string_view header = missing_header(log);
  const bool cccl = starts_with_any(header, kCccl);
  if (!cccl && (!starts_with_any(header, kRuntime) || !nvrtc.include_folder.empty())) return {};
  std::string packages = pip_name("nvidia-cuda-runtime", nvrtc.major, nvrtc.minor);
  if (cccl) packages += cat(" ", pip_name("nvidia-cuda-cccl", nvrtc.major, nvrtc.minor));
  return cat("\n", header, " is a CUDA header, and no folder with CUDA ", nvrtc.major, ".",
             nvrtc.minor, " headers that has it was found. To install it: pip install ", packages,
             "\n");
}

}  // namespace gpk::jit

// Finds the CUDA headers (cuda_fp16.h and friends) that belong to a loaded NVRTC.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gpk::jit {

struct IncludeFolderSearch {
  std::string library_path;                // the NVRTC library file
  std::vector<std::string> package_roots;  // folders that may hold pip's nvidia/
  std::vector<std::string> prefixes;       // conda prefix, CUDA_PATH, CUDA_HOME
  int major = 0;                           // of the NVRTC
  int minor = 0;
};

// Beside the library first, then package_roots, then prefixes. A folder qualifies when it holds
// cuda_fp16.h and has the same major version. The same minor is preferred; else the newest older
// one, since a compiler accepts older headers of its major. Empty when there is none.
std::string find_include_folder(const IncludeFolderSearch& search);

// {13, 0} from CUDA_VERSION in cuda.h or CUDART_VERSION in cuda_runtime_api.h.
std::optional<std::pair<int, int>> header_version(const std::string& folder);

}  // namespace gpk::jit

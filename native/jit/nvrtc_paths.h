// Where NVRTC may be on disk. Separate from the loader so that it can be tested with fake folders.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace gpk::jit {

// Names for the system's search, newest major first: "libnvrtc.so.13", ...
const std::vector<std::string>& nvrtc_sonames();

// NVRTC library files in these folders, newest major first, then in folder order. Builtins and
// "alt" variants are excluded. Folders without one are listed in *tried.
std::vector<std::string> nvrtc_files(const std::vector<std::string>& folders,
                                     std::vector<std::string>* tried);

// Library folders below pip's nvidia/ in each root: nvidia/cu13/lib, nvidia/cuda_nvrtc/lib, ...
std::vector<std::string> pip_library_folders(const std::vector<std::string>& roots);

// "13.4" of the libnvrtc-builtins.so.13.4 beside an NVRTC library; empty unless there is just one.
std::string builtins_version(const std::string& nvrtc_file);

// The entries of a folder, sorted; none where it cannot be read.
std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder);

// Library folders of a toolkit or conda prefix that exist; the first usual one when none does.
std::vector<std::string> prefix_library_folders(const std::string& prefix);

}  // namespace gpk::jit

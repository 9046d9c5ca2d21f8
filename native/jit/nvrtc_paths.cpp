#include "jit/nvrtc_paths.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <string_view>

#include "base/text.h"

namespace gpk::jit {
namespace {

namespace fs = std::filesystem;

#ifdef _WIN32
constexpr std::string_view kFilePrefix = "nvrtc64_";
constexpr std::string_view kLibraryFolders[] = {"bin", "bin/x64", "bin/x86_64", "Library/bin",
                                                "Library/bin/x64"};
#else
constexpr std::string_view kFilePrefix = "libnvrtc.so";
constexpr std::string_view kLibraryFolders[] = {"lib", "lib64"};
#endif

bool is_folder(const fs::path& path) {
  std::error_code ec;
  return fs::is_directory(path, ec);
}

bool is_nvrtc_file(const fs::path& path) {
  const std::string name = path.filename().string();
  if (!name.starts_with(kFilePrefix)) return false;
#ifdef _WIN32
  return name.ends_with(".dll") && name.find("alt") == std::string::npos;
#else
  return name.size() == kFilePrefix.size() || name[kFilePrefix.size()] == '.';
#endif
}

// 13 for libnvrtc.so.13 and nvrtc64_130_0.dll; 0 for the unversioned development link, sorted last.
int major_of(const std::string& path) {
  const std::string name = fs::path(path).filename().string();
  std::string_view digits = std::string_view(name).substr(kFilePrefix.size());
  if (digits.starts_with('.')) digits.remove_prefix(1);
  int value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return value >= 100 ? value / 10 : value;
}

void add_library_folders(std::vector<std::string>& out, const fs::path& prefix) {
  for (const std::string_view name : kLibraryFolders) {
    if (is_folder(prefix / name)) out.push_back((prefix / name).string());
  }
}

}  // namespace

const std::vector<std::string>& nvrtc_sonames() {
#ifdef _WIN32
  static const auto& names =
      *new std::vector<std::string>{"nvrtc64_130_0.dll", "nvrtc64_120_0.dll", "nvrtc64_112_0.dll"};
#else
  static const auto& names = *new std::vector<std::string>{"libnvrtc.so.13", "libnvrtc.so.12",
                                                           "libnvrtc.so.11.2", "libnvrtc.so"};
#endif
  return names;
}

std::vector<std::string> nvrtc_files(const std::vector<std::string>& folders,
                                     std::vector<std::string>* tried) {
  std::vector<std::string> out;
  for (const std::string& folder : folders) {
    const std::size_t before = out.size();
    for (const fs::path& path : entries_of(folder)) {
      if (is_nvrtc_file(path)) out.push_back(path.string());
    }
    if (out.size() == before) tried->push_back(cat(folder, ": no NVRTC library in this folder"));
  }
  std::stable_sort(out.begin(), out.end(), [](const std::string& a, const std::string& b) {
    return major_of(a) > major_of(b);
  });
  return out;
}

std::vector<std::string> pip_library_folders(const std::vector<std::string>& roots) {
  std::vector<std::string> out;
  for (const std::string& root : roots) {
    for (const fs::path& package : entries_of(fs::path(root) / "nvidia")) {
      std::vector<std::string> folders;
      add_library_folders(folders, package);
      // Other nvidia packages (cublas, cudnn, ...) would only make the report longer.
      std::vector<std::string> ignored;
      for (const std::string& folder : folders) {
        if (!nvrtc_files({folder}, &ignored).empty()) out.push_back(folder);
      }
    }
  }
  return out;
}

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> out;
  std::error_code ec;
  for (fs::directory_iterator it(folder, ec), end; !ec && it != end; it.increment(ec)) {
    out.push_back(it->path());
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<std::string> prefix_library_folders(const std::string& prefix) {
  std::vector<std::string> out;
  add_library_folders(out, prefix);
  for (const fs::path& target : entries_of(fs::path(prefix) / "targets")) {
    add_library_folders(out, target);
  }
  if (out.empty()) out.push_back((fs::path(prefix) / kLibraryFolders[0]).string());
  return out;
}

std::string builtins_version(const std::string& nvrtc_file) {
  constexpr std::string_view kPrefix = "libnvrtc-builtins.so.";
  std::string version;
  for (const fs::path& entry : entries_of(fs::path(nvrtc_file).parent_path())) {
    const std::string name = entry.filename().string();
    if (!name.starts_with(kPrefix)) continue;
    std::string found = name.substr(kPrefix.size());
    // A longer alias of the same file.
    if (std::count(found.begin(), found.end(), '.') != 1) continue;
    if (!version.empty() && version != found) return {};
    version = std::move(found);
  }
  return version;
}

}  // namespace gpk::jit

#include "jit/include_folder.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>

#include "base/text.h"
#include "jit/nvrtc_paths.h"

namespace gpk::jit {
namespace {

namespace fs = std::filesystem;

bool is_file(const fs::path& path) {
  std::error_code ec;
  return fs::is_regular_file(path, ec);
}

void add_prefix(std::vector<fs::path>& out, const fs::path& prefix) {
  out.push_back(prefix / "include");
  for (const fs::path& target : entries_of(prefix / "targets")) out.push_back(target / "include");
  out.push_back(prefix / "Library" / "include");
}

void add_packages(std::vector<fs::path>& out, const fs::path& root) {
  for (const fs::path& package : entries_of(root / "nvidia")) out.push_back(package / "include");
}

// <x>/lib/libnvrtc.so.13: <x>/include is beside it. <root>/nvidia/cuda_nvrtc/lib: the headers are
// in a sibling package. The toolkit's lib64 may be a symlink into targets/, so both spellings are
// tried.
void add_beside_library(std::vector<fs::path>& out, const fs::path& library) {
  std::error_code ec;
  const fs::path resolved = fs::canonical(library, ec);
  for (const fs::path& file : {library, resolved}) {
    fs::path up = file.parent_path();
    for (int level = 0; level < 3 && up.has_relative_path(); ++level) {
      up = up.parent_path();
      if (up.filename() == "nvidia") {
        add_packages(out, up.parent_path());
        break;
      }
      add_prefix(out, up);
    }
  }
}

std::optional<int> defined_number(const fs::path& file, std::string_view macro) {
  std::ifstream in(file);
  for (std::string text; std::getline(in, text);) {
    std::string_view line = trim(text);
    for (const std::string_view word : {std::string_view("#define"), macro}) {
      if (!line.starts_with(word)) {
        line = {};
        break;
      }
      line = trim(line.substr(word.size()));
    }
    int value = 0;
    const auto result = std::from_chars(line.data(), line.data() + line.size(), value);
    if (!line.empty() && result.ec == std::errc()) return value;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::pair<int, int>> header_version(const std::string& folder) {
  const fs::path base(folder);
  std::optional<int> number = defined_number(base / "cuda.h", "CUDA_VERSION");
  if (!number) number = defined_number(base / "cuda_runtime_api.h", "CUDART_VERSION");
  if (!number) return std::nullopt;
  return std::pair(*number / 1000, *number % 1000 / 10);
}

std::string find_include_folder(const IncludeFolderSearch& search) {
  std::vector<fs::path> folders;
  if (!search.library_path.empty()) add_beside_library(folders, search.library_path);
  for (const std::string& root : search.package_roots) add_packages(folders, root);
  for (const std::string& prefix : search.prefixes) add_prefix(folders, prefix);

  std::string best;
  int best_minor = -1;
  for (const fs::path& folder : folders) {
    if (!is_file(folder / "cuda_fp16.h")) continue;
    const auto version = header_version(folder.string());
    if (!version || version->first != search.major || version->second > search.minor) continue;
    if (version->second > best_minor) {
      best = folder.string();
      best_minor = version->second;
    }
    if (best_minor == search.minor) break;
  }
  return best;
}

}  // namespace gpk::jit

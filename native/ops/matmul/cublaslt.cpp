#include "ops/matmul/cublaslt.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string_view>

#include "base/text.h"
#include "core/config.h"
#include "core/driver.h"
#include "core/library.h"
#include "core/log.h"
#include "jit/nvrtc.h"
#include "jit/nvrtc_paths.h"

namespace gpk::ops::gemm {
namespace {

namespace fs = std::filesystem;

#ifdef _WIN32
constexpr std::string_view kFilePrefix = "cublasLt64_";
constexpr std::string_view kFileSuffix = ".dll";
#else
constexpr std::string_view kFilePrefix = "libcublasLt.so.";
constexpr std::string_view kFileSuffix = "";
#endif
constexpr int kMajors[] = {13, 12, 11};

std::string file_name(int major) { return cat(kFilePrefix, major, kFileSuffix); }

// Files in these folders that are named as a library we know, newest major first.
std::vector<std::string> library_files(const std::vector<std::string>& folders) {
  std::vector<std::string> files;
  std::error_code ec;
  for (const int major : kMajors)
    for (const std::string& folder : folders)
      if (const fs::path file = fs::path(folder) / file_name(major); fs::exists(file, ec))
        files.push_back(file.string());
  return files;
}

// nvidia/cu13/lib, nvidia/cublas/lib, ... below each root.
std::vector<std::string> pip_folders(const std::vector<std::string>& roots) {
  std::vector<std::string> folders;
  for (const std::string& root : roots) {
    std::error_code ec;
    for (const fs::path& package : jit::entries_of(fs::path(root) / "nvidia"))
      for (const char* name : {"lib", "bin", "bin/x86_64"})
        if (fs::is_directory(package / name, ec)) folders.push_back((package / name).string());
  }
  return folders;
}

// One run of the search.
class Search {
 public:
  explicit Search(const Config& config) : config_(config) {}

  void run() {
    if (driver_is_simulated()) {
      tried.emplace_back("the simulated driver runs PTX only");
      return;
    }
    if (!config_.cublaslt_path.empty()) {
      std::error_code ec;
      const std::string& path = config_.cublaslt_path;
      if (fs::is_directory(path, ec)) {
        std::vector<std::string> folders = jit::prefix_library_folders(path);
        folders.insert(folders.begin(), path);
        try_files(folders, path);
      } else {
        try_open(path);
      }
      return;
    }
    if (try_loaded() || try_files(pip_folders(jit::package_roots()), "pip's nvidia packages"))
      return;
    if (!config_.conda_prefix.empty() &&
        try_files(jit::prefix_library_folders(config_.conda_prefix), config_.conda_prefix))
      return;
    for (const int major : kMajors)
      if (try_open(file_name(major))) return;
    for (const std::string& root : config_.cuda_roots)
      if (try_files(jit::prefix_library_folders(root), root)) return;
  }

  std::unique_ptr<CublasLt> found;
  std::vector<std::string> tried;

 private:
  bool try_loaded() {
    for (const int major : kMajors) {
      const SharedLibrary library = SharedLibrary::open_if_loaded(file_name(major));
      if (library && use(library, cat(file_name(major), " (already loaded)"))) return true;
    }
    return false;
  }

  bool try_files(const std::vector<std::string>& folders, const std::string& where) {
    const std::vector<std::string> files = library_files(folders);
    if (files.empty()) tried.push_back(cat(where, ": no cuBLASLt library there"));
    return std::any_of(files.begin(), files.end(),
                       [this](const std::string& file) { return try_open(file); });
  }

  bool try_open(const std::string& name) {
    std::string why;
    const SharedLibrary library = SharedLibrary::open(name, &why);
    if (library) return use(library, name);
    tried.push_back(cat(name, ": ", why));
    return false;
  }

  bool use(const SharedLibrary& library, const std::string& name) {
    auto out = std::make_unique<CublasLt>();
#define GPK_LT(function, params)                                                                \
  out->api.function = reinterpret_cast<decltype(out->api.function)>(library.symbol(#function)); \
  if (out->api.function == nullptr) {                                                           \
    tried.push_back(cat(name, ": has no " #function));                                          \
    return false;                                                                               \
  }
#include "ops/matmul/cublaslt_functions.def"
#undef GPK_LT
    if (void* version = library.symbol("cublasLtGetVersion"); version != nullptr)
      out->version = reinterpret_cast<std::size_t (*)()>(version)();
    out->path = SharedLibrary::path_of(reinterpret_cast<const void*>(out->api.cublasLtMatmul));
    if (out->path.empty()) out->path = name;
    tried.push_back(cat(name, ": cuBLASLt ", out->version));
    found = std::move(out);
    return true;
  }

  const Config& config_;
};

// Results are never freed: references to them are handed out.
struct State {
  std::mutex mutex;
  std::atomic<const CublasLtSearch*> current{nullptr};
  std::vector<std::unique_ptr<CublasLtSearch>> searches;
  std::vector<std::unique_ptr<CublasLt>> loaded;
};

State& state() {
  static auto* instance = new State;
  return *instance;
}

}  // namespace

const CublasLtSearch& find_cublaslt() {
  State& s = state();
  if (const CublasLtSearch* found = s.current.load(std::memory_order_acquire)) return *found;
  Search search(Config::get());  // without the lock: it may ask Python for its paths
  search.run();
  const std::lock_guard lock(s.mutex);
  if (const CublasLtSearch* found = s.current.load(std::memory_order_relaxed)) return *found;
  auto result = std::make_unique<CublasLtSearch>();
  result->tried = std::move(search.tried);
  if (search.found) {
    log_message(LogLevel::kInfo,
                cat("cuBLASLt ", search.found->version, " from ", search.found->path));
    result->library = search.found.get();
    s.loaded.push_back(std::move(search.found));
  }
  s.current.store(result.get(), std::memory_order_release);
  s.searches.push_back(std::move(result));
  return *s.searches.back();
}

void set_cublaslt_for_testing(const CublasLt* library) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.current.store(nullptr, std::memory_order_release);
  if (library == nullptr) return;
  auto result = std::make_unique<CublasLtSearch>();
  result->library = library;
  result->tried = {"set by a test"};
  s.current.store(result.get(), std::memory_order_release);
  s.searches.push_back(std::move(result));
}

}  // namespace gpk::ops::gemm

#include "jit/nvrtc.h"

#include <atomic>
#include <charconv>
#include <filesystem>
#include <memory>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "core/compile_scope.h"
#include "core/config.h"
#include "core/library.h"
#include "core/log.h"
#include "jit/include_folder.h"
#include "jit/nvrtc_paths.h"

namespace gpk::jit {
namespace {

enum Need { kRequired, kOptional };

template <class Function>
bool bind(const SharedLibrary& library, const char* name, Need need, Function& out,
          std::string* why) {
  out = reinterpret_cast<Function>(library.symbol(name));
  if (out == nullptr && need == kRequired && why->empty()) *why = cat("has no ", name);
  return out != nullptr || need == kOptional;
}

bool bind_all(const SharedLibrary& library, NvrtcApi& api, std::string* why) {
  bool ok = true;
#define GPK_NVRTC(name, need, params) ok = bind(library, #name, need, api.name, why) && ok;
#include "jit/nvrtc_functions.def"
#undef GPK_NVRTC
  return ok;
}

std::vector<int> supported_archs(const NvrtcApi& api) {
  int count = 0;
  if (api.nvrtcGetNumSupportedArchs == nullptr || api.nvrtcGetSupportedArchs == nullptr) return {};
  if (api.nvrtcGetNumSupportedArchs(&count) != 0 || count <= 0) return {};
  std::vector<int> archs(static_cast<std::size_t>(count));
  if (api.nvrtcGetSupportedArchs(archs.data()) != 0) return {};
  return archs;
}

// NVRTC opens its builtins by bare name. Toolkits have no rpath, and a sanitizer's dlopen hides
// that of the wheels; a library already loaded under that name is always found.
void preload_builtins(const Nvrtc& nvrtc) {
#ifdef _WIN32
  const std::string name = cat("nvrtc-builtins64_", nvrtc.major, nvrtc.minor, ".dll");
#else
  const std::string name = cat("libnvrtc-builtins.so.", nvrtc.major, ".", nvrtc.minor);
#endif
  const std::filesystem::path file = std::filesystem::path(nvrtc.path).parent_path() / name;
  std::error_code ec;
  std::string why;
  // On failure the first compile gives a better message than we could here.
  if (std::filesystem::is_regular_file(file, ec)) SharedLibrary::open(file.string(), &why);
}

// One run of the search; found() is the result.
class Search {
 public:
  Search(const Config& config, std::vector<std::string> roots)
      : config_(config), roots_(std::move(roots)) {}

  void run() {
    if (!config_.nvrtc_path.empty()) {
      try_configured();
      return;
    }
    try_loaded() || try_files(pip_library_folders(roots_)) ||
        (!config_.conda_prefix.empty() &&
         try_files(prefix_library_folders(config_.conda_prefix))) ||
        try_system() || try_cuda_roots();
  }

  std::unique_ptr<Nvrtc> take() { return std::move(found_); }
  std::vector<std::string> take_tried() { return std::move(tried_); }

 private:
  bool try_configured() {
    const std::string& path = config_.nvrtc_path;
    std::error_code ec;
    if (!std::filesystem::is_directory(path, ec)) return try_open(path);
    std::vector<std::string> folders{path};
    for (const std::string& folder : prefix_library_folders(path)) {
      if (std::filesystem::is_directory(folder, ec)) folders.push_back(folder);
    }
    return try_files(folders);
  }

  bool try_loaded() {
    for (const std::string& name : nvrtc_sonames()) {
      const SharedLibrary library = SharedLibrary::open_if_loaded(name);
      if (library && use(library, cat(name, " (already loaded)"))) return true;
      if (!library) tried_.push_back(cat(name, ": not loaded yet"));
    }
    return false;
  }

  bool try_system() {
    for (const std::string& name : nvrtc_sonames()) {
      if (try_open(name)) return true;
    }
    return false;
  }

  bool try_cuda_roots() {
    std::vector<std::string> folders;
    for (const std::string& root : config_.cuda_roots) {
      for (std::string& folder : prefix_library_folders(root)) folders.push_back(std::move(folder));
    }
    return try_files(folders);
  }

  bool try_files(const std::vector<std::string>& folders) {
    for (const std::string& file : nvrtc_files(folders, &tried_)) {
      if (try_open(file)) return true;
    }
    return false;
  }

  bool try_open(const std::string& name) {
    std::string why;
    const SharedLibrary library = SharedLibrary::open(name, &why);
    if (library) return use(library, name);
    tried_.push_back(cat(name, ": ", why));
    return false;
  }

  bool use(const SharedLibrary& library, const std::string& name) {
    auto out = std::make_unique<Nvrtc>();
    std::string why;
    if (!bind_all(library, out->api, &why)) {
      tried_.push_back(cat(name, ": ", why));
      return false;
    }
    if (const int code = out->api.nvrtcVersion(&out->major, &out->minor); code != 0) {
      tried_.push_back(cat(name, ": nvrtcVersion failed with ", code));
      return false;
    }
    out->path = SharedLibrary::path_of(reinterpret_cast<const void*>(out->api.nvrtcVersion));
    if (out->path.empty()) out->path = name;
    preload_builtins(*out);
    out->archs = supported_archs(out->api);
    IncludeFolderSearch headers{out->path, roots_, {}, out->major, out->minor};
    if (!config_.conda_prefix.empty()) headers.prefixes.push_back(config_.conda_prefix);
    headers.prefixes.insert(headers.prefixes.end(), config_.cuda_roots.begin(),
                            config_.cuda_roots.end());
    out->include_folder = find_include_folder(headers);
    tried_.push_back(cat(name, ": NVRTC ", out->major, ".", out->minor));
    found_ = std::move(out);
    return true;
  }

  const Config& config_;
  std::vector<std::string> roots_;
  std::vector<std::string> tried_;
  std::unique_ptr<Nvrtc> found_;
};

// Results are never freed: references escape.
struct State {
  std::mutex mutex;
  std::function<std::vector<std::string>()> roots;
  std::atomic<const NvrtcSearch*> current{nullptr};
  std::vector<std::unique_ptr<NvrtcSearch>> searches;
  std::vector<std::unique_ptr<Nvrtc>> loaded;
};

State& state() {
  static State* instance = new State;
  return *instance;
}

}  // namespace

std::vector<std::string> package_roots() {
  std::function<std::vector<std::string>()> roots;
  {
    const std::lock_guard lock(state().mutex);
    roots = state().roots;
  }
  return roots ? roots() : std::vector<std::string>{};
}

const NvrtcSearch& find_nvrtc() {
  if (compiler_lost_in_fork()) {
    static const auto* nothing = new NvrtcSearch;
    return *nothing;
  }
  State& s = state();
  if (const NvrtcSearch* found = s.current.load(std::memory_order_acquire)) return *found;
  std::vector<std::string> roots = package_roots();
  const Config& config = Config::get();
  const CompileScope compiling;
  const std::lock_guard lock(s.mutex);
  if (const NvrtcSearch* found = s.current.load(std::memory_order_relaxed)) return *found;
  Search search(config, std::move(roots));
  search.run();
  auto result = std::make_unique<NvrtcSearch>();
  result->tried = search.take_tried();
  if (auto loaded = search.take()) {
    log_message(LogLevel::kInfo,
                cat("NVRTC ", loaded->major, ".", loaded->minor, " from ", loaded->path));
    result->nvrtc = loaded.get();
    s.loaded.push_back(std::move(loaded));
  }
  s.current.store(result.get(), std::memory_order_release);
  s.searches.push_back(std::move(result));
  return *s.searches.back();
}

std::optional<NvrtcVersion> predict_nvrtc_version() {
  if (compiler_lost_in_fork()) return std::nullopt;
  if (state().current.load(std::memory_order_acquire) != nullptr) return std::nullopt;
  const Config& config = Config::get();
  if (!config.nvrtc_path.empty()) return std::nullopt;
  for (const std::string& name : nvrtc_sonames())
    if (SharedLibrary::open_if_loaded(name)) return std::nullopt;
  std::vector<std::string> tried;
  std::vector<std::string> files = nvrtc_files(pip_library_folders(package_roots()), &tried);
  if (files.empty() && !config.conda_prefix.empty())
    files = nvrtc_files(prefix_library_folders(config.conda_prefix), &tried);
  if (files.empty()) return std::nullopt;
  const std::string text = builtins_version(files.front());
  NvrtcVersion version;
  const char* end = text.data() + text.size();
  const auto major = std::from_chars(text.data(), end, version.major);
  if (major.ec != std::errc() || major.ptr == end) return std::nullopt;
  const auto minor = std::from_chars(major.ptr + 1, end, version.minor);
  if (minor.ec != std::errc() || minor.ptr != end) return std::nullopt;
  return version;
}

std::string not_available_message(const NvrtcSearch& search) {
  if (compiler_lost_in_fork())
    return "NVRTC JIT compiler not available: this process was forked while another thread was "
           "compiling, and NVRTC's locks may be held forever. Fork before the first compile, "
           "or start processes with multiprocessing's \"spawn\"";
  return cat("NVRTC JIT compiler not available. Tried:\n  ", join(search.tried, "\n  "),
             "\nTo install it: pip install pygpukit[jit]");
}

const Nvrtc& nvrtc() {
  const NvrtcSearch& search = find_nvrtc();
  if (search.nvrtc == nullptr)
    throw NvrtcError(not_available_message(search), NvrtcCode::kNotLoaded);
  return *search.nvrtc;
}

void set_package_roots(std::function<std::vector<std::string>()> roots) {
  const std::lock_guard lock(state().mutex);
  state().roots = std::move(roots);
}

void set_nvrtc_for_testing(const Nvrtc* nvrtc) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.current.store(nullptr, std::memory_order_release);
  if (nvrtc == nullptr) return;
  auto result = std::make_unique<NvrtcSearch>();
  result->nvrtc = nvrtc;
  result->tried = {"set by a test"};
  s.current.store(result.get(), std::memory_order_release);
  s.searches.push_back(std::move(result));
}

}  // namespace gpk::jit

#include "core/module.h"

#include <algorithm>
#include <mutex>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "core/check.h"
#include "core/compile_scope.h"
#include "core/context.h"
#include "core/memory.h"

namespace gpk::inline core {
namespace {

// Dynamic shared memory available to every kernel without opting in.
constexpr std::size_t kDefaultShared = std::size_t{48} * 1024;

// Unloading waits until the device is idle, and a kernel is often dropped right after its launch:
// up to this many handles are kept.
constexpr std::size_t kMaxDropped = 64;

struct DroppedModule {
  Context* context;
  cu::Module handle;
};

void unload(const std::vector<DroppedModule>& modules) noexcept {
  for (const auto& [context, handle] : modules) {
    try {
      context->make_current();
      const RelaxedCaptureScope relaxed;
      driver().cuModuleUnload(handle);
    } catch (...) {  // the device is lost, and its modules with it
    }
  }
}

struct DroppedList {
  std::mutex mutex;
  std::vector<DroppedModule> modules;
};

DroppedList& dropped_list() {
  static auto* list = new DroppedList;  // never destroyed: kernels outlive main()
  return *list;
}

void drop(Context& context, cu::Module handle) {
  DroppedList& list = dropped_list();
  std::vector<DroppedModule> full;
  {
    const std::lock_guard lock(list.mutex);
    list.modules.push_back({&context, handle});
    if (list.modules.size() >= kMaxDropped) full.swap(list.modules);
  }
  unload(full);
}

int attribute(cu::Function function, int id) {
  int value = 0;
  GPK_CU_CHECK(cuFuncGetAttribute, &value, id, function);
  return value;
}

}  // namespace

void unload_dropped_modules() noexcept {
  DroppedList& list = dropped_list();
  std::vector<DroppedModule> all;
  {
    const std::lock_guard lock(list.mutex);
    all.swap(list.modules);
  }
  unload(all);
}

const char* intern(std::string_view text) {
  static auto* mutex = new std::mutex;
  static auto* texts = new std::set<std::string, std::less<>>;
  const std::lock_guard lock(*mutex);
  auto found = texts->find(text);
  if (found == texts->end()) found = texts->emplace(text).first;
  return found->c_str();
}

Module::Module(Context& context, cu::Module handle, std::string name)
    : context_(context), handle_(handle), name_(std::move(name)) {}

namespace {

// The driver's JIT log, as options of its calls.
class JitLog {
 public:
  static constexpr unsigned kNumOptions = 2;
  int* options() noexcept { return options_; }
  void** values() noexcept { return values_; }

  [[noreturn]] void fail(const Context& context, const std::string& name, cu::Result result,
                         const char* call) {
    if (is_sticky(result)) throw_cuda_error(result, call);
    text_.resize(std::min(text_.find('\0'), text_.size()));
    throw NvrtcError(
        cat("jit: ", name, " cannot be loaded on ", context.traits().name, " (SM ",
            context.traits().sm, "): ", result_name(result), text_.empty() ? "" : "\n", text_),
        NvrtcCode::kPtxLoadFailed, text_);
  }

 private:
  std::string text_ = std::string(8192, '\0');
  int options_[kNumOptions] = {cu::kJitErrorLog, cu::kJitErrorLogBytes};
  void* values_[kNumOptions] = {text_.data(), reinterpret_cast<void*>(text_.size())};
};

struct LinkGuard {
  cu::LinkState state = nullptr;
  ~LinkGuard() { driver().cuLinkDestroy(state); }
};

}  // namespace

std::shared_ptr<Module> Module::load(Context& context, std::string_view image, std::string name) {
  context.make_current();
  const RelaxedCaptureScope relaxed;  // a kernel's first use may be inside a capture
  const CompileScope compiling;       // the driver compiles PTX here
  JitLog log;
  cu::Module handle = nullptr;
  const cu::Result result = driver().cuModuleLoadDataEx(&handle, image.data(), JitLog::kNumOptions,
                                                        log.options(), log.values());
  if (result != cu::kSuccess) log.fail(context, name, result, "cuModuleLoadDataEx");
  return std::shared_ptr<Module>(new Module(context, handle, std::move(name)));
}

std::string Module::assemble(Context& context, std::string_view ptx, const std::string& name) {
  const cu::DriverApi& api = driver();
  if (api.cuLinkCreate == nullptr || api.cuLinkAddData == nullptr ||
      api.cuLinkComplete == nullptr || api.cuLinkDestroy == nullptr)
    return std::string(ptx);
  context.make_current();
  const RelaxedCaptureScope relaxed;
  const CompileScope compiling;
  JitLog log;
  LinkGuard link;
  GPK_CU_CHECK(cuLinkCreate, JitLog::kNumOptions, log.options(), log.values(), &link.state);
  // The size includes the terminating NUL.
  const std::string text(ptx.substr(0, ptx.find('\0')));
  cu::Result result =
      api.cuLinkAddData(link.state, cu::kJitInputPtx, const_cast<char*>(text.c_str()),
                        text.size() + 1, name.c_str(), 0, nullptr, nullptr);
  void* image = nullptr;
  std::size_t bytes = 0;
  if (result == cu::kSuccess) result = api.cuLinkComplete(link.state, &image, &bytes);
  if (result != cu::kSuccess) log.fail(context, name, result, "cuLinkComplete");
  return std::string(static_cast<const char*>(image), bytes);
}

Module::~Module() { drop(context_, handle_); }

std::shared_ptr<Kernel> Module::kernel(const std::string& symbol, const std::string& display_name) {
  context_.make_current();
  cu::Function function = nullptr;
  const cu::Result result = driver().cuModuleGetFunction(&function, handle_, symbol.c_str());
  if (result == cu::kNotFound)
    throw NvrtcError(cat("jit: ", name_, " has no kernel '", display_name, "'"),
                     NvrtcCode::kFunctionNotFound);
  check_cuda(result, "cuModuleGetFunction");
  return std::make_shared<Kernel>(shared_from_this(), function, intern(display_name));
}

Module::Global Module::global(const std::string& symbol, const std::string& display_name) {
  context_.make_current();
  Global global;
  const cu::Result result =
      driver().cuModuleGetGlobal(&global.ptr, &global.bytes, handle_, symbol.c_str());
  if (result == cu::kNotFound)
    throw NvrtcError(
        cat("jit: ", name_, " has no __device__ or __constant__ variable '", display_name, "'"),
        NvrtcCode::kFunctionNotFound);
  check_cuda(result, "cuModuleGetGlobal");
  return global;
}

Kernel::Kernel(std::shared_ptr<Module> module, cu::Function function, const char* name)
    : module_(std::move(module)),
      context_(&module_->context()),
      function_(function),
      name_(name),
      allowed_shared_(kDefaultShared) {
  attributes_.num_regs = attribute(function, cu::kFuncNumRegs);
  attributes_.local_bytes = attribute(function, cu::kFuncLocalBytes);
  attributes_.shared_bytes = attribute(function, cu::kFuncSharedBytes);
  attributes_.const_bytes = attribute(function, cu::kFuncConstBytes);
  attributes_.max_threads_per_block = attribute(function, cu::kFuncMaxThreadsPerBlock);
  attributes_.ptx_version = attribute(function, cu::kFuncPtxVersion);
  attributes_.binary_version = attribute(function, cu::kFuncBinaryVersion);
  const auto static_bytes = static_cast<std::size_t>(attributes_.shared_bytes);
  allowed_shared_ = kDefaultShared - std::min(kDefaultShared, static_bytes);
}

std::optional<std::vector<KernelParamInfo>> Kernel::params(std::size_t count) const {
  if (driver().cuFuncGetParamInfo == nullptr) return std::nullopt;
  context_->make_current();
  std::vector<KernelParamInfo> found;
  for (std::size_t index = 0; index < count; ++index) {
    KernelParamInfo info;
    if (driver().cuFuncGetParamInfo(function_, index, &info.offset, &info.bytes) != cu::kSuccess)
      break;
    found.push_back(info);
  }
  return found;
}

int Kernel::suggested_block_size(std::size_t dynamic_shared_bytes) const {
  context_->make_current();
  int grid = 0;
  int block = 0;
  GPK_CU_CHECK(cuOccupancyMaxPotentialBlockSize, &grid, &block, function_, nullptr,
               dynamic_shared_bytes, 0);
  return block;
}

void Kernel::raise_shared(std::size_t bytes) const {
  const std::size_t limit = context_->traits().shared_per_block_optin_bytes -
                            static_cast<std::size_t>(attributes_.shared_bytes);
  if (bytes > limit)
    throw InvalidArgument(cat(name_, ": shared_mem is ", bytes, " bytes, ", context_->traits().name,
                              " has room for ", limit));
  const std::lock_guard lock(shared_mutex_);
  if (bytes <= allowed_shared_.load(std::memory_order_relaxed)) return;  // never lower it
  context_->make_current();
  GPK_CU_CHECK(cuFuncSetAttribute, function_, cu::kFuncMaxDynamicSharedBytes,
               static_cast<int>(bytes));
  allowed_shared_.store(bytes, std::memory_order_relaxed);
}

void Kernel::allow_large_clusters() const {
  context_->make_current();
  GPK_CU_CHECK(cuFuncSetAttribute, function_, cu::kFuncNonPortableClusterAllowed, 1);
}

}  // namespace gpk::inline core

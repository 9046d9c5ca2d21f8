#include "jit/program.h"

#include <deque>
#include <map>
#include <mutex>

#include "base/error.h"
#include "base/per_process.h"
#include "base/text.h"
#include "base/text_id.h"
#include "core/context.h"
#include "core/driver.h"
#include "core/interrupt.h"
#include "jit/disk_cache.h"
#include "jit/include_policy.h"
#include "jit/nvrtc.h"

namespace gpk::jit {
namespace {

struct Slot {
  InterruptibleMutex mutex;        // held while building
  std::weak_ptr<Program> program;  // written under the table's lock too
  std::uint64_t number = 0;        // of the build
};

struct Table {
  std::mutex mutex;  // held for look-ups only
  std::map<std::string, std::shared_ptr<Slot>> slots;
  std::uint64_t num_built = 0;
  Program::BuildCounts counts;
};

Table& table() { return per_process<Table>(); }

// Programs without owners leave an empty slot; swept when the table has grown.
void sweep(Table& t) {
  if (t.slots.size() < 256) return;
  std::erase_if(t.slots, [](const auto& item) {
    return item.second.use_count() == 1 && item.second->program.expired();
  });
}

// Module::load, naming the usual cause of a failure: an NVRTC of a newer major than the driver.
std::shared_ptr<Module> load(Context& context, const std::string& image, const std::string& name) {
  try {
    return Module::load(context, image, name);
  } catch (const NvrtcError& error) {
    const int driver_major = driver_info().version / 1000;
    if (error.code() != NvrtcCode::kPtxLoadFailed || nvrtc().major <= driver_major) throw;
    throw NvrtcError(
        cat(error.what(), "\nNVRTC ", nvrtc().major, '.', nvrtc().minor,
            " is newer than the driver, which supports CUDA ", driver_major,
            "; install an NVRTC for it: pip install nvidia-cuda-nvrtc-cu", driver_major),
        error.code(), error.log());
  }
}

// The simulator's findings name source lines.
bool has_line_info(const std::vector<std::string>& options) {
  for (const std::string& option : options)
    for (const char* name : {"-lineinfo", "--generate-line-info", "-G", "--device-debug"})
      if (trim(option) == name) return true;
  return false;
}

constexpr int kOldestSm = 80;  // where the simulator is not installed

int sm_of_host() {
  try {
    return host_sm();
  } catch (const GpuUnavailable&) {
    return kOldestSm;
  }
}

}  // namespace

std::shared_ptr<Program> Program::build(const CompileRequest& request, Device device) {
  CompileRequest targeted = request;
  apply_include_policy(targeted);
  targeted.sm = device.is_cuda() ? device_traits(device).sm : sm_of_host();
  // There is one NVRTC per process, so its version need not be part of this key.
  const std::string key = cat(to_string(device), '/', cache_key(targeted, Nvrtc{}));
  std::shared_ptr<Slot> slot;
  {
    const std::lock_guard lock(table().mutex);
    sweep(table());
    auto& found = table().slots[key];
    if (!found) found = std::make_shared<Slot>();
    slot = found;
  }
  const std::lock_guard lock(slot->mutex);
  auto program = slot->program.lock();
  const bool hit = program != nullptr;
  if (!hit) program = std::make_shared<Program>(std::move(targeted), device);
  const std::lock_guard table_lock(table().mutex);
  ++(hit ? table().counts.num_hits : table().counts.num_misses);
  if (hit) return program;
  slot->program = program;
  slot->number = ++table().num_built;
  return program;
}

std::vector<std::shared_ptr<Program>> Program::all() {
  std::map<std::uint64_t, std::shared_ptr<Program>> by_number;
  {
    const std::lock_guard lock(table().mutex);
    for (const auto& [key, slot] : table().slots)
      if (auto program = slot->program.lock()) by_number.emplace(slot->number, std::move(program));
  }
  std::vector<std::shared_ptr<Program>> programs;
  for (auto& [number, program] : by_number) programs.push_back(std::move(program));
  return programs;
}

Program::BuildCounts Program::counts() {
  const std::lock_guard lock(table().mutex);
  return table().counts;
}

namespace {

// Sources of programs for the simulator, newest last: findings quote them.
struct BuiltSources {
  static constexpr std::size_t kMaxBytes = std::size_t{16} << 20;
  struct One {
    std::string name;
    std::uint64_t ptx_id;
    std::string source;
  };
  std::mutex mutex;
  std::deque<One> all;
  std::size_t bytes = 0;

  void add(const std::string& name, std::uint64_t ptx_id, const std::string& source) {
    const std::lock_guard lock(mutex);
    for (const One& one : all)
      if (one.ptx_id == ptx_id && one.name == name && one.source == source) return;
    all.push_back({name, ptx_id, source});
    bytes += source.size();
    while (bytes > kMaxBytes && all.size() > 1) {
      bytes -= all.front().source.size();
      all.pop_front();
    }
  }
};

BuiltSources& built_sources() {
  static auto* instance = new BuiltSources;  // programs are built until the process ends
  return *instance;
}

}  // namespace

std::string Program::built_source(const std::string& name, std::uint64_t ptx_id) {
  BuiltSources& built = built_sources();
  const std::lock_guard lock(built.mutex);
  for (const auto& one : built.all)
    if (one.ptx_id == ptx_id && one.name == name) return one.source;
  return {};
}

Program::Program(CompileRequest request, Device device)
    : request_(std::move(request)), device_(device) {
  CompileRequest compiled = request_;
  const bool simulated = !device.is_cuda() || driver_is_simulated();
  if (simulated) {
    compiled.want_ptx = true;
    if (!has_line_info(compiled.options)) compiled.options.emplace_back("--generate-line-info");
  }
  try {
    image_ = compile_cached(compiled);
  } catch (const NvrtcError& error) {
    if (error.code() != NvrtcCode::kNotLoaded || device.is_cuda()) throw;
    return;
  }
  compiled_ = true;
  if (simulated) built_sources().add(request_.name, text_id(image_.bytes), request_.source);
  if (device.is_cuda()) module_ = load(Context::get(device.index), image_.bytes, request_.name);
}

HostModule& Program::host_module(const std::string& name) {
  if (!compiled_)
    throw GpuUnavailable(cat(
        name, ": a custom kernel needs a GPU (", default_device_choice().reason,
        "), or NVRTC to run in the simulator, or jit(..., reference=function): a Python function "
        "with the kernel's parameters, called with NumPy views of the arrays. ",
        not_available_message(find_nvrtc())));
  const std::lock_guard lock(host_mutex_);
  if (!host_module_) host_module_ = HostModule::load(image_.bytes, request_.name);
  return *host_module_;
}

std::shared_ptr<Kernel> Program::kernel(const std::string& expression) {
  if (!module_)
    throw GpuUnavailable(cat(expression, ": this program was built for ", to_string(device_)));
  return module_->kernel(image_.symbol(expression), expression);
}

std::shared_ptr<HostKernel> Program::host_kernel(const std::string& expression) {
  return host_module(expression).kernel(image_.symbol(expression), expression);
}

Module::Global Program::global(const std::string& name) {
  const std::string lowered = image_.symbol(cat('&', name));
  const std::string symbol = lowered[0] == '&' ? name : lowered;
  return module_ ? module_->global(symbol, name) : host_module(name).global(symbol, name);
}

std::string Program::ptx() const {
  CompileRequest request = request_;
  request.want_ptx = true;
  std::string text = compile_cached(request).bytes;
  while (!text.empty() && text.back() == '\0') text.pop_back();
  return text;
}

}  // namespace gpk::jit

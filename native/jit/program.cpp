#include "jit/program.h"

#include <map>
#include <mutex>

#include "base/error.h"
#include "base/per_process.h"
#include "base/text.h"
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

constexpr int kSyntaxCheckSm = 80;  // the CPU device has no architecture of its own

}  // namespace

std::shared_ptr<Program> Program::build(const CompileRequest& request, Device device) {
  CompileRequest targeted = request;
  apply_include_policy(targeted);
  targeted.sm = device.is_cuda() ? device_traits(device).sm : kSyntaxCheckSm;
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

Program::Program(CompileRequest request, Device device)
    : request_(std::move(request)), device_(device) {
  try {
    image_ = compile_cached(request_);
  } catch (const NvrtcError& error) {
    if (error.code() != NvrtcCode::kNotLoaded || device.is_cuda()) throw;
    return;
  }
  compiled_ = true;
  if (device.is_cuda()) module_ = load(Context::get(device.index), image_.bytes, request_.name);
}

void Program::require_module(const std::string& name) const {
  if (!module_)
    throw GpuUnavailable(cat(name, ": custom kernels need a GPU, this program runs on ",
                             to_string(device_), "; ", default_device_choice().reason));
}

std::shared_ptr<Kernel> Program::kernel(const std::string& expression) {
  require_module(expression);
  return module_->kernel(image_.symbol(expression), expression);
}

Module::Global Program::global(const std::string& name) {
  require_module(name);
  const std::string lowered = image_.symbol(cat('&', name));
  return module_->global(lowered[0] == '&' ? name : lowered, name);
}

std::string Program::ptx() const {
  CompileRequest request = request_;
  request.want_ptx = true;
  std::string text = compile_cached(request).bytes;
  while (!text.empty() && text.back() == '\0') text.pop_back();
  return text;
}

}  // namespace gpk::jit

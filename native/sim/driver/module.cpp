// Modules and functions.
#include <algorithm>
#include <cstring>

#include "base/text.h"
#include "base/text_id.h"
#include "sim/driver/machine.h"

namespace gpk::sim::driver {
namespace {

constexpr int kDefaultShared = 48 * 1024;
constexpr int kReservedShared = 1024;  // per block, by the system
constexpr int kMaxBlocksPerSm = 32;

bool is_machine_code(const void* image) {
  const auto* bytes = static_cast<const unsigned char*>(image);
  return bytes[0] == 0x7f || bytes[0] >= 0x80 || bytes[0] == 'P';  // ELF, or a fat binary
}

int max_dynamic_shared(const SimFunction& function) {
  return function.max_dynamic_shared.value_or(
      kDefaultShared - static_cast<int>(function.kernel->static_shared_bytes()));
}

int blocks_per_sm(const SimFunction& function, int threads, std::size_t dynamic_bytes) {
  const DeviceModel& model = *find_device(function.module->device);
  const auto shared = static_cast<int>(function.kernel->static_shared_bytes() + dynamic_bytes);
  return std::min({kMaxBlocksPerSm, model.threads_per_sm / threads,
                   model.shared_per_sm_bytes / (shared + kReservedShared)});
}

bool place_all_globals(LoadedModule& module) {
  for (const GlobalVariable& variable : module.program->globals()) {
    const std::uint64_t address = machine().allocations.allocate(
        variable.bytes, std::max<std::size_t>(variable.align, 16), MemoryKind::kGlobal,
        module.device, cat(variable.constant ? "__constant__ " : "__device__ ", variable.name));
    if (address == 0) return false;
    module.global_addresses.push_back(address);
  }
  place_globals(*module.program, module.global_addresses);
  return true;
}

void free_globals(const LoadedModule& module) {
  for (const std::uint64_t address : module.global_addresses)
    machine().allocations.free(address, MemoryKind::kGlobal);
}

}  // namespace

void write_log(std::string_view log, unsigned num_options, const int* options, void** values) {
  char* text = nullptr;
  std::size_t size = 0;
  for (unsigned i = 0; i < num_options; ++i) {
    if (options[i] == kJitErrorLog) text = static_cast<char*>(values[i]);
    if (options[i] == kJitErrorLogBytes) size = reinterpret_cast<std::size_t>(values[i]);
  }
  if (text == nullptr || size == 0) return;
  const std::size_t length = std::min(size - 1, log.size());
  std::memcpy(text, log.data(), length);
  text[length] = '\0';
}

Result cuModuleLoadDataEx(Module* module, const void* image, unsigned num_options, int* options,
                          void** values) {
  int sm = 0;
  int device = 0;
  {
    const Call call(Need::kContext);
    if (call.refused() != kSuccess) return call.refused();
    if (image == nullptr) return kInvalidValue;
    if (const Result result = check_unsafe_call(); result != kSuccess) return result;
    device = current_context()->device;
    sm = find_device(device)->sm;
  }
  if (is_machine_code(image)) {
    write_log(
        "the simulator runs PTX text; this image is machine code (a cubin or fat binary). "
        "Compile to PTX: -arch=compute_XX",
        num_options, options, values);
    return kNoBinaryForGpu;
  }
  auto made = std::make_shared<LoadedModule>();
  made->device = device;
  try {  // without the lock: streams go on
    made->program = sim::Module::parse(static_cast<const char*>(image), sm);
    made->text_id = text_id(static_cast<const char*>(image));
  } catch (const PtxError& error) {
    write_log(error.what(), num_options, options, values);
    return kInvalidPtx;
  } catch (const std::bad_alloc&) {
    return kOutOfMemory;
  }
  const Call call(Need::kContext);
  if (call.refused() != kSuccess) return call.refused();
  if (!place_all_globals(*made)) {
    free_globals(*made);
    return kOutOfMemory;
  }
  *module = machine().modules.add(std::move(made));
  return kSuccess;
}

// Text is its own machine code here, as cuModuleLoadDataEx takes it.
Result cuLinkCreate(unsigned, int*, void**, LinkState* link) {
  const Call call(Need::kContext);
  if (call.refused() != kSuccess) return call.refused();
  *link = machine().links.add(std::make_shared<std::string>());
  return kSuccess;
}

Result cuLinkAddData(LinkState link, int type, void* data, std::size_t bytes, const char*, unsigned,
                     int*, void**) {
  const Call call(Need::kContext);
  if (call.refused() != kSuccess) return call.refused();
  std::string* found = machine().links.find(link);
  if (found == nullptr) return kInvalidHandle;
  if (type != kJitInputPtx || bytes == 0 || !found->empty()) return kInvalidValue;
  found->assign(static_cast<const char*>(data), bytes);
  if (found->back() != '\0') found->push_back('\0');
  return kSuccess;
}

Result cuLinkComplete(LinkState link, void** image, std::size_t* bytes) {
  const Call call(Need::kContext);
  if (call.refused() != kSuccess) return call.refused();
  std::string* found = machine().links.find(link);
  if (found == nullptr) return kInvalidHandle;
  *image = found->data();
  *bytes = found->size();
  return kSuccess;
}

Result cuLinkDestroy(LinkState link) {
  const Call call(Need::kLive);
  if (call.refused() != kSuccess) return call.refused();
  return machine().links.erase(link) ? kSuccess : kInvalidHandle;
}

Result cuModuleUnload(Module module) {
  Call call(Need::kContext);
  if (call.refused() != kSuccess) return call.refused();
  const std::shared_ptr<LoadedModule> found = machine().modules.share(module);
  if (found == nullptr) return kInvalidHandle;
  if (const Result result = check_unsafe_call(); result != kSuccess) return result;
  call.wait_for_device(found->device);
  std::vector<Function> gone;
  for (auto& [handle, function] : machine().functions)
    if (function->module == found) gone.push_back(handle);
  for (const Function handle : gone) machine().functions.erase(handle);
  if (!machine().modules.erase(module)) return kInvalidHandle;  // another thread was faster
  free_globals(*found);
  return kSuccess;
}

Result cuModuleGetFunction(Function* function, Module module, const char* name) {
  const Call call(Need::kLive);
  if (call.refused() != kSuccess) return call.refused();
  const std::shared_ptr<LoadedModule> found = machine().modules.share(module);
  if (found == nullptr) return kInvalidHandle;
  const Kernel* kernel = found->program->find(name);
  if (kernel == nullptr) return kNotFound;
  for (auto& [handle, known] : machine().functions)
    if (known->kernel == kernel && known->module == found) return *function = handle, kSuccess;
  auto made = std::make_shared<SimFunction>();
  made->module = found;
  made->kernel = kernel;
  *function = machine().functions.add(std::move(made));
  return kSuccess;
}

Result cuModuleGetGlobal(DevicePtr* ptr, std::size_t* bytes, Module module, const char* name) {
  const Call call(Need::kLive);
  if (call.refused() != kSuccess) return call.refused();
  const LoadedModule* found = machine().modules.find(module);
  if (found == nullptr) return kInvalidHandle;
  const auto variables = found->program->globals();
  for (std::size_t i = 0; i < variables.size(); ++i) {
    if (variables[i].name != name) continue;
    if (ptr != nullptr) *ptr = found->global_addresses[i];
    if (bytes != nullptr) *bytes = variables[i].bytes;
    return kSuccess;
  }
  return kNotFound;
}

Result cuFuncGetAttribute(int* value, int attribute, Function function) {
  const Call call(Need::kLive);
  if (call.refused() != kSuccess) return call.refused();
  const SimFunction* found = machine().functions.find(function);
  if (found == nullptr) return kInvalidHandle;
  const Kernel& kernel = *found->kernel;
  switch (attribute) {
    case kFuncMaxThreadsPerBlock: *value = static_cast<int>(kernel.max_threads()); break;
    case kFuncSharedBytes: *value = static_cast<int>(kernel.static_shared_bytes()); break;
    case kFuncLocalBytes: *value = static_cast<int>(kernel.local_bytes()); break;
    case kFuncConstBytes:
    case kFuncNumRegs: *value = 0; break;  // registers are allocated by ptxas, which is not here
    case kFuncPtxVersion:
    case kFuncBinaryVersion: *value = find_device(found->module->device)->sm; break;
    case kFuncMaxDynamicSharedBytes: *value = max_dynamic_shared(*found); break;
    case kFuncNonPortableClusterAllowed: *value = found->large_clusters ? 1 : 0; break;
    default: return kInvalidValue;
  }
  return kSuccess;
}

Result cuFuncSetAttribute(Function function, int attribute, int value) {
  const Call call(Need::kLive);
  if (call.refused() != kSuccess) return call.refused();
  SimFunction* found = machine().functions.find(function);
  if (found == nullptr) return kInvalidHandle;
  const int static_bytes = static_cast<int>(found->kernel->static_shared_bytes());
  if (attribute == kFuncNonPortableClusterAllowed) {
    found->large_clusters = value != 0;
  } else if (attribute == kFuncMaxDynamicSharedBytes && value >= 0 &&
             value <= optin_shared(found->module->device) - static_bytes) {
    found->max_dynamic_shared = value;
  } else {
    return kInvalidValue;
  }
  return kSuccess;
}

Result cuFuncGetParamInfo(Function function, std::size_t index, std::size_t* offset,
                          std::size_t* bytes) {
  const Call call(Need::kLive);
  if (call.refused() != kSuccess) return call.refused();
  const SimFunction* found = machine().functions.find(function);
  if (found == nullptr) return kInvalidHandle;
  const auto params = found->kernel->params();
  if (index >= params.size()) return kInvalidValue;
  *offset = params[index].offset;
  if (bytes != nullptr) *bytes = params[index].bytes;
  return kSuccess;
}

Result cuOccupancyMaxPotentialBlockSize(int* grid, int* block, Function function,
                                        std::size_t (*shared_bytes)(int),
                                        std::size_t dynamic_shared_bytes, int block_limit) {
  const Call call(Need::kLive);
  if (call.refused() != kSuccess) return call.refused();
  const SimFunction* found = machine().functions.find(function);
  if (found == nullptr) return kInvalidHandle;
  int limit = static_cast<int>(found->kernel->max_threads());
  if (block_limit > 0) limit = std::min(limit, block_limit);
  int best_threads = 0;
  for (int threads = std::max(limit / 32 * 32, 1); threads > 0; threads -= 32) {
    const std::size_t dynamic =
        shared_bytes == nullptr ? dynamic_shared_bytes : shared_bytes(threads);
    const int blocks = blocks_per_sm(*found, threads, dynamic);
    if (blocks * threads <= best_threads) continue;
    best_threads = blocks * threads;
    *block = threads;
    *grid = blocks * find_device(found->module->device)->num_sms;
  }
  return best_threads == 0 ? kInvalidValue : kSuccess;
}

Result check_shape(const SimFunction& function, const LaunchShape& shape) {
  const auto volume = [](const Dim3& v) { return std::uint64_t{v.x} * v.y * v.z; };
  const std::uint64_t threads = volume(shape.block);
  if (volume(shape.grid) == 0 || threads == 0 || threads > 1024 || shape.block.z > 64 ||
      shape.grid.y > 65535 || shape.grid.z > 65535)
    return kInvalidValue;
  if (threads > function.kernel->max_threads()) return kLaunchOutOfResources;
  const Dim3 required = function.kernel->required_block();
  if (required.x != 0 && !(required == shape.block)) return kInvalidValue;
  if (shape.dynamic_shared_bytes >
      static_cast<std::size_t>(std::max(max_dynamic_shared(function), 0)))
    return kInvalidValue;
  const std::uint64_t blocks = volume(shape.cluster);
  if (blocks == 0 || blocks > (function.large_clusters ? 16U : 8U)) return kInvalidClusterSize;
  if (blocks > 1 && find_device(function.module->device)->sm < 90) return kInvalidClusterSize;
  if (shape.grid.x % shape.cluster.x != 0 || shape.grid.y % shape.cluster.y != 0 ||
      shape.grid.z % shape.cluster.z != 0)
    return kInvalidClusterSize;
  return kSuccess;
}

}  // namespace gpk::sim::driver

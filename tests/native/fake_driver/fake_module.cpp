// Modules, functions and launches.
#include <algorithm>
#include <cstring>
#include <utility>

#include "fake_driver/fake_state.h"

namespace fake {
namespace {

constexpr int kDefaultShared = 48 * 1024;

FakeFunction* find_function(cu::Function function) {
  const auto found = state().functions.find(function);
  return found == state().functions.end() ? nullptr : found->second;
}

int optin_shared(int device) {
  int bytes = 0;
  impl::cuDeviceGetAttribute(&bytes, cu::kAttrMaxSharedPerBlockOptin, device);
  return bytes;
}

int attribute_of(const FakeFunction& function, int attribute) {
  if (const auto found = function.attributes.find(attribute); found != function.attributes.end())
    return found->second;
  const auto& settings = state().settings.attributes;
  if (const auto named = settings.find(function.name); named != settings.end())
    if (const auto found = named->second.find(attribute); found != named->second.end())
      return found->second;
  switch (attribute) {
    case cu::kFuncMaxThreadsPerBlock: return 1024;
    case cu::kFuncNumRegs: return 32;
    case cu::kFuncPtxVersion:
    case cu::kFuncBinaryVersion:
      return state().devices[static_cast<std::size_t>(function.device)].sm;
    case cu::kFuncMaxDynamicSharedBytes:
      return kDefaultShared - attribute_of(function, cu::kFuncSharedBytes);
    default: return 0;
  }
}

Result check_sizes(const FakeFunction& function, const Launch& launch) {
  const auto volume = [](const unsigned v[3]) { return std::size_t{v[0]} * v[1] * v[2]; };
  const auto threads = volume(launch.block);
  if (volume(launch.grid) == 0 || threads == 0) return cu::kInvalidValue;
  if (threads > 1024) return cu::kInvalidValue;
  if (threads > static_cast<std::size_t>(attribute_of(function, cu::kFuncMaxThreadsPerBlock)))
    return cu::kLaunchOutOfResources;
  if (launch.shared_bytes >
      static_cast<unsigned>(attribute_of(function, cu::kFuncMaxDynamicSharedBytes)))
    return cu::kInvalidValue;
  const auto blocks = volume(launch.cluster);
  if (blocks == 0) return cu::kSuccess;
  const bool large = attribute_of(function, cu::kFuncNonPortableClusterAllowed) != 0;
  if (blocks > (large ? 16u : 8u)) return kInvalidClusterSize;
  for (int axis = 0; axis < 3; ++axis)
    if (launch.grid[axis] % launch.cluster[axis] != 0) return kInvalidClusterSize;
  return cu::kSuccess;
}

Result launch_on(const char* call, cu::Function handle, Launch launch, void** params) {
  const FakeContext* context = current_context();
  if (context == nullptr) return cu::kInvalidContext;
  const FakeFunction* function = find_function(handle);
  FakeStream* stream = find_stream(launch.stream);
  if (function == nullptr || stream == nullptr) return cu::kInvalidHandle;
  if (stream->device != function->device) return cu::kInvalidHandle;
  if (context->device != function->device) return cu::kInvalidContext;
  if (stream->num_sms != 0 &&
      !state().devices[static_cast<std::size_t>(stream->device)].green_launches)
    return cu::kInvalidContext;
  launch.function = function->name;
  launch.stream = stream->handle;
  if (const Result result = check_sizes(*function, launch); result != cu::kSuccess) return result;
  const std::vector<std::size_t> sizes = param_sizes(*function);
  if (!sizes.empty() && params == nullptr) return cu::kInvalidValue;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const auto* bytes = static_cast<const std::byte*>(params[i]);
    launch.args.emplace_back(bytes, bytes + sizes[i]);
  }
  Node node;
  node.launch = std::move(launch);
  return submit(*stream, call, std::move(node));
}

// Fills the error log that the caller requested.
void write_log(const std::string& log, unsigned num_options, const int* options, void** values) {
  char* text = nullptr;
  std::size_t size = 0;
  for (unsigned i = 0; i < num_options; ++i) {
    if (options[i] == cu::kJitErrorLog) text = static_cast<char*>(values[i]);
    if (options[i] == cu::kJitErrorLogBytes) size = reinterpret_cast<std::size_t>(values[i]);
  }
  if (text == nullptr || size == 0) return;
  const std::size_t length = std::min(size - 1, log.size());
  std::memcpy(text, log.data(), length);
  text[length] = '\0';
}

}  // namespace

std::vector<std::size_t> param_sizes(const FakeFunction& function) {
  const auto& settings = state().settings.param_sizes;
  if (const auto found = settings.find(function.name); found != settings.end())
    return found->second;
  if (function.ptx_params) return *function.ptx_params;
  const BuiltinKernel* builtin = find_builtin(function.name);
  return builtin == nullptr ? std::vector<std::size_t>{} : builtin->param_sizes;
}

void set_param_sizes(const std::string& function, std::vector<std::size_t> sizes_bytes) {
  const std::lock_guard lock(mutex());
  state().settings.param_sizes[function] = std::move(sizes_bytes);
}

void set_function_attribute(const std::string& function, int attribute, int value) {
  const std::lock_guard lock(mutex());
  state().settings.attributes[function][attribute] = value;
}

void set_missing(const std::string& function) {
  const std::lock_guard lock(mutex());
  state().settings.missing.insert(function);
}

void set_global(const std::string& variable, std::size_t bytes) {
  const std::lock_guard lock(mutex());
  state().settings.globals[variable] = bytes;
}

void set_body(const std::string& function, KernelBody body) {
  const std::lock_guard lock(mutex());
  state().settings.bodies[function] = std::move(body);
}

void fail_module_load(Result code, const std::string& log) {
  const std::lock_guard lock(mutex());
  state().settings.module_failure = {code, log};
}

namespace impl {

Result cuModuleLoadDataEx(Module* module, const void* image, unsigned num_options, int* options,
                          void** values) {
  const FakeContext* context = current_context();
  if (context == nullptr) return kInvalidContext;
  if (image == nullptr) return kInvalidValue;
  if (const Result result = check_unsafe_call(); result != kSuccess) return result;
  if (auto failure = std::exchange(state().settings.module_failure, std::nullopt)) {
    write_log(failure->second, num_options, options, values);
    return failure->first;
  }
  auto made = std::make_unique<FakeModule>();
  made->device = context->device;
  const auto* bytes = static_cast<const unsigned char*>(image);
  const bool binary = bytes[0] == 0x7f || bytes[0] >= 0x80;  // ELF or fatbin
  if (!binary) made->text = static_cast<const char*>(image);
  *module = state().modules.add(std::move(made));
  return kSuccess;
}

// Text is its own machine code here, as cuModuleLoadDataEx takes it.
Result cuLinkCreate(unsigned, int*, void**, LinkState* link) {
  if (current_context() == nullptr) return kInvalidContext;
  *link = state().links.add(std::make_unique<FakeLink>());
  return kSuccess;
}

Result cuLinkAddData(LinkState link, int type, void* data, std::size_t bytes, const char*, unsigned,
                     int*, void**) {
  FakeLink* found = state().links.find(link);
  if (found == nullptr) return kInvalidHandle;
  if (type != kJitInputPtx || bytes == 0) return kInvalidValue;
  if (auto failure = std::exchange(state().settings.module_failure, std::nullopt))
    return failure->first;
  found->text.assign(static_cast<const char*>(data), bytes);
  return kSuccess;
}

Result cuLinkComplete(LinkState link, void** image, std::size_t* bytes) {
  FakeLink* found = state().links.find(link);
  if (found == nullptr) return kInvalidHandle;
  *image = found->text.data();
  *bytes = found->text.size();
  return kSuccess;
}

Result cuLinkDestroy(LinkState link) {
  if (state().links.find(link) == nullptr) return kInvalidHandle;
  state().links.erase(link);
  return kSuccess;
}

Result cuModuleUnload(Module module) {
  FakeModule* found = state().modules.find(module);
  if (found == nullptr) return kInvalidHandle;
  if (const Result result = check_unsafe_call(); result != kSuccess) return result;
  for (auto& [handle, function] : found->functions) state().functions.erase(handle);
  for (auto& [name, storage] : found->globals)
    state().globals.erase(reinterpret_cast<std::uintptr_t>(storage.data()));
  state().modules.erase(module);
  return kSuccess;
}

Result cuModuleGetFunction(Function* function, Module module, const char* name) {
  FakeModule* found = state().modules.find(module);
  if (found == nullptr) return kInvalidHandle;
  if (state().settings.missing.count(name) > 0) return kNotFound;
  for (auto& [handle, known] : found->functions)
    if (known->name == name) return *function = handle, kSuccess;
  auto made = std::make_unique<FakeFunction>();
  made->module = module;
  made->device = found->device;
  made->name = name;
  if (has_ptx_entries(found->text)) {
    made->ptx_params = ptx_param_sizes(found->text, name);
    if (!made->ptx_params) return kNotFound;
  }
  FakeFunction* pointer = made.get();
  *function = found->functions.add(std::move(made));
  state().functions[*function] = pointer;
  return kSuccess;
}

Result cuModuleGetGlobal(DevicePtr* ptr, std::size_t* bytes, Module module, const char* name) {
  FakeModule* found = state().modules.find(module);
  if (found == nullptr) return kInvalidHandle;
  const auto known = state().settings.globals.find(name);
  if (known == state().settings.globals.end()) return kNotFound;
  constexpr std::size_t kUnit = sizeof(std::max_align_t);
  auto& storage = found->globals[name];
  if (storage.empty()) storage.resize((known->second + kUnit - 1) / kUnit);
  state().globals[reinterpret_cast<std::uintptr_t>(storage.data())] = {known->second,
                                                                       found->device};
  if (ptr != nullptr) *ptr = reinterpret_cast<DevicePtr>(storage.data());
  if (bytes != nullptr) *bytes = known->second;
  return kSuccess;
}

Result cuFuncGetAttribute(int* value, int attribute, Function function) {
  const FakeFunction* found = find_function(function);
  if (found == nullptr) return kInvalidHandle;
  *value = attribute_of(*found, attribute);
  return kSuccess;
}

Result cuFuncSetAttribute(Function function, int attribute, int value) {
  FakeFunction* found = find_function(function);
  if (found == nullptr) return kInvalidHandle;
  if (attribute != kFuncMaxDynamicSharedBytes && attribute != kFuncNonPortableClusterAllowed)
    return kInvalidValue;
  if (attribute == kFuncMaxDynamicSharedBytes &&
      value > optin_shared(found->device) - attribute_of(*found, kFuncSharedBytes))
    return kInvalidValue;
  found->attributes[attribute] = value;
  return kSuccess;
}

Result cuFuncGetParamInfo(Function function, std::size_t index, std::size_t* offset,
                          std::size_t* bytes) {
  const FakeFunction* found = find_function(function);
  if (found == nullptr) return kInvalidHandle;
  const std::vector<std::size_t> sizes = param_sizes(*found);
  if (index >= sizes.size()) return kInvalidValue;
  std::size_t at = 0;
  for (std::size_t i = 0; i <= index; ++i) {
    const std::size_t lowest_bit = sizes[i] & (~sizes[i] + 1);
    const std::size_t alignment = std::clamp<std::size_t>(lowest_bit, 1, 8);
    at = (at + alignment - 1) / alignment * alignment;
    if (i < index) at += sizes[i];
  }
  *offset = at;
  if (bytes != nullptr) *bytes = sizes[index];
  return kSuccess;
}

Result cuOccupancyMaxPotentialBlockSize(int* grid, int* block, Function function,
                                        std::size_t (*)(int), std::size_t, int block_limit) {
  const FakeFunction* found = find_function(function);
  if (found == nullptr) return kInvalidHandle;
  *block = std::min(attribute_of(*found, kFuncMaxThreadsPerBlock), 256);
  if (block_limit > 0) *block = std::min(*block, block_limit);
  *grid = state().devices[static_cast<std::size_t>(found->device)].num_sms * (2048 / *block);
  return kSuccess;
}

Result cuLaunchKernel(Function function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                      unsigned by, unsigned bz, unsigned shared_bytes, Stream stream, void** params,
                      void**) {
  Launch launch;
  std::copy_n(std::data({gx, gy, gz}), 3, launch.grid);
  std::copy_n(std::data({bx, by, bz}), 3, launch.block);
  launch.shared_bytes = shared_bytes;
  launch.stream = stream;
  return launch_on("cuLaunchKernel", function, std::move(launch), params);
}

Result cuLaunchKernelEx(const LaunchConfig* config, Function function, void** params, void**) {
  Launch launch;
  std::copy_n(config->grid, 3, launch.grid);
  std::copy_n(config->block, 3, launch.block);
  launch.shared_bytes = config->shared_bytes;
  launch.stream = config->stream;
  for (unsigned i = 0; i < config->num_attributes; ++i) {
    const LaunchAttribute& attribute = config->attributes[i];
    switch (attribute.id) {
      case kLaunchClusterDimension:
        launch.cluster[0] = attribute.value.cluster.x;
        launch.cluster[1] = attribute.value.cluster.y;
        launch.cluster[2] = attribute.value.cluster.z;
        break;
      case kLaunchCooperative: launch.cooperative = attribute.value.flag != 0; break;
      case kLaunchProgrammaticStreamSerialization:
        launch.programmatic = attribute.value.flag != 0;
        break;
      default: return kInvalidValue;
    }
  }
  return launch_on("cuLaunchKernelEx", function, std::move(launch), params);
}

}  // namespace impl
}  // namespace fake

// Modules of any image, and kernels that are host functions.
#include <algorithm>
#include <cstring>
#include <utility>

#include "base/text.h"
#include "fake_driver/fake_state.h"

namespace fake {
namespace {

// In place of an image without PTX entries: the variables that tests asked for, no kernels.
std::string stand_in() {
  std::string text = ".version 8.0\n.target sm_50\n.address_size 64\n";
  for (const auto& [name, bytes] : state().globals)
    text += gpk::cat(".visible .global .align 16 .b8 ", name, '[', bytes, "];\n");
  return text;
}

bool has_entries(const void* image) {
  const auto* bytes = static_cast<const unsigned char*>(image);
  const bool binary = bytes[0] == 0x7f || bytes[0] >= 0x80;  // ELF or a fat binary
  return !binary && std::strstr(static_cast<const char*>(image), ".entry") != nullptr;
}

const gpk::sim::Kernel& make_kernel(const std::string& name) {
  HostKernel& made = state().kernels.emplace_back();
  gpk::sim::Function& function = made.function;
  function.name = name;
  std::vector<std::size_t> sizes;
  if (name == "scale") sizes = {8, 4, 4};
  if (const auto set = state().param_sizes.find(name); set != state().param_sizes.end())
    sizes = set->second;
  for (const std::size_t bytes : sizes) {
    const std::size_t lowest_bit = bytes & (~bytes + 1);
    const std::size_t align = std::clamp<std::size_t>(lowest_bit, 1, 8);
    const std::size_t offset = (function.param_bytes + align - 1) / align * align;
    function.kernel_params.push_back({offset, bytes, align});
    function.param_bytes = offset + bytes;
  }
  const auto attribute = [&](int which, int otherwise) {
    const auto& set = state().attributes[name];
    const auto found = set.find(which);
    return static_cast<unsigned>(found == set.end() ? otherwise : found->second);
  };
  function.max_threads = attribute(cu::kFuncMaxThreadsPerBlock, 1024);
  function.local_bytes = attribute(cu::kFuncLocalBytes, 0);
  function.shared_end = gpk::sim::kSharedReserved + attribute(cu::kFuncSharedBytes, 0);
  return made.kernel;
}

}  // namespace

void set_param_sizes(const std::string& function, std::vector<std::size_t> sizes_bytes) {
  const std::lock_guard lock(mutex());
  state().param_sizes[function] = std::move(sizes_bytes);
}

void set_function_attribute(const std::string& function, int attribute, int value) {
  const std::lock_guard lock(mutex());
  state().attributes[function][attribute] = value;
}

void set_missing(const std::string& function) {
  const std::lock_guard lock(mutex());
  state().missing.insert(function);
}

void set_global(const std::string& variable, std::size_t bytes) {
  const std::lock_guard lock(mutex());
  state().globals[variable] = bytes;
}

void set_body(const std::string& function, KernelBody body) {
  const std::lock_guard lock(mutex());
  state().bodies[function] = std::move(body);
}

void fail_module_load(Result code, const std::string& log) {
  const std::lock_guard lock(mutex());
  state().module_failure = {code, log};
}

gpk::sim::LaunchResult run_launch(const sim::KernelLaunch& given) {
  Launch launch = state().submission;
  launch.function = given.kernel->name();
  const auto copy = [](const gpk::sim::Dim3& from, unsigned* to) {
    to[0] = from.x, to[1] = from.y, to[2] = from.z;
  };
  copy(given.shape.grid, launch.grid);
  copy(given.shape.block, launch.block);
  copy(given.shape.cluster, launch.cluster);
  launch.shared_bytes = static_cast<unsigned>(given.shape.dynamic_shared_bytes);
  for (const gpk::sim::KernelParam& param : given.kernel->params()) {
    const std::byte* begin = given.params.data() + param.offset;
    launch.args.emplace_back(begin, begin + param.bytes);
  }
  state().launches.push_back(launch);
  std::vector<void*> params;
  for (auto& arg : launch.args) params.push_back(arg.data());
  const auto body = state().bodies.find(launch.function);
  if (body != state().bodies.end()) body->second(launch, params.data());
  return {};
}

void scale(const Launch& launch, void** params) {
  if (launch.args.size() != 3) return;
  float* x = nullptr;
  float factor = 0;
  int n = 0;
  std::memcpy(&x, params[0], sizeof x);
  std::memcpy(&factor, params[1], sizeof factor);
  std::memcpy(&n, params[2], sizeof n);
  for (int i = 0; i < n; ++i) x[i] *= factor;
}

namespace impl {

Result cuModuleLoadDataEx(Module* module, const void* image, unsigned num_options, int* options,
                          void** values) {
  if (const auto failure = std::exchange(state().module_failure, std::nullopt)) {
    write_log(failure->second, num_options, options, values);
    return failure->first;
  }
  if (image == nullptr || has_entries(image))
    return sim::cuModuleLoadDataEx(module, image, num_options, options, values);
  return sim::cuModuleLoadDataEx(module, stand_in().c_str(), num_options, options, values);
}

Result cuLinkAddData(LinkState link, int type, void* data, std::size_t bytes, const char* name,
                     unsigned num_options, int* options, void** values) {
  if (const auto failure = std::exchange(state().module_failure, std::nullopt))
    return failure->first;
  return sim::cuLinkAddData(link, type, data, bytes, name, num_options, options, values);
}

// PTX has the kernels that it has; other images have every one.
Result cuModuleGetFunction(Function* function, Module module, const char* name) {
  if (state().missing.contains(name)) return kNotFound;
  const std::shared_ptr<LoadedModule> found = machine().modules.share(module);
  const bool any = found != nullptr && found->program->kernels().empty();
  if (const Result result = sim::cuModuleGetFunction(function, module, name);
      result != (any ? kNotFound : kSuccess))
    return result;
  if (!any && !state().param_sizes.contains(name)) return kSuccess;
  for (auto& [handle, known] : machine().functions)
    if (known->module == found && known->kernel->name() == name)
      if (any || known->kernel != found->program->find(name)) return *function = handle, kSuccess;
  auto made = std::make_shared<SimFunction>();
  made->module = found;
  made->kernel = &make_kernel(name);
  *function = machine().functions.add(std::move(made));
  return kSuccess;
}

Result cuFuncGetAttribute(int* value, int attribute, Function function) {
  const Result result = sim::cuFuncGetAttribute(value, attribute, function);
  const SimFunction* found = machine().functions.find(function);
  if (found == nullptr || result != kSuccess) return result;
  const auto& set = state().attributes[found->kernel->name()];
  if (const auto known = set.find(attribute); known != set.end()) *value = known->second;
  return kSuccess;
}

Result cuLaunchKernelEx(const LaunchConfig* config, Function function, void** params,
                        void** extra) {
  for (unsigned i = 0; i < config->num_attributes; ++i) {
    const LaunchAttribute& attribute = config->attributes[i];
    if (attribute.id == kLaunchCooperative)
      state().submission.cooperative = attribute.value.flag != 0;
    if (attribute.id == kLaunchProgrammaticStreamSerialization)
      state().submission.programmatic = attribute.value.flag != 0;
  }
  return sim::cuLaunchKernelEx(config, function, params, extra);
}

}  // namespace impl
}  // namespace fake

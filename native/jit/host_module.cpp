#include "jit/host_module.h"

#include <algorithm>
#include <mutex>

#include "base/error.h"
#include "base/text.h"
#include "core/sim_driver.h"

namespace gpk::jit {
namespace {

// The simulated driver, with device 0's context current on this thread.
const SimDriver& entered_driver() {
  const SimDriver& sim = sim_driver();
  thread_local bool entered = false;
  if (entered) return sim;
  cu::Context context = nullptr;
  if (sim.driver.cuDevicePrimaryCtxRetain(&context, 0) != cu::kSuccess ||
      sim.driver.cuCtxSetCurrent(context) != cu::kSuccess)
    throw GpuUnavailable("the GPU simulator has no device");
  entered = true;
  return sim;
}

std::string error_name(const cu::DriverApi& api, cu::Result result) {
  const char* text = nullptr;
  api.cuGetErrorName(result, &text);
  return text == nullptr ? cat("CUDA error ", result) : text;
}

// Ranges known to the driver for one launch.
class Registered {
 public:
  Registered(const SimDriver& sim, std::span<const HostRange> ranges, bool check) : sim_(sim) {
    for (const HostRange& range : ranges) tell_content(range, check);
    for (const HostRange& range : ranges) {
      if (range.bytes == 0 || range.data == nullptr) continue;
      // Refused for a buffer that is there already: two views of it, or a variable of a module.
      if (sim_.driver.cuMemHostRegister(range.data, range.bytes, 0) != cu::kSuccess) continue;
      added_.push_back(range.data);
      sim_.sim.gpkSimNameMemory(reinterpret_cast<std::uintptr_t>(range.data), range.name.c_str());
    }
  }
  ~Registered() {
    for (void* data : added_) sim_.driver.cuMemHostUnregister(data);
  }
  Registered(const Registered&) = delete;
  Registered& operator=(const Registered&) = delete;

 private:
  // Whether anybody has written the range. Of a launch that is not checked nobody knows what it
  // writes.
  void tell_content(const HostRange& range, bool check) {
    using Content = Buffer::Content;
    const Content content = range.buffer == nullptr ? Content::kUnknown : range.buffer->content();
    if (!check) {
      if (range.buffer != nullptr) range.buffer->set_content(Content::kUnknown);
      return;
    }
    if (content == Content::kTracked) return;
    const auto address = reinterpret_cast<std::uintptr_t>(range.data);
    sim_.sim.gpkSimMarkMemory(address, range.bytes, content == Content::kUnknown ? 1 : 0);
    if (content == Content::kFresh) range.buffer->set_content(Content::kTracked);
  }

  const SimDriver& sim_;
  std::vector<void*> added_;
};

cu::Result submit(const cu::DriverApi& api, cu::Function function, const LaunchConfig& config,
                  void** params) {
  cu::LaunchAttribute cluster{};
  cluster.id = cu::kLaunchClusterDimension;
  cluster.value.cluster = {config.cluster[0], config.cluster[1], config.cluster[2]};
  cu::LaunchConfig wanted{};
  std::copy_n(config.grid, 3, wanted.grid);
  std::copy_n(config.block, 3, wanted.block);
  wanted.shared_bytes = static_cast<unsigned>(config.shared_bytes);
  wanted.attributes = &cluster;
  wanted.num_attributes = config.cluster[0] == 0 ? 0 : 1;
  return api.cuLaunchKernelEx(&wanted, function, params, nullptr);
}

}  // namespace

std::mutex& host_launch_mutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}

int host_sm() {
  const cu::DriverApi& api = sim_driver().driver;
  int major = 0;
  int minor = 0;
  api.cuDeviceGetAttribute(&major, cu::kAttrComputeCapabilityMajor, 0);
  api.cuDeviceGetAttribute(&minor, cu::kAttrComputeCapabilityMinor, 0);
  return 10 * major + minor;
}

HostKernel::HostKernel(std::shared_ptr<HostModule> module, cu::Function function, std::string name)
    : module_(std::move(module)), function_(function), name_(std::move(name)) {
  const cu::DriverApi& api = entered_driver().driver;
  const std::lock_guard lock(host_launch_mutex());
  const auto attribute = [&](int id) {
    int value = 0;
    api.cuFuncGetAttribute(&value, id, function_);
    return value;
  };
  attributes_.local_bytes = attribute(cu::kFuncLocalBytes);
  attributes_.shared_bytes = attribute(cu::kFuncSharedBytes);
  attributes_.max_threads_per_block = attribute(cu::kFuncMaxThreadsPerBlock);
  attributes_.ptx_version = attribute(cu::kFuncPtxVersion);
  attributes_.binary_version = attribute(cu::kFuncBinaryVersion);
}

std::vector<KernelParamInfo> HostKernel::params(std::size_t count) const {
  const cu::DriverApi& api = entered_driver().driver;
  const std::lock_guard lock(host_launch_mutex());
  std::vector<KernelParamInfo> found;
  for (std::size_t index = 0; index < count; ++index) {
    KernelParamInfo info;
    if (api.cuFuncGetParamInfo(function_, index, &info.offset, &info.bytes) != cu::kSuccess) break;
    found.push_back(info);
  }
  return found;
}

int HostKernel::suggested_block_size(std::size_t dynamic_shared_bytes) const {
  int grid = 0;
  int block = 0;
  const cu::DriverApi& api = entered_driver().driver;
  const std::lock_guard lock(host_launch_mutex());
  api.cuOccupancyMaxPotentialBlockSize(&grid, &block, function_, nullptr, dynamic_shared_bytes, 0);
  return block;
}

void HostKernel::run(const LaunchConfig& config, std::span<const HostRange> ranges,
                     void** params) const {
  const SimDriver& sim = entered_driver();
  const cu::DriverApi& api = sim.driver;
  const std::lock_guard lock(host_launch_mutex());
  if (config.shared_bytes > 0 &&
      api.cuFuncSetAttribute(function_, cu::kFuncMaxDynamicSharedBytes,
                             static_cast<int>(config.shared_bytes)) != cu::kSuccess)
    throw InvalidArgument(cat(name_, ": shared_mem is ", config.shared_bytes,
                              " bytes, more than the simulated GPU has for a block"));
  cu::SimOptions options{};
  sim.sim.gpkSimGetOptions(&options);
  cu::SimOptions quiet = options;  // the finding becomes the message of an exception
  quiet.log = 0;
  sim.sim.gpkSimSetOptions(&quiet);
  cu::Result result = cu::kSuccess;
  const char* call = "cuLaunchKernelEx";
  std::string fault;
  {
    const Registered known(sim, ranges, options.check != 0);
    result = submit(api, function_, config, params);
    if (result == cu::kSuccess) {
      call = "cuCtxSynchronize";
      result = api.cuCtxSynchronize();
    }
    if (result != cu::kSuccess) {  // cleared first: a lost context would keep the ranges
      fault = sim.sim.gpkSimFault();
      sim.sim.gpkSimClearFault();
    }
  }
  sim.sim.gpkSimSetOptions(&options);
  if (result == cu::kSuccess) return;  // also for a fault that goes into a report
  const std::string name = error_name(api, result);
  if (fault.empty() && result == cu::kInvalidValue)
    throw InvalidArgument(cat(name_,
                              ": the kernel cannot be launched with this grid, block, "
                              "cluster or shared memory"));
  throw CudaError(cat(name_, ": ", name, fault.empty() ? "" : ": ", fault), result, name, call, {});
}

std::shared_ptr<HostModule> HostModule::load(const std::string& ptx, const std::string& name) {
  const SimDriver& sim = entered_driver();
  std::string log(8192, '\0');
  int options[] = {cu::kJitErrorLog, cu::kJitErrorLogBytes};
  void* values[] = {log.data(), reinterpret_cast<void*>(log.size())};
  cu::Module handle = nullptr;
  const std::lock_guard lock(host_launch_mutex());
  const cu::Result result = sim.driver.cuModuleLoadDataEx(&handle, ptx.c_str(), 2, options, values);
  if (result != cu::kSuccess) {
    log.resize(std::min(log.find('\0'), log.size()));
    throw NvrtcError(cat("jit: ", name, " cannot run in the simulator: ", log),
                     NvrtcCode::kPtxLoadFailed, log);
  }
  return std::shared_ptr<HostModule>(new HostModule(handle, name));
}

HostModule::~HostModule() {
  try {
    const std::lock_guard lock(host_launch_mutex());
    entered_driver().driver.cuModuleUnload(handle_);
  } catch (...) {  // a thread without a context: the module stays
  }
}

std::shared_ptr<HostKernel> HostModule::kernel(const std::string& symbol,
                                               const std::string& display_name) {
  cu::Function function = nullptr;
  const cu::DriverApi& api = entered_driver().driver;
  {
    const std::lock_guard lock(host_launch_mutex());
    if (api.cuModuleGetFunction(&function, handle_, symbol.c_str()) != cu::kSuccess)
      throw NvrtcError(cat("jit: ", name_, " has no kernel '", display_name, "'"),
                       NvrtcCode::kFunctionNotFound);
  }
  return std::make_shared<HostKernel>(shared_from_this(), function, display_name);
}

Module::Global HostModule::global(const std::string& symbol, const std::string& display_name) {
  Module::Global global;
  const std::lock_guard lock(host_launch_mutex());
  if (entered_driver().driver.cuModuleGetGlobal(&global.ptr, &global.bytes, handle_,
                                                symbol.c_str()) != cu::kSuccess)
    throw NvrtcError(
        cat("jit: ", name_, " has no __device__ or __constant__ variable '", display_name, "'"),
        NvrtcCode::kFunctionNotFound);
  return global;
}

}  // namespace gpk::jit

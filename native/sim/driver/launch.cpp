// Launches: submitted by the caller, run by a stream's thread.
#include <cstring>
#include <stdexcept>

#include "base/text.h"
#include "sim/driver/machine.h"
#include "sim/driver/report.h"

namespace gpk::sim::driver {
namespace {

Result result_of(const std::string& kind) {
  if (kind == "out of bounds") return kIllegalAddress;
  if (kind == "misaligned") return kMisalignedAddress;
  if (kind == "assert") return kAssert;
  if (kind == "deadlock") return kLaunchTimeout;
  if (kind == "invalid") return kIllegalInstruction;
  return kLaunchFailed;  // a trap, or a barrier that cannot complete
}

LaunchResult run_kernel(const KernelLaunch& launch, const GlobalMemory& memory,
                        const SimOptions& options) {
  if (machine().seams.run != nullptr) return machine().seams.run(launch);
  std::vector<const void*> params;
  for (const KernelParam& param : launch.kernel->params())
    params.push_back(launch.params.data() + param.offset);
  LaunchOptions wanted;
  wanted.check = options.check != 0;
  wanted.check_races = options.check_races != 0;
  wanted.counts = options.counts != 0;
  wanted.seed = options.seed;
  wanted.threads = options.threads;
  const auto& [x, y, z] = options.trace_block;
  wanted.trace = {{x, y, z}, options.trace_warp, options.trace_steps};
  try {
    return sim::run(*launch.kernel, launch.shape, params.data(), launch.module->global_addresses,
                    memory, wanted);
  } catch (const std::exception& error) {
    LaunchResult failed;
    failed.ok = false;
    Finding finding;
    finding.kind = "invalid";
    finding.kernel = launch.kernel->name();
    finding.text = error.what();
    failed.findings.push_back(std::move(finding));
    return failed;
  }
}

Result launch_on(Function handle, LaunchShape shape, bool has_cluster, Stream stream_handle,
                 void** params, void** extra) {
  const Call call(Need::kContext);
  if (call.refused() != kSuccess) return call.refused();
  const SimFunction* function = machine().functions.find(handle);
  SimStream* stream = find_stream(stream_handle);
  if (function == nullptr || stream == nullptr) return kInvalidHandle;
  if (stream->device != function->module->device) return kInvalidHandle;
  if (current_context()->device != stream->device) return kInvalidContext;
  if (stream->num_sms != 0 && !find_device(stream->device)->green_launches) return kInvalidContext;
  if (const Dim3 required = function->kernel->required_cluster(); required.x != 0) {
    if (has_cluster && !(shape.cluster == required)) return kInvalidClusterSize;
    shape.cluster = required;
  }
  if (const Result result = check_shape(*function, shape); result != kSuccess) return result;
  auto packed = pack_params(*function->kernel, params, extra);
  if (!packed) return kInvalidValue;
  Node node;
  node.launch = KernelLaunch{function->module, function->kernel, shape, std::move(*packed)};
  return submit(*stream, std::move(node));
}

}  // namespace

std::optional<std::vector<std::byte>> pack_params(const Kernel& kernel, void** params,
                                                  void** extra) {
  std::vector<std::byte> packed(kernel.param_bytes());
  const auto wanted = kernel.params();
  if (wanted.empty()) return packed;
  if (params != nullptr) {
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (params[i] == nullptr) return std::nullopt;
      std::memcpy(packed.data() + wanted[i].offset, params[i], wanted[i].bytes);
    }
    return packed;
  }
  const void* buffer = nullptr;
  std::size_t bytes = 0;
  for (std::size_t i = 0; extra != nullptr && extra[i] != nullptr; i += 2) {
    const auto key = reinterpret_cast<std::uintptr_t>(extra[i]);
    if (key == 1) buffer = extra[i + 1];  // CU_LAUNCH_PARAM_BUFFER_POINTER
    if (key == 2) std::memcpy(&bytes, extra[i + 1], sizeof bytes);
  }
  if (buffer == nullptr || bytes < wanted.back().offset + wanted.back().bytes) return std::nullopt;
  std::memcpy(packed.data(), buffer, std::min(bytes, packed.size()));
  return packed;
}

void run_node(const Node& node, SimContext& context) {
  std::shared_ptr<const GlobalMemory> memory;
  SimOptions options{};
  {
    const std::lock_guard lock(machine().mutex);
    if (context.lost != kSuccess) return;
    if (node.launch) memory = machine().allocations.snapshot();
    options = machine().options;
  }
  if (node.launch) memory = machine().arrays.bounded(std::move(memory));
  if (node.launch && options.check != 0)
    memory = machine().allocations.fresh().watched(std::move(memory));
  else if (node.launch)
    machine().allocations.fresh().write_all();
  if (!node.launch) return node.effect();
  const LaunchResult result = run_kernel(*node.launch, *memory, options);
  const std::lock_guard lock(machine().mutex);
  record_launch(*node.launch, result, options);
  if (result.ok || options.record != 0) return;  // a report goes on to the next launch
  const Finding* first = result.findings.empty() ? nullptr : &result.findings.front();
  context.lost = first == nullptr ? kLaunchFailed : result_of(first->kind);
  machine().fault = first == nullptr ? std::string() : to_string(*first);
}

Result cuLaunchKernel(Function function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                      unsigned by, unsigned bz, unsigned shared_bytes, Stream stream, void** params,
                      void** extra) {
  const LaunchShape shape{{gx, gy, gz}, {bx, by, bz}, {1, 1, 1}, shared_bytes};
  return launch_on(function, shape, false, stream, params, extra);
}

Result cuLaunchKernelEx(const LaunchConfig* config, Function function, void** params,
                        void** extra) {
  LaunchShape shape{{config->grid[0], config->grid[1], config->grid[2]},
                    {config->block[0], config->block[1], config->block[2]},
                    {1, 1, 1},
                    config->shared_bytes};
  bool has_cluster = false;
  for (unsigned i = 0; i < config->num_attributes; ++i) {
    const LaunchAttribute& attribute = config->attributes[i];
    switch (attribute.id) {
      case kLaunchClusterDimension:
        shape.cluster = {attribute.value.cluster.x, attribute.value.cluster.y,
                         attribute.value.cluster.z};
        has_cluster = true;
        break;
      case kLaunchCooperative:
      case kLaunchProgrammaticStreamSerialization: break;  // kernels of a stream run in turn
      default: return kInvalidValue;
    }
  }
  return launch_on(function, shape, has_cluster, config->stream, params, extra);
}

}  // namespace gpk::sim::driver

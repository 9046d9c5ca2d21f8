#include "ops/chain/chain.h"

#include "base/text.h"
#include "core/context.h"
#include "device/host_copy.h"
#include "ops/counters.h"
#include "ops/device_address.h"
#include "ops/kernel_table.h"
#include "ops/submit.h"

namespace gpk::ops {

using chain::NotChained;
using chain::Recorder;

std::unique_ptr<Chain> Chain::record(Device device, const std::function<void()>& launches,
                                     std::string& why) {
  if (!device.is_cuda()) {
    why = "the device is the CPU";
    return nullptr;
  }
  try {
    const Context& context = Context::get(device.index);
    if (!context.traits().cooperative_launch)
      Recorder::refuse("the device has no cooperative launches");
    chain::Recording recording;
    {
      Recorder recorder;
      launches();
      recording = recorder.take();
    }
    const chain::ChainPlan plan = plan_chain(recording, plan::machine_of(context));
    if (!jit::is_loadable(chain_spec(plan.variant), context.traits().sm))
      Recorder::refuse("the kernel is not in the PTX bundle and NVRTC is missing");
    return std::unique_ptr<Chain>(new Chain(std::move(recording), plan, device));
  } catch (const NotChained& refused) {
    why = refused.what();
    return nullptr;
  }
}

Chain::Chain(chain::Recording recording, const chain::ChainPlan& plan, Device device)
    : recording_(std::move(recording)),
      plan_(plan),
      phases_(device::from_host(
          recording_.phases.data(),
          {static_cast<std::int64_t>(recording_.phases.size() * sizeof(kernels::ChainPhase))},
          DType::kUInt8, device)) {
  recording_.arrays.push_back(phases_);
}

void Chain::launch() const {
  const Device device = phases_.device();
  Context& context = Context::get(device.index);
  const Kernel& code = kernel(context, {Family::chain, 0, chain_key(plan_.variant)},
                              [&] { return chain_spec(plan_.variant); });
  const Array counters = zeroed_counters(device, kernels::kChainCounters + recording_.num_counters);
  std::optional<Array> parts;
  if (recording_.num_parts > 0)
    parts = Array::empty({recording_.num_parts}, DType::kFloat32, device, "chain");
  kernels::ChainArgs args{};
  args.phases = address(phases_);
  args.counters = address(counters);
  args.parts = address(parts);
  args.num_phases = static_cast<int>(recording_.phases.size());
  args.stages = plan_.stages;
  args.stage_bytes = plan_.stage_bytes;
  args.row_bytes = plan_.row_bytes;
  args.table_bytes = plan_.table_bytes;
  args.tables = recording_.tables;
  args.first_gemv = recording_.first_gemv;
  LaunchConfig config;
  config.grid[0] = static_cast<unsigned>(stream_sms(device));
  config.block[0] = kernels::kChainThreads;
  config.shared_bytes = plan_.shared_bytes;
  config.cooperative = true;
  std::vector<const Array*> arrays{&counters, parts ? &*parts : nullptr};
  for (const Array& array : recording_.arrays) arrays.push_back(&array);
  void* params[] = {&args};
  submit(code, config, arrays, params);
}

std::string Chain::explain() const {
  std::string text = cat("chain: ", to_string(plan_), "\n");
  for (const std::string& line : recording_.lines) text += cat("  ", line, "\n");
  return text;
}

}  // namespace gpk::ops

#include "device/device_sharing.h"

#include <algorithm>
#include <atomic>
#include <map>

#include "base/error.h"
#include "base/text.h"
#include "core/context.h"
#include "core/graph.h"
#include "device/memory_account.h"
#include "device/steady_clock.h"
#include "device/transfers.h"
#include "runtime/scheduler/qos_enforcement.h"
#include "runtime/sharing/partition_compute.h"

namespace gpk::device {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::pair<DeviceKind, int>, std::weak_ptr<DeviceSharing>> all;
};

Registry& registry() {
  static auto* instance = new Registry;  // never destroyed
  return *instance;
}

// Pool classes are in the order in which memory leaves the device.
runtime::PoolClass pool_class(runtime::QosClass qos) {
  return static_cast<runtime::PoolClass>(runtime::enforcement(qos).eviction_rank);
}

std::uint64_t next_member() {
  static std::atomic<std::uint64_t> next{1};
  return next++;
}

}  // namespace

std::shared_ptr<DeviceSharing> DeviceSharing::get(Device device) {
  if (device.is_cuda()) Context::get(device.index).make_current();
  Registry& sharings = registry();
  const std::lock_guard lock(sharings.mutex);
  auto& slot = sharings.all[{device.kind, device.index}];
  auto sharing = slot.lock();
  if (!sharing) {
    sharing = std::make_shared<DeviceSharing>(device);
    slot = sharing;
  }
  return sharing;
}

std::shared_ptr<DeviceSharing> DeviceSharing::find(Device device) {
  Registry& sharings = registry();
  const std::lock_guard lock(sharings.mutex);
  const auto found = sharings.all.find({device.kind, device.index});
  return found == sharings.all.end() ? nullptr : found->second.lock();
}

DeviceSharing::DeviceSharing(Device device)
    : device_(device), book_(device_traits(device).total_memory_bytes) {
  if (!device.is_cuda()) return;
  context_ = &Context::get(device.index);
  foreground_ = std::make_shared<Foreground>(*context_);
  pacer_ = std::make_shared<ComputePacer>(*context_, steady_clock());
}

void DeviceSharing::add(PartitionCore& partition) {
  const std::lock_guard lock(mutex_);
  partitions_.push_back(&partition);
}

void DeviceSharing::remove(PartitionCore& partition) noexcept {
  const std::lock_guard lock(mutex_);
  std::erase(partitions_, &partition);
}

std::shared_ptr<MemoryAccount> DeviceSharing::account_of(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  for (const PartitionCore* partition : partitions_)
    if (partition->request.name == name) return partition->account;
  return nullptr;
}

std::size_t DeviceSharing::granule_sms() const {
  const std::lock_guard lock(mutex_);
  return groups_ ? groups_->granule_sms() : 0;
}

void DeviceSharing::divide() {
  const std::lock_guard lock(mutex_);
  std::vector<PartitionCore*> asking;
  bool any_new = false;
  for (PartitionCore* partition : partitions_) {
    if (partition->request.compute > 0.0) asking.push_back(partition);
    any_new = any_new || !partition->divided;
  }
  if (!any_new) return;
  if (context_ != nullptr && !groups_tried_ && !asking.empty()) {
    forbid_in_capture("partition", "the multiprocessors are divided with its first use");
    groups_tried_ = true;
    try {
      groups_ = SmGroups::create(*context_, no_groups_);
    } catch (const DeviceLostError&) {
      throw;
    } catch (const Error& error) {
      no_groups_ = error.what();
    }
  }
  if (groups_) divide_by_groups(asking);
  for (PartitionCore* partition : asking) {
    if (partition->divided) continue;
    if (context_ == nullptr) {
      partition->compute = ComputeLimit::kSimulated;
      partition->given_compute = partition->request.compute;
    } else {
      pace(*partition);
    }
  }
  for (PartitionCore* partition : partitions_) partition->divided = true;
}

void DeviceSharing::divide_by_groups(const std::vector<PartitionCore*>& asking) {
  std::vector<double> shares;
  for (const PartitionCore* partition : asking) shares.push_back(partition->request.compute);
  runtime::SmSplit split;
  try {
    split = runtime::split_sms(groups_->total_sms(), groups_->granule_sms(), shares);
  } catch (const Error& error) {  // more partitions than granules
    no_groups_ = error.what();
    return;
  }
  for (const bool rest : {false, true}) {  // the part that takes the rest comes last
    for (std::size_t i = 0; i < asking.size(); ++i) {
      PartitionCore& partition = *asking[i];
      if (partition.divided || split.parts[i].takes_rest != rest) continue;
      const std::size_t granules = split.parts[i].given_sms / groups_->granule_sms();
      partition.green = GreenContext::create(groups_, std::max<std::size_t>(granules, 1), rest);
      if (!partition.green) {
        partition.compute_note = "no multiprocessors are free";
        continue;
      }
      partition.compute = ComputeLimit::kGreenContext;
      partition.given_compute = static_cast<double>(partition.green->num_sms()) /
                                static_cast<double>(groups_->total_sms());
      partition.divided = true;
    }
  }
}

void DeviceSharing::pace(PartitionCore& partition) {
  pacer_->shares().add(partition.member, partition.request.compute, true);
  partition.compute = ComputeLimit::kPacing;
  partition.given_compute = partition.request.compute;
  if (partition.compute_note.empty()) partition.compute_note = no_groups_;
}

PartitionCore::PartitionCore(std::shared_ptr<DeviceSharing> sharing_,
                             const PartitionRequest& request_)
    : sharing(std::move(sharing_)), request(request_), member(next_member()) {
  sharing->book().add({.name = request.name,
                       .memory_bytes = request.memory_bytes,
                       .compute = request.compute,
                       .bandwidth = request.bandwidth});
  try {
    account = MemoryAccount::open(sharing->device(), cat("partition ", request.name),
                                  request.memory_bytes, pool_class(request.qos));
    if (request.bandwidth > 0.0) bandwidth_pacer(sharing->device()).add(member, request.bandwidth);
  } catch (...) {
    sharing->book().remove(request.name);
    throw;
  }
  sharing->add(*this);
}

PartitionCore::~PartitionCore() { release(); }

void PartitionCore::release() noexcept {
  if (!account) return;
  sharing->remove(*this);
  account.reset();  // arrays that live keep it
  try {
    auto& bandwidth = bandwidth_pacer(sharing->device());
    if (bandwidth.contains(member)) bandwidth.remove(member);
    if (sharing->pacer() && sharing->pacer()->shares().contains(member))
      sharing->pacer()->shares().remove(member);
  } catch (const std::exception&) {  // removed meanwhile
  }
  sharing->book().remove(request.name);
  green.reset();
}

}  // namespace gpk::device

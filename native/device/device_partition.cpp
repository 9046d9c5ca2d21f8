#include "device/device_partition.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "base/text.h"
#include "core/context.h"
#include "core/stream_tenant.h"
#include "device/class_stream.h"
#include "device/device_sharing.h"
#include "device/memory_account.h"
#include "device/transfers.h"
#include "runtime/scheduler/qos_enforcement.h"

namespace gpk::device {
namespace {

[[noreturn]] void fail(Error::Kind kind, const std::string& message) { throw Error(kind, message); }

void check(const PartitionRequest& request) {
  const auto value = Error::Kind::kValue;
  if (request.name.empty()) fail(value, "partition: name is empty");
  const auto check_share = [&](const char* what, double share) {
    if (!(share >= 0.0 && share <= 1.0))
      fail(value, cat("partition: ", what, " of '", request.name, "' is ", share,
                      ", expected a share from 0 to 1"));
  };
  check_share("compute", request.compute);
  check_share("bandwidth", request.bandwidth);
  if (request.max_streams == 0)
    fail(value, cat("partition: max_streams of '", request.name, "' is 0, expected at least 1"));
}

void add_stats(LaunchGate::Stats& sum, const LaunchGate::Stats& one) {
  sum.num_passed += one.num_passed;
  sum.num_held += one.num_held;
  sum.held_ns += one.held_ns;
  sum.window.limit = std::max(sum.window.limit, one.window.limit);
  sum.window.num_in_flight += one.window.num_in_flight;
  sum.window.max_in_flight = std::max(sum.window.max_in_flight, one.window.max_in_flight);
  sum.window.num_launches += one.window.num_launches;
  sum.window.num_waits += one.window.num_waits;
  sum.window.wait_ns += one.window.wait_ns;
  sum.window.max_wait_ns = std::max(sum.window.max_wait_ns, one.window.max_wait_ns);
}

}  // namespace

std::shared_ptr<DevicePartition> DevicePartition::create(Device device,
                                                         const PartitionRequest& request) {
  check(request);
  auto core = std::make_shared<PartitionCore>(DeviceSharing::get(device), request);
  return std::shared_ptr<DevicePartition>(new DevicePartition(std::move(core)));
}

DevicePartition::~DevicePartition() = default;

Device DevicePartition::device() const noexcept { return core_->sharing->device(); }
const std::string& DevicePartition::name() const noexcept { return core_->request.name; }
runtime::QosClass DevicePartition::qos() const noexcept { return core_->request.qos; }

bool DevicePartition::closed() const {
  const std::lock_guard lock(mutex_);
  return !core_->account;
}

std::shared_ptr<MemoryAccount> DevicePartition::account() const {
  const std::lock_guard lock(mutex_);
  return core_->account;
}

std::shared_ptr<Stream> DevicePartition::take_stream(bool shared) {
  core_->sharing->divide();
  const std::lock_guard lock(mutex_);
  if (!core_->account) fail(Error::Kind::kState, cat("partition: '", name(), "' is closed"));
  auto least = std::min_element(slots_.begin(), slots_.end(), [](const Slot& a, const Slot& b) {
    return a.num_users < b.num_users;
  });
  if (least == slots_.end() || least->num_users > 0) {
    if (slots_.size() < core_->request.max_streams) {
      slots_.push_back({make_class_stream(core_->sharing, core_->request.qos, core_)});
      least = std::prev(slots_.end());
    } else if (!shared) {
      fail(Error::Kind::kState, cat("partition: all ", core_->request.max_streams, " streams of '",
                                    name(), "' are in use (max_streams)"));
    }
  }
  ++least->num_users;
  return least->stream;
}

void DevicePartition::release_stream(const std::shared_ptr<Stream>& stream) noexcept {
  const std::lock_guard lock(mutex_);
  for (Slot& slot : slots_)
    if (slot.stream == stream) --slot.num_users;
}

bool DevicePartition::owns(const Stream& stream) const {
  const StreamTenant* tenant = stream.tenant();
  return tenant != nullptr && tenant->owner == core_;
}

PartitionReport DevicePartition::report(bool divide) {
  if (divide) core_->sharing->divide();
  PartitionReport report;
  const std::lock_guard lock(mutex_);
  DeviceSharing& sharing = *core_->sharing;
  report.asked = core_->request;
  report.compute = core_->compute;
  report.given_compute = core_->given_compute;
  report.compute_note = core_->compute_note;
  report.granule_sms = sharing.granule_sms();
  report.total_sms = static_cast<std::size_t>(device_traits(device()).multiprocessor_count);
  if (core_->green) report.given_sms = core_->green->num_sms();
  if (core_->account) report.memory = core_->account->stats();
  if (auto& pacer = bandwidth_pacer(device()); pacer.contains(core_->member))
    report.bandwidth_bytes = pacer.stats(core_->member).used;
  report.stream_priority = class_priority(sharing, core_->request.qos);
  report.eviction_rank =
      static_cast<std::size_t>(runtime::enforcement(core_->request.qos).eviction_rank);
  report.open_streams = slots_.size();
  for (const Slot& slot : slots_)
    if (const auto* gate = static_cast<const LaunchGate*>(slot.stream->gate()); gate != nullptr)
      add_stats(report.gate, gate->stats());
  if (core_->compute == ComputeLimit::kPacing) {
    sharing.pacer()->retire();
    if (sharing.pacer()->shares().contains(core_->member))
      report.paced_ns = sharing.pacer()->shares().stats(core_->member).used;
  }
  return report;
}

void DevicePartition::check_unused() const {
  std::size_t num_users = 0;
  for (const Slot& slot : slots_) num_users += slot.num_users;
  if (num_users > 0)
    fail(Error::Kind::kState,
         cat("partition: '", name(), "' is in use: ", num_users,
             " of its streams are current or held (leave the with block, wait for its tasks)"));
  if (const auto used = core_->account->stats().used_bytes; used > 0)
    fail(Error::Kind::kState, cat("partition: '", name(), "' is in use: its arrays and tasks hold ",
                                  used, " bytes (drop or end them first)"));
}

void DevicePartition::close() {
  std::vector<Slot> slots;
  {
    const std::lock_guard lock(mutex_);
    if (!core_->account) return;
    check_unused();
    slots = slots_;
  }
  for (const Slot& slot : slots) slot.stream->synchronize();
  const std::lock_guard lock(mutex_);
  if (!core_->account) return;
  check_unused();
  core_->release();
  for (const Slot& slot : slots_) slot.stream->retire();
  slots_.clear();
}

PartitionScope::PartitionScope(std::shared_ptr<DevicePartition> partition)
    : partition_(std::move(partition)), previous_stream_(current_stream(partition_->device())) {
  if (!partition_->owns(*previous_stream_)) stream_ = partition_->acquire_stream();
  auto account = current_account(partition_->device());
  // A task of the partition goes on to use what it has reserved.
  if (auto own = partition_->account(); account == nullptr || !account->is_within(own))
    account = std::move(own);
  previous_account_ = exchange_current_account(partition_->device(), std::move(account));
  if (stream_) exchange_current_stream(stream_);
}

PartitionScope::~PartitionScope() {
  exchange_current_stream(std::move(previous_stream_));
  exchange_current_account(partition_->device(), std::move(previous_account_));
  if (stream_) partition_->release_stream(stream_);
}

std::vector<runtime::PartitionShare> device_partitions(Device device) {
  const auto sharing = DeviceSharing::find(device);
  return sharing ? sharing->book().shares() : std::vector<runtime::PartitionShare>();
}

}  // namespace gpk::device

#include "core/device_partition.h"

#include <algorithm>
#include <cmath>

#include "core/context.h"
#include "core/device_sharing.h"
#include "core/memory_account.h"
#include "core/stream_tenant.h"
#include "core/text.h"
#include "core/transfers.h"
#include "runtime/error.h"
#include "runtime/scheduler/qos_enforcement.h"

namespace gpk {
namespace {

[[noreturn]] void fail(runtime::Error::Kind kind, const std::string& message) {
  throw runtime::Error(kind, message);
}

void check(const PartitionRequest& request) {
  const auto value = runtime::Error::Kind::kValue;
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

std::shared_ptr<Stream> make_stream(const std::shared_ptr<PartitionCore>& core) {
  DeviceSharing& sharing = *core->sharing;
  const Device device = sharing.device();
  auto stream = device.is_cuda() ? Stream::create_in(device, core->green, core->stream_priority())
                                 : Stream::create(device, StreamPriority::kLow);
  auto tenant = std::make_unique<StreamTenant>();
  tenant->partition = core;
  tenant->green = core->green;
  if (core->request.bandwidth > 0.0) tenant->bandwidth_member = core->member;
  if (core->needs_gate())
    tenant->gate =
        std::make_unique<LaunchGate>(*sharing.context(), stream->handle(), core->gate_options());
  stream->set_tenant(std::move(tenant));
  return stream;
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

bool DevicePartition::closed() const {
  const std::lock_guard lock(mutex_);
  return !core_->account;
}

std::shared_ptr<MemoryAccount> DevicePartition::account() const {
  const std::lock_guard lock(mutex_);
  return core_->account;
}

std::shared_ptr<Stream> DevicePartition::acquire_stream() {
  core_->sharing->divide();
  const std::lock_guard lock(mutex_);
  if (!core_->account)
    fail(runtime::Error::Kind::kState, cat("partition: '", name(), "' is closed"));
  std::shared_ptr<Stream> stream;
  if (!free_.empty()) {
    stream = std::move(free_.back());
    free_.pop_back();
  } else {
    if (!core_->sharing->books().open_stream(name()))
      fail(runtime::Error::Kind::kState,
           cat("partition: all ", core_->request.max_streams, " streams of '", name(),
               "' are in use (max_streams)"));
    try {
      stream = make_stream(core_);
      all_.push_back(stream);
    } catch (...) {
      core_->sharing->books().close_stream(name());
      throw;
    }
  }
  ++num_out_;
  return stream;
}

void DevicePartition::release_stream(std::shared_ptr<Stream> stream) noexcept {
  const std::lock_guard lock(mutex_);
  --num_out_;
  try {
    free_.push_back(std::move(stream));
  } catch (...) {  // no host memory for the list: the stream goes
  }
}

bool DevicePartition::owns(const Stream& stream) const {
  const StreamTenant* tenant = stream.tenant();
  return tenant != nullptr && tenant->partition == core_;
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
  report.stream_priority = core_->stream_priority();
  report.eviction_rank =
      static_cast<std::size_t>(runtime::enforcement(core_->request.qos).eviction_rank);
  for (const auto& weak : all_) {
    const auto stream = weak.lock();
    if (!stream) continue;
    ++report.open_streams;
    if (const auto* gate = static_cast<const LaunchGate*>(stream->gate()); gate != nullptr)
      add_stats(report.gate, gate->stats());
  }
  if (core_->compute == ComputeLimit::kPacing) {
    sharing.pacer()->retire();
    if (sharing.pacer()->shares().contains(core_->member))
      report.paced_ns = sharing.pacer()->shares().stats(core_->member).used;
  }
  return report;
}

void DevicePartition::close() {
  std::vector<std::shared_ptr<Stream>> streams;
  {
    const std::lock_guard lock(mutex_);
    if (!core_->account) return;
    if (num_out_ > 0)
      fail(runtime::Error::Kind::kState,
           cat("partition: '", name(), "' is in use: ", num_out_,
               " of its streams are current or held (leave the with block first)"));
    if (const auto used = core_->account->stats().used_bytes; used > 0)
      fail(runtime::Error::Kind::kState,
           cat("partition: '", name(), "' is in use: its arrays hold ", used,
               " bytes (drop them first)"));
    streams = free_;
  }
  for (const auto& stream : streams) stream->synchronize();
  const std::lock_guard lock(mutex_);
  if (num_out_ > 0)
    fail(runtime::Error::Kind::kState, cat("partition: '", name(), "' is in use again"));
  core_->release();
  free_.clear();
}

PartitionScope::PartitionScope(std::shared_ptr<DevicePartition> partition)
    : partition_(std::move(partition)), previous_stream_(current_stream(partition_->device())) {
  if (!partition_->owns(*previous_stream_)) stream_ = partition_->acquire_stream();
  previous_account_ = exchange_current_account(partition_->device(), partition_->account());
  if (stream_) exchange_current_stream(stream_);
}

PartitionScope::~PartitionScope() {
  exchange_current_stream(std::move(previous_stream_));
  exchange_current_account(partition_->device(), std::move(previous_account_));
  if (stream_) partition_->release_stream(std::move(stream_));
}

std::vector<runtime::Partition> device_partitions(Device device) {
  const auto sharing = DeviceSharing::find(device);
  return sharing ? sharing->books().partitions() : std::vector<runtime::Partition>();
}

}  // namespace gpk

// Partitions of a device that are enforced: memory by an account of the pool, compute by green
// contexts or by pacing, the link to the host by pacing, classes by stream priorities and gates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/device.h"
#include "core/stream.h"
#include "device/launch_gate.h"
#include "runtime/pool/pool_stats.h"
#include "runtime/scheduler/qos.h"
#include "runtime/sharing/partition_book.h"

namespace gpk::device {

struct PartitionRequest {
  std::string name;
  double compute = 0.0;          // share of the multiprocessors; 0: no share of its own, no limit
  std::size_t memory_bytes = 0;  // 0: no limit of its own
  double bandwidth = 0.0;        // share of the link while others want it; 0: none of its own
  std::size_t max_streams = 16;
  runtime::QosClass qos = runtime::QosClass::kBurstable;
};

enum class ComputeLimit {
  kNone,          // not asked for
  kGreenContext,  // hard: its kernels never run on other multiprocessors
  kPacing,        // launches wait until its share of GPU time allows them
  kSimulated,     // CPU: work is done when the call returns, so there is nothing to divide
};

struct PartitionReport {
  PartitionRequest asked;
  ComputeLimit compute = ComputeLimit::kNone;
  double given_compute = 0.0;
  std::size_t given_sms = 0;  // with a green context
  std::size_t total_sms = 0;
  std::size_t granule_sms = 0;  // 0: no green contexts here
  std::string compute_note;     // why it is not a green context
  runtime::PoolAccountStats memory;
  double bandwidth_bytes = 0.0;  // copied in its share
  int stream_priority = 0;       // the driver's number: lower is more urgent
  std::size_t open_streams = 0;
  std::size_t eviction_rank = 0;  // 0 goes first
  LaunchGate::Stats gate;         // over its streams
  double paced_ns = 0.0;          // GPU time measured by pacing
};

class MemoryAccount;
class PartitionCore;

// Thread safe. Dropped without close(), it gives everything back when its last array and stream go.
class DevicePartition {
 public:
  // Throws Error: kValue for a bad request or a name that exists, kState when more is
  // asked for than is left.
  static std::shared_ptr<DevicePartition> create(Device device, const PartitionRequest& request);
  ~DevicePartition();
  DevicePartition(const DevicePartition&) = delete;
  DevicePartition& operator=(const DevicePartition&) = delete;

  [[nodiscard]] Device device() const noexcept;
  [[nodiscard]] const std::string& name() const noexcept;
  [[nodiscard]] runtime::QosClass qos() const noexcept;
  [[nodiscard]] bool closed() const;

  // A stream of the partition that nobody else has, but tasks that found no other. The first call
  // divides the multiprocessors among the partitions that exist by then. kState when max_streams
  // are out, or the partition is closed.
  std::shared_ptr<Stream> acquire_stream() { return take_stream(false); }
  // The same for a task: where max_streams are out, the one with the fewest users, since a task
  // that waited for a stream could wait for one that waits for it.
  std::shared_ptr<Stream> share_stream() { return take_stream(true); }
  void release_stream(const std::shared_ptr<Stream>& stream) noexcept;
  // True for streams of this partition.
  [[nodiscard]] bool owns(const Stream& stream) const;
  // Who pays for its memory; null when it is closed.
  [[nodiscard]] std::shared_ptr<MemoryAccount> account() const;

  // With `divide`, shares of compute that were not given out yet are, as at first use.
  [[nodiscard]] PartitionReport report(bool divide = true);

  // Waits for its work and gives everything back; its multiprocessors when no array from outside
  // remembers its streams, that is, has been used on another one since, or is dropped. kState, and
  // nothing changed, while streams are out or its memory is in use or reserved. Again: nothing.
  void close();

 private:
  explicit DevicePartition(std::shared_ptr<PartitionCore> core) : core_(std::move(core)) {}

  struct Slot {
    std::shared_ptr<Stream> stream;
    std::size_t num_users = 0;
  };

  std::shared_ptr<Stream> take_stream(bool shared);
  void check_unused() const;

  const std::shared_ptr<PartitionCore> core_;
  mutable std::mutex mutex_;
  std::vector<Slot> slots_;  // max_streams at most
};

// Makes the calling thread work in a partition for a scope: its current stream is one of the
// partition's (the one it has, where it is inside already), its memory is the partition's.
class PartitionScope {
 public:
  explicit PartitionScope(std::shared_ptr<DevicePartition> partition);
  ~PartitionScope();
  PartitionScope(const PartitionScope&) = delete;
  PartitionScope& operator=(const PartitionScope&) = delete;
  [[nodiscard]] const std::shared_ptr<DevicePartition>& partition() const { return partition_; }

 private:
  std::shared_ptr<DevicePartition> partition_;
  std::shared_ptr<Stream> stream_;  // acquired; null where the thread was inside
  std::shared_ptr<Stream> previous_stream_;
  std::shared_ptr<MemoryAccount> previous_account_;
};

// What the partitions of a device were promised, oldest first.
std::vector<runtime::PartitionShare> device_partitions(Device device);

}  // namespace gpk::device

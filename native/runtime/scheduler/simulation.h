// A simulation: the real scheduler and admission, a modelled device, and a clock that jumps.
//
// The device runs up to num_streams tasks at once. Where those demand more compute or bandwidth
// than there is, classes are served in the order of their stream priority, and tasks of one class
// slow down equally. A task short of both runs at the lower of its two speeds.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/scheduler/scheduler.h"

namespace gpk::runtime {

struct SimTask {
  std::string name = {};
  std::int64_t arrival_ns = 0;
  std::int64_t duration_ns = 0;   // when alone on the device
  std::int64_t estimated_ns = 0;  // the estimate given to the scheduler; 0: the duration
  std::size_t memory_bytes = 0;
  double compute = 1.0;    // share of the device's compute it uses when alone
  double bandwidth = 0.0;  // same for bandwidth; reserved unless best effort
  QosClass qos = QosClass::kBestEffort;
  int priority = 0;
  std::optional<std::int64_t> deadline_ns = {};
  std::string partition = {};
  std::vector<std::size_t> dependencies = {};  // indices of the trace
};

struct SimDevice {
  std::size_t memory_bytes = std::size_t{8} << 30;
  double compute = 1.0;
  double bandwidth = 1.0;
  std::size_t num_streams = 8;
  std::vector<std::pair<std::string, std::size_t>> partition_limits_bytes = {};
};

struct SimTaskResult {
  bool rejected = false;  // by admission; never submitted
  TaskState state = TaskState::kPending;
  std::string reason;  // of rejected, failed and waiting tasks
  std::int64_t started_ns = -1;
  std::int64_t ended_ns = -1;
  std::int64_t wait_ns = 0;  // from arrival to start, or to its end if it never started
  int stream = -1;
};

struct SimSample {  // valid until the next one
  std::int64_t time_ns = 0;
  std::size_t num_running = 0;
  std::size_t num_waiting = 0;
  std::size_t reserved_memory_bytes = 0;
  double compute = 0.0;    // in use, of SimDevice::compute
  double bandwidth = 0.0;  // in use, of SimDevice::bandwidth
};

struct WaitSummary {  // over tasks that started
  std::size_t count = 0;
  double mean_ns = 0.0;
  std::int64_t p50_ns = 0;
  std::int64_t p99_ns = 0;
  std::int64_t max_ns = 0;
};

struct SimResult {
  [[nodiscard]] std::string text() const;

  std::vector<SimTaskResult> tasks;  // in trace order
  std::vector<SimSample> timeline;   // one per event time
  std::int64_t makespan_ns = 0;      // from the first arrival to the last end
  double compute_utilisation = 0.0;  // means over the makespan, 0 .. 1
  double bandwidth_utilisation = 0.0;
  double memory_utilisation = 0.0;
  std::size_t num_completed = 0;
  std::size_t num_failed = 0;
  std::size_t num_rejected = 0;
  std::size_t num_missed_deadlines = 0;
  WaitSummary waits;
  std::array<WaitSummary, 3> waits_by_class;  // by QosClass
  SchedulerStats scheduler;
};

// Deterministic. The limit of pending tasks is the config's; bandwidth is the device's, and the
// number of ended tasks kept is raised to the length of the trace. kValue: a number out of range,
// or a dependency that does not precede its dependent by (arrival, index).
[[nodiscard]] SimResult simulate(const std::vector<SimTask>& trace, const SimDevice& device,
                                 SchedulerConfig config);

}  // namespace gpk::runtime

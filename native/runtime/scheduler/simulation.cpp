#include "runtime/scheduler/simulation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "runtime/scheduler/qos_enforcement.h"

namespace gpk::runtime {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
// Doubles represent every integer up to here.
constexpr std::int64_t kMaxSimNs = std::int64_t{1} << 52;

[[noreturn]] void fail(const std::string& message) {
  throw Error(Error::Kind::kValue, "simulate: " + message);
}

void check_task_numbers(const SimTask& task, std::size_t index) {
  const auto check_ns = [&](std::int64_t ns, const char* what) {
    if (ns < 0 || ns > kMaxSimNs)
      fail(cat("task ", index, ": ", what, " is ", ns, ", expected 0 .. ", kMaxSimNs));
  };
  check_ns(task.arrival_ns, "arrival_ns");
  check_ns(task.duration_ns, "duration_ns");
  check_ns(task.estimated_ns, "estimated_ns");
  if (!(task.compute >= 0.0 && task.compute <= kMaxShare))
    fail(cat("task ", index, ": compute is ", task.compute, ", expected at least 0"));
  if (!(task.bandwidth >= 0.0 && task.bandwidth <= kMaxShare))
    fail(cat("task ", index, ": bandwidth is ", task.bandwidth, ", expected at least 0"));
}

// Indices by (arrival, index), with dependencies before their dependents.
std::vector<std::size_t> checked_order(const std::vector<SimTask>& trace) {
  std::vector<std::size_t> order(trace.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t i = 0; i < trace.size(); ++i) check_task_numbers(trace[i], i);
  std::stable_sort(order.begin(), order.end(), [&trace](std::size_t a, std::size_t b) {
    return trace[a].arrival_ns < trace[b].arrival_ns;
  });
  for (std::size_t i = 0; i < trace.size(); ++i) {
    for (const std::size_t d : trace[i].dependencies) {
      const bool before =
          d < trace.size() && std::pair(trace[d].arrival_ns, d) < std::pair(trace[i].arrival_ns, i);
      if (!before) fail(cat("task ", i, ": dependency ", d, ", expected one that comes before it"));
    }
  }
  return order;
}

WaitSummary summary_of(std::vector<std::int64_t> waits) {
  WaitSummary summary;
  if (waits.empty()) return summary;
  std::sort(waits.begin(), waits.end());
  const auto quantile = [&waits](double q) {
    const double rank = std::ceil(q * static_cast<double>(waits.size()));
    return waits[static_cast<std::size_t>(std::max(rank, 1.0)) - 1];
  };
  summary.count = waits.size();
  double sum = 0.0;
  for (const std::int64_t wait : waits) sum += static_cast<double>(wait);
  summary.mean_ns = sum / static_cast<double>(waits.size());
  summary.p50_ns = quantile(0.5);
  summary.p99_ns = quantile(0.99);
  summary.max_ns = waits.back();
  return summary;
}

std::shared_ptr<LimitLedger> ledger_of(const SimDevice& device) {
  auto ledger = std::make_shared<LimitLedger>(device.memory_bytes);
  for (const auto& [name, bytes] : device.partition_limits_bytes)
    ledger->set_account_limit(name, bytes);
  return ledger;
}

class Simulation {
 public:
  Simulation(const std::vector<SimTask>& trace, const SimDevice& device, SchedulerConfig config)
      : trace_(trace),
        device_(device),
        order_(checked_order(trace)),
        clock_(std::make_shared<ManualClock>()),
        scheduler_(ledger_of(device), raised(config, device, trace.size()), clock_),
        ids_(trace.size(), kNoTask),
        stream_used_(device.num_streams, false) {
    if (device.num_streams == 0) fail("num_streams is 0, expected at least 1");
    if (!(device.compute > 0.0)) fail(cat("compute is ", device.compute, ", expected above 0"));
    if (!(device.bandwidth > 0.0))
      fail(cat("bandwidth is ", device.bandwidth, ", expected above 0"));
    result_.tasks.resize(trace.size());
  }

  SimResult run() {
    for (;;) {
      const std::int64_t time_ns = next_event_ns();
      if (time_ns == kNever) break;
      advance_to(time_ns);
      end_finished();
      arrive();
      scheduler_.poll();
      start_waiting();
      set_speeds();
      sample();
    }
    collect();
    return std::move(result_);
  }

 private:
  struct Running {
    std::size_t index;  // in the trace
    double left_ns;     // of work at full speed
    double speed = 1.0;
    std::int64_t end_ns = kNever;
    std::size_t stream;
  };

  static SchedulerConfig raised(SchedulerConfig config, const SimDevice& device,
                                std::size_t num_tasks) {
    config.total_bandwidth = device.bandwidth;
    config.max_ended_kept = std::max(config.max_ended_kept, num_tasks);
    return config;
  }

  [[nodiscard]] std::int64_t next_event_ns() const {
    std::int64_t time_ns = kNever;
    if (next_arrival_ < order_.size()) time_ns = trace_[order_[next_arrival_]].arrival_ns;
    for (const Running& task : running_) time_ns = std::min(time_ns, task.end_ns);
    if (!deadlines_.empty()) time_ns = std::min(time_ns, *deadlines_.begin() + 1);
    return time_ns;
  }

  void advance_to(std::int64_t time_ns) {
    const auto passed_ns = static_cast<double>(time_ns - now_ns_);
    for (Running& task : running_) task.left_ns -= task.speed * passed_ns;
    if (!result_.timeline.empty()) {
      const SimSample& last = result_.timeline.back();
      compute_ns_ += last.compute * passed_ns;
      bandwidth_ns_ += last.bandwidth * passed_ns;
      memory_ns_ += static_cast<double>(last.reserved_memory_bytes) * passed_ns;
    }
    now_ns_ = time_ns;
    clock_->set_ns(time_ns);
    while (!deadlines_.empty() && *deadlines_.begin() < now_ns_)
      deadlines_.erase(deadlines_.begin());
  }

  void end_finished() {
    for (const Running& task : running_) {
      if (task.end_ns > now_ns_) continue;
      stream_used_[task.stream] = false;
      scheduler_.complete(ids_[task.index]);
    }
    std::erase_if(running_, [this](const Running& task) { return task.end_ns <= now_ns_; });
  }

  void arrive() {
    for (; next_arrival_ < order_.size(); ++next_arrival_) {
      const std::size_t index = order_[next_arrival_];
      if (trace_[index].arrival_ns > now_ns_) return;
      submit(index);
    }
  }

  void submit(std::size_t index) {
    const SimTask& task = trace_[index];
    SimTaskResult& outcome = result_.tasks[index];
    const auto reject = [&](std::string reason) {
      outcome.rejected = true;
      outcome.state = TaskState::kFailed;
      outcome.reason = std::move(reason);
      ++result_.num_rejected;
    };
    TaskSpec spec;
    spec.name = task.name;
    spec.account = task.partition;
    spec.qos = task.qos;
    spec.priority = task.priority;
    spec.memory_bytes = task.memory_bytes;
    spec.bandwidth =
        enforcement(task.qos).reservation == QosReservation::kNothing ? 0.0 : task.bandwidth;
    spec.estimated_ns =
        std::min(task.estimated_ns > 0 ? task.estimated_ns : task.duration_ns, kMaxTaskEstimateNs);
    spec.deadline_ns = task.deadline_ns;
    for (const std::size_t d : task.dependencies) {
      if (ids_[d] == kNoTask) {
        reject(cat("dependency ", d, " was rejected"));
        return;
      }
      spec.dependencies.push_back(ids_[d]);
    }
    AdmissionOutcome admission = scheduler_.admit(std::move(spec));
    ids_[index] = admission.id;
    if (admission.id == kNoTask) reject(admission.decision.text());
    if (admission.id != kNoTask && task.deadline_ns) deadlines_.insert(*task.deadline_ns);
    if (index_of_.size() <= admission.id) index_of_.resize(admission.id + 1);
    index_of_[admission.id] = index;
  }

  void start_waiting() {
    const std::size_t num_free = device_.num_streams - running_.size();
    for (const TaskId id : scheduler_.start_runnable(num_free)) {
      const auto stream = static_cast<std::size_t>(
          std::find(stream_used_.begin(), stream_used_.end(), false) - stream_used_.begin());
      const std::size_t index = index_of_[id];
      stream_used_[stream] = true;
      result_.tasks[index].stream = static_cast<int>(stream);
      running_.push_back({.index = index,
                          .left_ns = static_cast<double>(trace_[index].duration_ns),
                          .stream = stream});
    }
  }

  // The speed of each running task from now on, and when it would end.
  void set_speeds() {
    double compute_left = device_.compute;
    double bandwidth_left = device_.bandwidth;
    for (const QosClass qos :
         {QosClass::kGuaranteed, QosClass::kBurstable, QosClass::kBestEffort}) {
      double compute_asked = 0.0;
      double bandwidth_asked = 0.0;
      for (const Running& task : running_) {
        if (trace_[task.index].qos != qos) continue;
        compute_asked += trace_[task.index].compute;
        bandwidth_asked += trace_[task.index].bandwidth;
      }
      const double compute_speed = std::min(1.0, compute_left / std::max(compute_asked, 1e-300));
      const double bandwidth_speed =
          std::min(1.0, bandwidth_left / std::max(bandwidth_asked, 1e-300));
      for (Running& task : running_) {
        const SimTask& spec = trace_[task.index];
        if (spec.qos != qos) continue;
        task.speed = 1.0;
        if (spec.compute > 0.0) task.speed = std::min(task.speed, compute_speed);
        if (spec.bandwidth > 0.0) task.speed = std::min(task.speed, bandwidth_speed);
        compute_left = std::max(0.0, compute_left - spec.compute * task.speed);
        bandwidth_left = std::max(0.0, bandwidth_left - spec.bandwidth * task.speed);
        task.end_ns = end_of(task);
      }
    }
    compute_used_ = device_.compute - compute_left;
    bandwidth_used_ = device_.bandwidth - bandwidth_left;
  }

  [[nodiscard]] std::int64_t end_of(const Running& task) const {
    if (task.left_ns <= 0.0) return now_ns_;
    const double ns = std::ceil(task.left_ns / task.speed);  // speed 0: not until others end
    if (!(ns < static_cast<double>(kMaxSimNs) * 256)) return kNever;
    return now_ns_ + static_cast<std::int64_t>(ns);
  }

  void sample() {
    const SchedulerStats stats = scheduler_.stats();
    SimSample now;
    now.time_ns = now_ns_;
    now.num_running = running_.size();
    now.num_waiting = stats.num_waiting();
    now.reserved_memory_bytes = stats.reserved_memory_bytes;
    now.compute = compute_used_;
    now.bandwidth = bandwidth_used_;
    // Ends and starts at one time are one sample.
    if (!result_.timeline.empty() && result_.timeline.back().time_ns == now_ns_)
      result_.timeline.back() = now;
    else
      result_.timeline.push_back(now);
  }

  void collect() {
    std::vector<std::int64_t> waits;
    std::array<std::vector<std::int64_t>, 3> waits_by_class;
    std::int64_t last_end_ns = 0;
    for (std::size_t i = 0; i < trace_.size(); ++i) {
      SimTaskResult& outcome = result_.tasks[i];
      if (outcome.rejected) continue;
      const TaskInfo info = scheduler_.info(ids_[i]);
      outcome.state = info.state;
      outcome.reason = info.is_terminal() ? info.reason : to_string(info.wait_reason);
      outcome.started_ns = info.started_ns();
      outcome.ended_ns = info.ended_ns();
      outcome.wait_ns = info.wait_ns(now_ns_);
      last_end_ns = std::max(last_end_ns, outcome.ended_ns);
      result_.num_completed += info.state == TaskState::kCompleted ? 1 : 0;
      result_.num_failed += info.state == TaskState::kFailed ? 1 : 0;
      if (outcome.started_ns < 0) continue;
      waits.push_back(outcome.wait_ns);
      waits_by_class[static_cast<std::size_t>(info.qos)].push_back(outcome.wait_ns);
    }
    result_.waits = summary_of(std::move(waits));
    for (std::size_t i = 0; i < waits_by_class.size(); ++i)
      result_.waits_by_class[i] = summary_of(std::move(waits_by_class[i]));
    result_.scheduler = scheduler_.stats();
    result_.num_missed_deadlines = result_.scheduler.num_missed_deadlines;
    if (order_.empty()) return;
    result_.makespan_ns = std::max<std::int64_t>(last_end_ns - trace_[order_[0]].arrival_ns, 0);
    if (result_.makespan_ns == 0) return;
    const auto span_ns = static_cast<double>(result_.makespan_ns);
    result_.compute_utilisation = compute_ns_ / (span_ns * device_.compute);
    result_.bandwidth_utilisation = bandwidth_ns_ / (span_ns * device_.bandwidth);
    if (device_.memory_bytes > 0)
      result_.memory_utilisation =
          memory_ns_ / (span_ns * static_cast<double>(device_.memory_bytes));
  }

  const std::vector<SimTask>& trace_;
  const SimDevice& device_;
  const std::vector<std::size_t> order_;
  const std::shared_ptr<ManualClock> clock_;
  Scheduler scheduler_;
  std::vector<TaskId> ids_;            // by trace index
  std::vector<std::size_t> index_of_;  // by task id
  std::vector<bool> stream_used_;
  std::vector<Running> running_;  // in the order they started
  std::multiset<std::int64_t> deadlines_;
  std::size_t next_arrival_ = 0;
  std::int64_t now_ns_ = 0;
  double compute_used_ = 0.0;
  double bandwidth_used_ = 0.0;
  double compute_ns_ = 0.0;  // integrals over time
  double bandwidth_ns_ = 0.0;
  double memory_ns_ = 0.0;
  SimResult result_;
};

std::vector<std::string> wait_row(const char* name, const WaitSummary& waits) {
  return {name,
          cat(waits.count),
          duration_text(static_cast<std::int64_t>(waits.mean_ns)),
          duration_text(waits.p50_ns),
          duration_text(waits.p99_ns),
          duration_text(waits.max_ns)};
}

}  // namespace

SimResult simulate(const std::vector<SimTask>& trace, const SimDevice& device,
                   SchedulerConfig config) {
  return Simulation(trace, device, config).run();
}

std::string SimResult::text() const {
  std::string out = cat(tasks.size(), " tasks: ", num_completed, " completed, ", num_failed,
                        " failed, ", num_rejected, " rejected, ", num_missed_deadlines,
                        " past a deadline; ", duration_text(makespan_ns), " in total\n");
  out += cat("utilisation: compute ", fixed_text(compute_utilisation, 3), ", bandwidth ",
             fixed_text(bandwidth_utilisation, 3), ", memory ", fixed_text(memory_utilisation, 3),
             "\n");
  TextTable table;
  table.add_row({"waits", "tasks", "mean", "p50", "p99", "max"});
  table.add_row(wait_row("all", waits));
  for (const QosClass qos : {QosClass::kGuaranteed, QosClass::kBurstable, QosClass::kBestEffort})
    table.add_row(wait_row(to_string(qos), waits_by_class[static_cast<std::size_t>(qos)]));
  return out + table.text();
}

}  // namespace gpk::runtime

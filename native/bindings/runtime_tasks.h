// Python functions as scheduler tasks: each on its own stream or one of its partition, ended when
// everything it submitted has.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <variant>

#include "bindings/python.h"
#include "device/pool_ledger.h"
#include "device/task_streams.h"
#include "runtime/scheduler/scheduler.h"

namespace gpk::bind {

// Set at interpreter shutdown: from then on no thread of ours calls into Python.
std::atomic<bool>& python_has_ended();

// "fifo", "sjf" or "priority". Throws InvalidArgument.
runtime::SchedulePolicy schedule_policy(const std::string& name);

// The scheduler, its streams, and the exceptions of its tasks. Thread safe. Methods that may wait
// or run Python functions are called without the GIL.
class TaskEngine {
 public:
  using TaskId = runtime::TaskId;
  struct Options {
    runtime::SchedulerConfig scheduler;
    Device device;
    std::size_t max_streams = 32;
  };

  TaskEngine(std::shared_ptr<runtime::MemoryLedger> ledger, const Options& options);
  ~TaskEngine();
  TaskEngine(const TaskEngine&) = delete;
  TaskEngine& operator=(const TaskEngine&) = delete;

  // Where a task runs. Without a partition on its own stream, with the priority and the gate of a
  // class where one is given.
  struct Place {
    bool on_stream = true;  // false: on its thread's current stream, and ended when it returns
    std::optional<runtime::QosClass> stream_class;
    std::shared_ptr<device::DevicePartition> partition;
  };
  // `function` is called without arguments by the thread that runs the task. On a stream, the task
  // ends when everything it submitted has, on every stream.
  TaskId submit(runtime::TaskSpec spec, std::shared_ptr<void> function, Place place);

  // Runs bodies on the calling thread; returns how many. Throws KeyboardInterrupt after one that
  // Ctrl-C ended.
  std::size_t run_ready(std::size_t max_tasks);
  std::size_t run_until_idle();
  // Runs bodies on the calling thread until stop().
  void serve();
  // Ends serve() on all threads. Tasks that wait for a stream fail.
  void stop();

  // The stream pool of the body the calling thread is in; nullptr where it has none.
  static device::TaskStreams* streams_of_body() noexcept;

  // The exception object of a failed task, or None. Call with the GIL.
  py::object exception(TaskId id) const;

  [[nodiscard]] runtime::Scheduler& scheduler() const noexcept { return *shared_->scheduler; }
  [[nodiscard]] device::TaskStreams& streams() const noexcept { return *shared_->streams; }

 private:
  // State needed by tasks in flight, even after the engine is destroyed.
  struct Shared {
    std::shared_ptr<runtime::Scheduler> scheduler;
    std::unique_ptr<device::TaskStreams> streams;
    // Holds the reservations; nullptr: they are only counted.
    std::shared_ptr<device::PoolLedger> pool;

    std::mutex mutex;
    using Error = std::variant<std::shared_ptr<void>, std::exception_ptr>;  // a Python object, or
    std::map<TaskId, Error> errors;
    std::set<unsigned> lanes;  // tracks of the trace in use

    void keep_error(TaskId id, Error error);
  };

  struct Work {
    std::shared_ptr<void> function;
    Place place;
    std::size_t memory_bytes;
    std::string account;
  };
  static void run_inline(Shared& shared, TaskId id, const Work& work);
  static void run_on_stream(const std::shared_ptr<Shared>& shared, runtime::TaskContext& context,
                            const Work& work);
  static void end_on_stream(Shared& shared, TaskId id, const std::string& reason,
                            std::exception_ptr error, bool cancelled);
  // The track a task occupies in the trace while it runs: spans of a track do not overlap.
  struct TraceLane {
    unsigned row;
    std::int64_t start_ns;
  };
  static std::optional<TraceLane> begin_trace(Shared& shared);
  static void end_trace(Shared& shared, TaskId id, std::optional<TraceLane> lane, bool failed);

  std::shared_ptr<Shared> shared_;
  std::mutex stop_mutex_;
  std::stop_source stop_;
};

// For tasks without a function: start, complete, fail and the like.
void bind_driven_tasks(py::class_<TaskEngine>& engine);

}  // namespace gpk::bind

// Streams that tasks run on, and a thread that sees when their work has ended.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include "core/device.h"
#include "core/event.h"
#include "core/stream.h"
#include "core/task_work.h"
#include "device/device_partition.h"
#include "runtime/scheduler/qos.h"

namespace gpk::device {

// Thread safe. A stream belongs to one task at a time: from acquire() until its work has ended. On
// the CPU backend kernels have ended when the call returns, so only transfers are waited for.
class TaskStreams {
 public:
  using Done = std::function<void(std::exception_ptr)>;
  // What a task runs on.
  struct Lease {
    std::shared_ptr<Stream> stream;              // nullptr: none, after close()
    std::shared_ptr<DevicePartition> partition;  // whose stream it is; nullptr: ours
    std::optional<runtime::QosClass> qos;        // of ours
  };

  TaskStreams(Device device, std::size_t max_streams);
  // Forgets work that has not ended: its callbacks are not called.
  ~TaskStreams();
  TaskStreams(const TaskStreams&) = delete;
  TaskStreams& operator=(const TaskStreams&) = delete;

  // A stream with the priority and the gate of a class (device/class_stream.h), without one a plain
  // stream. Waits while all are in use. Throws what making a stream throws.
  Lease acquire(std::optional<runtime::QosClass> qos);
  // One of the partition's, which are not counted here. Error kState when it is closed.
  Lease acquire(std::shared_ptr<DevicePartition> partition);
  // The task has submitted all it will submit. `done` is called once, on some thread without a
  // lock, when all of it has ended, on the stream of the lease and wherever else `work` says, with
  // the first failure; the stream is free then. How a transfer ended is for who holds its future.
  void finish(Lease lease, const TaskWork& work, Done done);
  // While a task that has a stream waits for another task, that one may have a stream in its place:
  // else tasks that wait could hold all of them for ever.
  class Loan {
   public:
    explicit Loan(TaskStreams* streams) : streams_(streams) { change(1); }
    ~Loan() { change(-1); }
    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;

   private:
    void change(int count);
    TaskStreams* streams_;  // nullptr: none
  };
  // Wakes those in acquire(), which gives nothing more.
  void close();

  [[nodiscard]] Device device() const noexcept { return device_; }
  // By tasks that have not ended, those in partitions included.
  [[nodiscard]] std::size_t num_in_use() const;
  [[nodiscard]] std::size_t max_streams() const noexcept { return max_streams_; }

 private:
  // What one task has under way.
  struct Work {
    // Streams and the rest are kept until the lock is free: what they own may need the interpreter.
    struct Mark {
      std::shared_ptr<Stream> stream;
      std::shared_ptr<Event> event;  // nullptr: has ended
    };
    Lease lease;
    std::vector<Mark> marks;
    std::vector<TaskWork::HasEnded> others;
    std::exception_ptr error;  // the first
    bool lease_failed = false;
    Done done;

    void mark(const std::shared_ptr<Stream>& stream);
    bool is_over() noexcept;
    void fail(const std::shared_ptr<Stream>& stream) noexcept;
  };

  void give_back(const Work& work);
  void watch(const std::stop_token& stop);

  const Device device_;
  const std::size_t max_streams_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::array<std::vector<std::shared_ptr<Stream>>, 4> free_;  // by class, then those without
  std::list<Work> work_;                                      // not over
  std::size_t num_in_use_ = 0;
  std::size_t num_in_partitions_ = 0;
  std::size_t num_lent_ = 0;  // of num_in_use_, by tasks that wait
  bool closed_ = false;
  std::jthread watcher_;  // started with the first work; last, so that it ends first
};

}  // namespace gpk::device

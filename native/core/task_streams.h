// Streams that tasks run on, and a thread that sees when their work is done.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

#include "core/device.h"
#include "core/event.h"
#include "core/stream.h"

namespace gpk {

// Thread safe. A stream belongs to one task at a time: from acquire() until its work is done. On
// the CPU backend work is done when the call returns, so no thread is needed.
class TaskStreams {
 public:
  using Done = std::function<void(std::exception_ptr)>;

  TaskStreams(Device device, std::size_t max_streams);
  // Forgets work that is not done: its callbacks are not called.
  ~TaskStreams();
  TaskStreams(const TaskStreams&) = delete;
  TaskStreams& operator=(const TaskStreams&) = delete;

  // Waits while all streams are in use. nullptr after close(). Throws what making a stream throws.
  std::shared_ptr<Stream> acquire(StreamPriority priority);
  // The task has submitted all it will submit. `done` is called once, on some thread without a
  // lock, when the stream's work so far is done, with what it failed with; the stream is free then.
  void finish(std::shared_ptr<Stream> stream, Done done);
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
  [[nodiscard]] std::size_t num_in_use() const;
  [[nodiscard]] std::size_t max_streams() const noexcept { return max_streams_; }

 private:
  struct Work {
    std::shared_ptr<Stream> stream;
    std::shared_ptr<Event> event;
    Done done;
  };

  void give_back(const std::shared_ptr<Stream>& stream, bool usable);
  void watch(const std::stop_token& stop);
  // True when it is over; `error` is what it failed with.
  static bool is_over(const Work& work, std::exception_ptr& error) noexcept;

  const Device device_;
  const std::size_t max_streams_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<std::shared_ptr<Stream>> free_[2];  // by priority
  std::list<Work> work_;                          // not done
  std::size_t num_in_use_ = 0;
  std::size_t num_lent_ = 0;  // of these, by tasks that wait
  bool closed_ = false;
  std::jthread watcher_;  // started with the first work; last, so that it ends first
};

}  // namespace gpk

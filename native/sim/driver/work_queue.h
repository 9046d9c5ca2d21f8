// What a stream has to do, in order, on a thread of its own.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace gpk::sim::driver {

class WorkQueue;

// A point in a queue: reached when the work submitted before it is done.
struct Ticket {
  std::shared_ptr<WorkQueue> queue;
  std::uint64_t number = 0;
};

// Its thread starts with the first submission and ends when the queue is closed and empty. All
// functions are called with the machine's lock held.
class WorkQueue : public std::enable_shared_from_this<WorkQueue> {
 public:
  // at_once: there is no thread, work runs inside submit().
  WorkQueue(std::mutex& mutex, std::condition_variable& progress, bool at_once)
      : mutex_(mutex), progress_(progress), at_once_(at_once) {}

  // `work` runs without the lock, after all that was submitted before and after `after`;
  // dependencies must have been submitted already, so that no cycle can arise. An empty function is
  // allowed.
  void submit(std::function<void()> work, std::vector<Ticket> after = {});
  [[nodiscard]] Ticket tail() { return {shared_from_this(), submitted_}; }
  [[nodiscard]] bool reached(std::uint64_t number) const { return completed_ >= number; }
  [[nodiscard]] bool idle() const { return completed_ == submitted_; }
  void close();

 private:
  struct Work {
    std::function<void()> run;
    std::vector<Ticket> after;
  };
  void serve();

  std::mutex& mutex_;
  std::condition_variable& progress_;  // notified when any queue has completed something
  const bool at_once_;
  std::condition_variable arrived_;
  std::deque<Work> waiting_;
  std::uint64_t submitted_ = 0;
  std::uint64_t completed_ = 0;
  bool has_thread_ = false;
  bool closed_ = false;
};

inline bool reached(const Ticket& ticket) {
  return ticket.queue == nullptr || ticket.queue->reached(ticket.number);
}

}  // namespace gpk::sim::driver

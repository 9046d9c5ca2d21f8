// Everything a task submits, on any stream: the task ends only when all of it has.
//
//   TaskWork work;
//   {
//     const TaskWork::Scope scope(&work);   // the calling thread runs the task
//     ...
//   }
//   task_streams.finish(..., std::move(work), done);
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "core/stream.h"

namespace gpk::inline core {

// Used by one thread at a time.
class TaskWork {
 public:
  // That of the task the calling thread runs; nullptr outside of tasks.
  static TaskWork* current() noexcept { return t_current; }

  // Makes `work` current for the calling thread (nullptr: none).
  class Scope {
   public:
    explicit Scope(TaskWork* work) noexcept : outer_(std::exchange(t_current, work)) {}
    ~Scope() { t_current = outer_; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    TaskWork* outer_;
  };

  // Call before every submission: one comparison while the stream stays the same.
  void note(Stream& stream) {
    if (&stream != last_) [[unlikely]]
      add(stream);
  }
  // Work that runs elsewhere, such as a transfer.
  using HasEnded = std::function<bool()>;
  void note(HasEnded has_ended);

  // Each stream once; kept alive, so that a stream dropped by the task can still be polled.
  [[nodiscard]] const std::vector<std::shared_ptr<Stream>>& streams() const { return streams_; }
  [[nodiscard]] const std::vector<HasEnded>& others() const { return others_; }

 private:
  void add(Stream& stream);

  static thread_local constinit TaskWork* t_current;

  Stream* last_ = nullptr;  // one of streams_
  std::vector<std::shared_ptr<Stream>> streams_;
  std::vector<HasEnded> others_;
  // At this size, finished entries are removed before the list grows.
  std::size_t max_streams_ = kFirstSweep;
  std::size_t max_others_ = kFirstSweep;
  static constexpr std::size_t kFirstSweep = 16;
};

}  // namespace gpk::inline core

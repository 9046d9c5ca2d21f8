// What a task submits, on whatever stream: all of it must have ended before the task has.
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
  // Of the task that the calling thread runs; nullptr outside of tasks.
  static TaskWork* current() noexcept { return t_current; }

  // Makes `work` the current one of the calling thread (nullptr: none).
  class Scope {
   public:
    explicit Scope(TaskWork* work) noexcept : outer_(std::exchange(t_current, work)) {}
    ~Scope() { t_current = outer_; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    TaskWork* outer_;
  };

  // Before every submission: a comparison while the stream stays the same.
  void note(Stream& stream) {
    if (&stream != last_) [[unlikely]]
      add(stream);
  }
  // Work that runs elsewhere: a transfer, say.
  using HasEnded = std::function<bool()>;
  void note(HasEnded has_ended);

  // Each stream once; kept, so that a stream dropped by the task can still be asked.
  [[nodiscard]] const std::vector<std::shared_ptr<Stream>>& streams() const { return streams_; }
  [[nodiscard]] const std::vector<HasEnded>& others() const { return others_; }

 private:
  void add(Stream& stream);

  static thread_local constinit TaskWork* t_current;

  Stream* last_ = nullptr;  // one of streams_
  std::vector<std::shared_ptr<Stream>> streams_;
  std::vector<HasEnded> others_;
  // A list that has grown to this is first rid of what has ended.
  std::size_t max_streams_ = kFirstSweep;
  std::size_t max_others_ = kFirstSweep;
  static constexpr std::size_t kFirstSweep = 16;
};

}  // namespace gpk::inline core

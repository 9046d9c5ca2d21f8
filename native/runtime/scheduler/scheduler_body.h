// The task bodies on the calling thread's stack. Internal to the scheduler.
#pragma once

namespace gpk::runtime {

class Scheduler;
struct TaskRecord;

struct RunningBody {
  const Scheduler* scheduler;
  TaskRecord* task;
  const RunningBody* outer;  // waits, and runs this one meanwhile
};

// nullptr outside of all bodies.
inline thread_local const RunningBody* innermost_body = nullptr;

// The innermost one of a scheduler, or nullptr.
[[nodiscard]] inline const RunningBody* innermost_body_of(const Scheduler& scheduler) noexcept {
  const RunningBody* body = innermost_body;
  while (body != nullptr && body->scheduler != &scheduler) body = body->outer;
  return body;
}

}  // namespace gpk::runtime

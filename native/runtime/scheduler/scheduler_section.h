// One call under the scheduler's lock. Internal to the scheduler.
#pragma once

#include <type_traits>
#include <utility>

#include "runtime/scheduler/scheduler.h"

namespace gpk::runtime {

// Holds the lock; its destructor unlocks, and only then runs callbacks and destroys the caller's
// objects, whether the call threw or not.
class Scheduler::Section {
 public:
  explicit Section(Scheduler& scheduler) : scheduler_(scheduler), lock_(scheduler.mutex_) {
    scheduler_.now_ns_ = scheduler_.clock_->now_ns();
  }
  ~Section() {
    const bool changed = std::exchange(scheduler_.changed_, false);
    const bool wake_waiters = changed && scheduler_.num_waiters_ > 0;
    const bool wake_workers = changed && scheduler_.bell_.has_sleepers();
    if (scheduler_.notices_.empty()) {
      lock_.unlock();
      wake(wake_waiters, wake_workers);
      return;
    }
    Notices notices = std::exchange(scheduler_.notices_, {});
    lock_.unlock();
    wake(wake_waiters, wake_workers);
    if (!notices.ended.empty()) scheduler_.announce(notices);
  }
  Section(const Section&) = delete;
  Section& operator=(const Section&) = delete;

 private:
  void wake(bool waiters, bool workers) {
    if (waiters) scheduler_.ended_condition_.notify_all();
    if (workers) scheduler_.bell_.ring();
  }

  Scheduler& scheduler_;
  std::unique_lock<std::mutex> lock_;
};

// Runs `body` at one clock time: deadlines before it, admission after it. A body that throws must
// have changed nothing.
template <class F>
auto Scheduler::locked(F&& body) {
  const Section section(*this);
  expire();
  admit_queued();
  if constexpr (std::is_void_v<std::invoke_result_t<F>>) {
    std::forward<F>(body)();
    settle();
  } else {
    auto answer = std::forward<F>(body)();
    settle();
    return answer;
  }
}

}  // namespace gpk::runtime

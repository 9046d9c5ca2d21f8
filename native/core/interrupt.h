// Host-side waits that the user can interrupt.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace gpk::inline core {

// Polled by waiting threads: throws to end the wait. The caller must not hold any lock that a
// thread inside the hook could take. nullptr: nothing interrupts. Set once, when the library is
// loaded into an interpreter.
using InterruptHook = void (*)();
void set_interrupt_hook(InterruptHook hook) noexcept;
bool has_interrupt_hook() noexcept;

// Propagates whatever the hook throws.
void check_interrupt();

// Polling interval of threads that wait for another thread.
inline constexpr std::chrono::milliseconds kInterruptInterval{50};

// Waits until `done()`; an exception from the hook ends the wait. `lock` is not held while the hook
// runs.
template <class Done>
void wait_interruptibly(std::condition_variable& condition, std::unique_lock<std::mutex>& lock,
                        const Done& done) {
  while (!condition.wait_for(lock, kInterruptInterval, done)) {
    lock.unlock();
    check_interrupt();
    lock.lock();
  }
}

// For locks held long: waiting for one can be interrupted.
class InterruptibleMutex {
 public:
  void lock() {
    std::unique_lock lock(mutex_);
    wait_interruptibly(freed_, lock, [this] { return !held_; });
    held_ = true;
  }
  void unlock() noexcept {
    const std::lock_guard lock(mutex_);
    held_ = false;
    freed_.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable freed_;
  bool held_ = false;
};

}  // namespace gpk::inline core

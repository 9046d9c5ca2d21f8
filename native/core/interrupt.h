// Waits on the host that the user can break off.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace gpk::inline core {

// Called now and then by the threads that wait: throws to end the wait. What the caller holds then
// must be nothing that a thread inside the hook could want. nullptr: nothing interrupts. Set once,
// when the library is loaded into an interpreter.
using InterruptHook = void (*)();
void set_interrupt_hook(InterruptHook hook) noexcept;
bool has_interrupt_hook() noexcept;

// Throws what the hook throws.
void check_interrupt();

// How often those who wait for another thread call it.
inline constexpr std::chrono::milliseconds kInterruptInterval{50};

// Waits until `done()`; what the hook throws ends that. `lock` is not held while the hook runs.
template <class Done>
void wait_interruptibly(std::condition_variable& condition, std::unique_lock<std::mutex>& lock,
                        const Done& done) {
  while (!condition.wait_for(lock, kInterruptInterval, done)) {
    lock.unlock();
    check_interrupt();
    lock.lock();
  }
}

// For what is held long: waiting for it can be interrupted.
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

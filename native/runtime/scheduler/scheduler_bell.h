// Wakes the scheduler's idle workers. Internal to the scheduler; thread safe.
//
//   const auto seen = bell.rings();
//   if (there is something to do) ...
//   bell.wait(seen, limit);          // returns at once when it rang since `seen`
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "runtime/memory_listener.h"

namespace gpk::runtime {

// Its lock is a leaf lock, so that it may be rung under any other.
class SchedulerBell final : public MemoryListener {
 public:
  using Time = std::chrono::steady_clock::time_point;

  [[nodiscard]] std::uint64_t rings() const noexcept { return rings_.load(); }
  // Counted while alive: changes under the scheduler's lock ring only if there is a sleeper, and
  // freed memory only if one waits for memory.
  class Sleeper {
   public:
    Sleeper(SchedulerBell& bell, bool for_memory) : bell_(bell), num_for_memory_(for_memory) {
      ++bell_.num_sleepers_;
      bell_.num_for_memory_ += num_for_memory_;
    }
    ~Sleeper() {
      bell_.num_for_memory_ -= num_for_memory_;
      --bell_.num_sleepers_;
    }
    Sleeper(const Sleeper&) = delete;
    Sleeper& operator=(const Sleeper&) = delete;

   private:
    SchedulerBell& bell_;
    const std::size_t num_for_memory_;
  };
  [[nodiscard]] bool has_sleepers() const noexcept { return num_sleepers_.load() > 0; }

  void wait(std::uint64_t seen, Time limit) {
    std::unique_lock lock(mutex_);
    const auto rang = [&] { return rings_.load() != seen; };
    if (limit == Time::max()) {
      condition_.wait(lock, rang);
    } else {
      condition_.wait_until(lock, limit, rang);
    }
  }

  void ring() noexcept {
    rings_.fetch_add(1);
    if (has_sleepers()) wake();
  }
  void memory_changed() noexcept override {
    rings_.fetch_add(1);
    if (num_for_memory_.load() > 0) wake();
  }

 private:
  void wake() noexcept {
    {
      const std::lock_guard lock(mutex_);
    }  // else it could ring between the check and the sleep
    condition_.notify_all();
  }

  std::atomic<std::uint64_t> rings_{0};
  std::atomic<std::size_t> num_sleepers_{0};
  std::atomic<std::size_t> num_for_memory_{0};
  std::mutex mutex_;
  std::condition_variable condition_;
};

}  // namespace gpk::runtime

// Notification that memory became free.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <vector>

namespace gpk::runtime {

class MemoryListener {
 public:
  virtual ~MemoryListener() = default;
  // Called on any thread, with the caller's locks held: it may take only its own leaf lock, and
  // must not call back.
  virtual void memory_changed() noexcept = 0;
};

// Thread safe. Notifying costs one load when nobody listens.
class MemoryListeners {
 public:
  void add(MemoryListener& listener) {
    const std::lock_guard lock(mutex_);
    listeners_.push_back(&listener);
    count_.store(listeners_.size());
  }
  // On return no call to it is in progress.
  void remove(MemoryListener& listener) noexcept {
    const std::lock_guard lock(mutex_);
    std::erase(listeners_, &listener);
    count_.store(listeners_.size());
  }
  void notify() noexcept {
    if (count() == 0) return;
    const std::lock_guard lock(mutex_);
    for (MemoryListener* listener : listeners_) listener->memory_changed();
  }
  [[nodiscard]] std::size_t count() const noexcept {
    return count_.load(std::memory_order_relaxed);
  }

 private:
  std::mutex mutex_;
  std::vector<MemoryListener*> listeners_;
  std::atomic<std::size_t> count_{0};
};

}  // namespace gpk::runtime

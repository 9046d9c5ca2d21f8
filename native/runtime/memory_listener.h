// Who wants to hear that memory came free.
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
  // Called on any thread, with locks of the caller held: it takes none but its own last one, and
  // calls nobody back.
  virtual void memory_changed() noexcept = 0;
};

// Thread safe. Telling nobody costs one load.
class MemoryListeners {
 public:
  void add(MemoryListener& listener) {
    const std::lock_guard lock(mutex_);
    listeners_.push_back(&listener);
    count_.store(listeners_.size());
  }
  // No call to it is going on afterwards.
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

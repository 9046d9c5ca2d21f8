// Whether work that others yield to is on a device.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "core/driver_api.h"
#include "core/event_cache.h"
#include "runtime/sharing/window.h"

namespace gpk::inline core {
class Context;
}

namespace gpk::device {

// Of one device; shared by the gates of its partitions. The streams in the foreground only mark
// their work; those that yield ask, and pay for it. Thread safe.
class Foreground {
 public:
  // One stream in the foreground.
  class Source {
   public:
    explicit Source(Foreground& owner) : owner_(owner) {}
    ~Source();
    Source(const Source&) = delete;
    Source& operator=(const Source&) = delete;
    // Around the submission of work; submitted() only where it was.
    void begin() noexcept { num_submitting_.fetch_add(1, std::memory_order_relaxed); }
    void submitted(cu::Stream stream);
    void end() noexcept { num_submitting_.fetch_sub(1, std::memory_order_relaxed); }

   private:
    friend class Foreground;
    bool active();

    Foreground& owner_;
    std::atomic<int> num_submitting_{0};
    std::mutex mutex_;
    EventCache::EventId last_ = 0;  // after the newest work; 0: that is done
  };

  explicit Foreground(Context& context) : events_(context, false) {}

  std::shared_ptr<Source> add();
  // While nobody yields, sources mark nothing.
  void add_yielding(int change) noexcept { num_yielding_.fetch_add(change); }
  // True from the submission of foreground work until `quiet_ns` after it was seen done. Polls.
  bool active(std::int64_t now_ns, std::int64_t quiet_ns);
  // What active() has found, for windows.
  [[nodiscard]] const runtime::ForegroundActivity& activity() const noexcept { return activity_; }

 private:
  EventCache events_;
  std::atomic<int> num_yielding_{0};
  std::mutex mutex_;
  std::vector<std::weak_ptr<Source>> sources_;
  bool was_active_ = false;
  runtime::ForegroundActivity activity_;
};

}  // namespace gpk::device

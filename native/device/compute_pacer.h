// Shares of GPU time among partitions, by what their work was measured to take. For drivers
// without green contexts.
#pragma once

#include <list>
#include <mutex>

#include "base/clock.h"
#include "core/driver_api.h"
#include "core/event_cache.h"
#include "runtime/sharing/pacing_share.h"

namespace gpk::inline core {
class Context;
}

namespace gpk::device {

// Of one device. Thread safe. A member that has left is not paced any more.
class ComputePacer {
 public:
  using MemberId = runtime::SharePacer::MemberId;
  struct Piece {
    MemberId member = 0;
    EventCache::EventId start = 0;  // 0: not paced
  };

  ComputePacer(Context& context, const Clock& clock) : events_(context, true), shares_(clock) {}
  ~ComputePacer();
  ComputePacer(const ComputePacer&) = delete;
  ComputePacer& operator=(const ComputePacer&) = delete;

  // Waits until `member` may start work, and marks its start on the stream. Throws what
  // check_interrupt() throws.
  Piece begin(MemberId member, cu::Stream stream);
  // The work has been submitted to the stream; its time is charged when it is done.
  void submitted(const Piece& piece, cu::Stream stream);
  // It has not.
  void abandon(const Piece& piece) noexcept;

  // Charges what is done. Members with work in flight hold others back, so whoever waits does it.
  void retire();
  [[nodiscard]] runtime::SharePacer& shares() noexcept { return shares_; }

 private:
  struct Running {
    Piece piece;
    EventCache::EventId stop;
  };
  double measure(const Running& running);

  EventCache events_;
  runtime::SharePacer shares_;
  std::mutex mutex_;
  std::list<Running> running_;
};

}  // namespace gpk::device

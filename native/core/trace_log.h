// The process-wide trace: the whole library records here; Python starts, stops and writes it.
#pragma once

#include "base/trace.h"

namespace gpk::inline core {

// Off until started. Lives as long as the process. Uses the scheduler's steady clock.
TraceRecorder& trace_log();

// A copy between host and device for the life of the scope, on the track "copies".
class TracedCopy {
 public:
  TracedCopy(const char* name, std::size_t bytes) noexcept
      : name_(name), bytes_(bytes), start_ns_(trace_log().enabled() ? trace_log().now_ns() : -1) {}
  ~TracedCopy() {
    if (start_ns_ >= 0) end();
  }
  TracedCopy(const TracedCopy&) = delete;
  TracedCopy& operator=(const TracedCopy&) = delete;

 private:
  void end() const noexcept;

  const char* name_;
  std::size_t bytes_;
  std::int64_t start_ns_;
};

// An array's memory was moved to the host ("evict") or back ("restore"), on the track "evictions".
void trace_eviction(const char* name, std::size_t bytes) noexcept;

}  // namespace gpk::inline core

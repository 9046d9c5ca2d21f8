// The process's trace: everyone in the library records here, Python starts, stops and writes it.
#pragma once

#include "base/trace.h"

namespace gpk::inline core {

// Off until started; then recording costs one relaxed load more than off. Lives as long as the
// process. Its clock is the steady one of the scheduler.
TraceRecorder& trace_log();

// A copy between host and device while the scope lives, for the trace's row "copies".
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

// That an array's memory was sent to the host ("evict") or back ("restore"), for the row
// "evictions".
void trace_eviction(const char* name, std::size_t bytes) noexcept;

}  // namespace gpk::inline core

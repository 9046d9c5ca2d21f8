#include "core/trace_log.h"

namespace gpk::inline core {

TraceRecorder& trace_log() {
  static const SteadyClock clock;
  static auto* recorder = new TraceRecorder(clock);
  return *recorder;
}

void TracedCopy::end() const noexcept {
  TraceRecorder& log = trace_log();
  try {
    const std::int64_t now_ns = log.now_ns();
    log.span(TraceCategory::kCopy, name_, log.track("copies"), start_ns_, now_ns - start_ns_,
             {"bytes", static_cast<double>(bytes_)});
  } catch (...) {  // no memory for the track name
  }
}

void trace_eviction(const char* name, std::size_t bytes) noexcept {
  TraceRecorder& log = trace_log();
  if (!log.enabled()) return;
  try {
    log.instant(TraceCategory::kEviction, name, log.track("evictions"), log.now_ns(),
                {"bytes", static_cast<double>(bytes)});
  } catch (...) {  // no memory for the track name
  }
}

}  // namespace gpk::inline core

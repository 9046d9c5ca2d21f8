#include "core/trace_log.h"

namespace gpk {

runtime::TraceRecorder& trace_log() {
  static const runtime::SteadyClock clock;
  static auto* recorder = new runtime::TraceRecorder(clock);
  return *recorder;
}

}  // namespace gpk

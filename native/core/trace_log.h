// The process's trace: everyone in the library records here, Python starts, stops and writes it.
#pragma once

#include "runtime/trace.h"

namespace gpk {

// Off until started; then recording costs one relaxed load more than off. Lives as long as the
// process. Its clock is the steady one of the scheduler.
runtime::TraceRecorder& trace_log();

}  // namespace gpk

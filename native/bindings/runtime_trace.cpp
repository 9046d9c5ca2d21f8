// The trace of the process, for chrome://tracing and Perfetto.
#include <sstream>

#include "base/error.h"
#include "base/text.h"
#include "bindings/runtime_bind.h"
#include "core/kernel_trace.h"
#include "core/trace_log.h"

namespace gpk::bind {
namespace {

TraceCategory trace_category(const std::string& name) {
  for (const auto category : {TraceCategory::kTask, TraceCategory::kKernel, TraceCategory::kCopy,
                              TraceCategory::kEviction, TraceCategory::kMemory})
    if (name == to_string(category)) return category;
  throw InvalidArgument(
      cat("trace: category is '", name, "', expected task, kernel, copy, eviction or memory"));
}

std::string trace_json() {
  collect_kernel_trace();
  std::ostringstream out;
  trace_log().write_chrome_trace(out);
  return out.str();
}

}  // namespace

void bind_runtime_trace(py::module_& m) {
  m.def("trace_start", start_trace, Unlocked(), "Starts recording.");
  m.def("trace_stop", stop_trace, Unlocked(),
        "Waits for traced kernels, then stops recording; recorded events stay.");
  m.def("trace_enabled", [] { return trace_log().enabled(); }, "True between start and stop.");
  m.def("trace_clear", [] { trace_log().clear(); }, "Drops the recorded events.");
  m.def("trace_now", [] { return trace_log().now_ns(); }, "Nanoseconds on the trace's clock.");
  m.def("trace_num_events", [] { return trace_log().num_events(); }, "Number of events.");
  m.def(
      "trace_num_dropped", [] { return trace_log().num_dropped(); },
      "Older events overwritten by newer ones.");
  m.def(
      "trace_span",
      [](const std::string& category, const std::string& name, const std::string& track,
         std::int64_t start_ns, std::int64_t duration_ns) {
        TraceRecorder& log = trace_log();
        if (log.enabled())
          log.span(trace_category(category), name, log.track(track), start_ns, duration_ns);
      },
      py::arg("category"), py::arg("name"), py::arg("track"), py::arg("start_ns"),
      py::arg("duration_ns"), "An event with a duration.");
  m.def(
      "trace_instant",
      [](const std::string& category, const std::string& name, const std::string& track,
         std::int64_t at_ns) {
        TraceRecorder& log = trace_log();
        if (log.enabled()) log.instant(trace_category(category), name, log.track(track), at_ns);
      },
      py::arg("category"), py::arg("name"), py::arg("track"), py::arg("at_ns"),
      "An event at one point in time.");
  m.def(
      "trace_counter",
      [](const std::string& name, std::int64_t at_ns, double value) {
        trace_log().counter(name, at_ns, value);
      },
      py::arg("name"), py::arg("at_ns"), py::arg("value"), "A value from then on.");
  m.def("trace_json", trace_json, Unlocked(), "The Chrome trace as text.");
}

}  // namespace gpk::bind

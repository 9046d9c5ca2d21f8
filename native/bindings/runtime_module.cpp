// The submodule _native.runtime, and its error translation.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/text.h"
#include "bindings/bind.h"
#include "bindings/call_errors.h"
#include "bindings/guard.h"
#include "bindings/runtime_bind.h"

namespace gpk::bind {
namespace {

py::module_ load_runtime() {
  py::module_ native = py::module_::import("pygpukit._native");
  if (has_attribute(native, "runtime")) return native.attr("runtime").cast<py::module_>();
  py::module_ m = native.def_submodule(
      "runtime", "The GPU as a shared resource: memory, tasks, transfers and launches.");
  bind_runtime_admission(m);
  bind_runtime_qos(m);
  bind_runtime_scheduler(m);
  bind_runtime_tasks(m);
  bind_runtime_launch(m);
  bind_runtime_simulation(m);
  bind_runtime_trace(m);
  guard_classes(m);
  explain_calls(m);
  return m;
}

}  // namespace

std::int64_t nanoseconds(double value, double unit_ns, const char* what) {
  if (std::isnan(value)) throw InvalidArgument(cat(what, " is nan, expected a time"));
  constexpr double kEnd = 0x1p63;  // the first value that is too large
  const double ns = std::round(value * unit_ns);
  if (ns >= kEnd) return std::numeric_limits<std::int64_t>::max();
  if (ns < -kEnd) return std::numeric_limits<std::int64_t>::min();
  return static_cast<std::int64_t>(ns);
}

std::optional<std::int64_t> deadline_after(std::int64_t now_ns, std::optional<double> seconds,
                                           const char* what) {
  if (!seconds) return std::nullopt;
  const std::int64_t after_ns = nanoseconds(*seconds, kNsPerSecond, what);
  if (after_ns >= std::numeric_limits<std::int64_t>::max() - now_ns) return std::nullopt;
  return std::max<std::int64_t>(now_ns + after_ns, 0);  // a deadline in the past fails its task
}

void bind_runtime(py::module_& m) {
  m.def("load_runtime", load_runtime,
        "The submodule with the classes of the runtime, created on the first call.");
}

}  // namespace gpk::bind

// The runtime classes, in the submodule _native.runtime: one function per binding file. They are
// registered on first use, so that importing the package does not pay for them.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "bindings/python.h"

namespace gpk::bind {

using Unlocked = py::call_guard<WithoutGil>;

// Seconds since 1970 like Python's time.time(), for times on a steady clock.
class WallTime {
 public:
  WallTime() {
    using std::chrono::duration;
    const double wall =
        duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
    offset_s_ = wall - static_cast<double>(SteadyClock().now_ns()) / 1e9;
  }
  [[nodiscard]] double at(std::int64_t steady_ns) const noexcept {
    return offset_s_ + static_cast<double>(steady_ns) / 1e9;
  }
  [[nodiscard]] double now() const noexcept { return at(SteadyClock().now_ns()); }

 private:
  double offset_s_;
};

// A time from Python in nanoseconds. Values beyond 292 years, including infinity, are clamped; NaN
// throws InvalidArgument starting with `what`.
inline constexpr double kNsPerSecond = 1e9;
inline constexpr double kNsPerMs = 1e6;
std::int64_t nanoseconds(double value, double unit_ns, const char* what);

// The time `seconds` after `now_ns`; nullopt when it never comes.
std::optional<std::int64_t> deadline_after(std::int64_t now_ns, std::optional<double> seconds,
                                           const char* what);

inline double seconds(std::int64_t ns) noexcept { return static_cast<double>(ns) / 1e9; }

// An enumeration whose values also compare equal to their numbers, as in version 0.2.
template <class E>
py::enum_<E> number_enum(py::module_& m, const char* name, const char* doc) {
  py::enum_<E> type(m, name, doc);
  type.attr("__eq__") = py::cpp_function(
      [](const E& self, const py::object& other) {
        const auto number = py::int_(static_cast<int>(self));
        if (!py::isinstance<E>(other) && !PyLong_Check(other.ptr())) return false;
        return number.equal(py::int_(other));
      },
      py::name("__eq__"), py::is_method(type));
  type.attr("__ne__") = py::cpp_function(
      [](const py::object& self, const py::object& other) { return !self.equal(other); },
      py::name("__ne__"), py::is_method(type));
  return type;
}

void bind_runtime_admission(py::module_& m);
void bind_runtime_qos(py::module_& m);
void bind_runtime_scheduler(py::module_& m);
void bind_runtime_tasks(py::module_& m);
void bind_runtime_launch(py::module_& m);
void bind_runtime_simulation(py::module_& m);
void bind_runtime_trace(py::module_& m);

}  // namespace gpk::bind

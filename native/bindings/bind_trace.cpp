// Counts driver calls, for tests that an op makes no hidden copy or synchronisation.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <iterator>

#include "base/error.h"
#include "bindings/bind.h"
#include "core/driver.h"

namespace gpk::bind {
namespace {

enum Index : std::size_t {
#define GPK_CU(name, since, symbol, need, params) k_##name,
#include "core/driver_functions.def"
#undef GPK_CU
  kNumFunctions
};

constexpr const char* kNames[] = {
#define GPK_CU(name, since, symbol, need, params) #name,
#include "core/driver_functions.def"
#undef GPK_CU
};

std::atomic<bool> g_counting{false};
std::atomic<const cu::DriverApi*> g_real{nullptr};
std::atomic<std::int64_t> g_counts[kNumFunctions];

// An entry of the table that counts and forwards the call.
template <std::size_t kIndex, auto kMember>
struct Counted;
template <std::size_t kIndex, class... Args, cu::Result (*cu::DriverApi::*kMember)(Args...)>
struct Counted<kIndex, kMember> {
  static cu::Result call(Args... args) {
    g_counts[kIndex].fetch_add(1, std::memory_order_relaxed);
    return (g_real.load(std::memory_order_relaxed)->*kMember)(args...);
  }
};

// It and g_real stay once used: another thread may be about to call through them.
const cu::DriverApi& counting_table(const cu::DriverApi& real) {
  static cu::DriverApi table;
  g_real = &real;
#define GPK_CU(name, since, symbol, need, params) \
  table.name = real.name == nullptr ? nullptr : Counted<k_##name, &cu::DriverApi::name>::call;
#include "core/driver_functions.def"
#undef GPK_CU
  return table;
}

class DriverCalls {
 public:
  DriverCalls& enter() {
    if (!driver_info().loaded) return *this;  // no driver, no calls
    const cu::DriverApi& real = driver();
    if (g_counting.exchange(true))
      throw InvalidArgument("count_driver_calls: calls are being counted already");
    std::fill(std::begin(g_counts), std::end(g_counts), 0);
    gpk::detail::g_driver = &counting_table(real);
    entered_ = true;
    return *this;
  }

  void exit() {
    if (!entered_) return;
    entered_ = false;
    gpk::detail::g_driver = g_real.load();
    g_counting = false;
    for (std::size_t i = 0; i < kNumFunctions; ++i) counts_[i] = g_counts[i];
  }

  [[nodiscard]] py::dict counts() const {
    py::dict result;
    for (std::size_t i = 0; i < kNumFunctions; ++i)
      if (const std::int64_t count = entered_ ? g_counts[i].load() : counts_[i]; count != 0)
        result[kNames[i]] = count;
    return result;
  }

 private:
  bool entered_ = false;
  std::int64_t counts_[kNumFunctions] = {};
};

}  // namespace

void bind_trace(py::module_& m) {
  py::class_<DriverCalls>(m, "DriverCalls", "Calls of CUDA driver functions inside `with`.")
      .def("__enter__", &DriverCalls::enter, py::return_value_policy::reference)
      .def("__exit__", [](DriverCalls& self, const py::args&) { self.exit(); })
      .def_property_readonly("counts", &DriverCalls::counts,
                             "How often each function was called, by name; none with 0.");
  m.def(
      "count_driver_calls", [] { return DriverCalls(); },
      "Counts driver calls of all threads inside `with`. For tests: one at a time.");
}

}  // namespace gpk::bind

// Pacing of launches: the 0.2 rule, and shares of measured use.
#include "bindings/runtime_bind.h"
#include "runtime/sharing/pacing.h"
#include "runtime/sharing/pacing_share.h"

namespace gpk::bind {
namespace {

using runtime::KernelPacingEngine;
using runtime::PacingConfig;
using runtime::PacingDecision;
using runtime::PacingStats;
using runtime::SharePacer;
using runtime::StreamPacingStats;

struct PacingObject {
  explicit PacingObject(PacingConfig config) : engine(clock, config) {}
  runtime::SteadyClock clock;
  KernelPacingEngine engine;
};

struct SharePacerObject {
  explicit SharePacerObject(SharePacer::Options options) : pacer(clock, options) {}
  runtime::SteadyClock clock;
  SharePacer pacer;
};

void bind_pacing_values(py::module_& m) {
  using C = PacingConfig;
  py::class_<C>(m, "PacingConfig", "The numbers of the pacing rule.")
      .def(py::init([](double total, double window, double interval, bool adaptive) {
             return C{total, window, interval, adaptive};
           }),
           py::arg("total_bandwidth") = 1.0, py::arg("window_ms") = 100.0,
           py::arg("min_interval_ms") = 0.1, py::arg("adaptive") = true)
      .def_readonly("total_bandwidth", &C::total_bandwidth, "What all shares may add up to.")
      .def_readonly("window_ms", &C::window_ms, "The window of the rule.")
      .def_readonly("min_interval_ms", &C::min_interval_ms, "Between two launches of a stream.")
      .def_readonly("adaptive", &C::adaptive, "Kept for the signature.");
  using D = PacingDecision;
  py::class_<D>(m, "PacingDecision", "Whether a stream may launch now.")
      .def_property_readonly("can_launch", &D::can_launch, "It may.")
      .def_property_readonly("is_throttled", &D::is_throttled, "Not in this window.")
      .def_readonly("wait_ms", &D::wait_ms, "Until it may; infinite when throttled.")
      .def_property_readonly(
          "decision_type", [](const D& d) { return std::string(d.decision_type()); },
          "\"Launch\", \"Wait\" or \"Throttle\".");
  using T = StreamPacingStats;
  py::class_<T>(m, "StreamPacingStats", "Figures of one stream.")
      .def_readonly("stream_id", &T::stream_id, "The stream.")
      .def_readonly("bandwidth_share", &T::share, "Its share.")
      .def_readonly("launch_count", &T::num_launches, "So far.")
      .def_readonly("throttle_count", &T::num_throttles, "So far.")
      .def_readonly("wait_count", &T::num_waits, "So far.")
      .def_readonly("total_wait_ms", &T::total_wait_ms, "So far.")
      .def_readonly("launches_in_window", &T::launches_in_window, "Now.");
  using S = PacingStats;
  py::class_<S>(m, "PacingStats", "Figures of all streams.")
      .def_readonly("stream_count", &S::num_streams, "Streams with a share.")
      .def_readonly("used_bandwidth", &S::used_bandwidth, "All shares.")
      .def_readonly("available_bandwidth", &S::available_bandwidth, "Left for shares.")
      .def_readonly("total_launches", &S::num_launches, "So far.")
      .def_readonly("total_throttles", &S::num_throttles, "So far.")
      .def_readonly("total_waits", &S::num_waits, "So far.");
}

void bind_share_pacer(py::module_& m) {
  using S = SharePacer::Stats;
  py::class_<S>(m, "ShareStats", "Figures of one member.")
      .def_readonly("share", &S::share, "As given.")
      .def_readonly("capped", &S::capped, "Never more than its share.")
      .def_readonly("active", &S::active, "It asks for its share.")
      .def_readonly("used", &S::used, "Since the start.")
      .def_readonly("used_in_window", &S::used_in_window, "Now.")
      .def_readonly("last_window_share", &S::last_window_share, "Of the last whole window.")
      .def_readonly("in_flight_count", &S::num_in_flight, "Now.")
      .def_readonly("started_count", &S::num_started, "So far.")
      .def_readonly("refused_count", &S::num_refused, "So far.");
  using P = SharePacerObject;
  const auto id = py::arg("member");
  py::class_<P>(m, "SharePacer", "Shares of what was measured: GPU time or bytes.")
      .def(py::init([](double capacity, double window_ms, double burst, double idle_ms) {
             SharePacer::Options options;
             options.capacity_per_ns = capacity;
             options.window_ns = nanoseconds(window_ms, kNsPerMs, "SharePacer: window_ms");
             options.burst = burst;
             options.idle_after_ns = nanoseconds(idle_ms, kNsPerMs, "SharePacer: idle_after_ms");
             return std::make_unique<P>(options);
           }),
           py::arg("capacity_per_ns") = 1.0, py::arg("window_ms") = 100.0,
           py::arg("burst") = SharePacer::Options().burst, py::arg("idle_after_ms") = 1.0)
      .def(
          "add", [](P& p, std::uint64_t i, double s, bool c) { p.pacer.add(i, s, c); }, id,
          py::arg("share"), py::arg("capped") = false, "A new member.")
      .def(
          "remove", [](P& p, std::uint64_t i) { p.pacer.remove(i); }, id, "Forgets a member.")
      .def(
          "try_begin", [](P& p, std::uint64_t i) { return p.pacer.try_begin(i); }, id,
          "True: its work is in flight, end() or abandon() follows.")
      .def(
          "end", [](P& p, std::uint64_t i, double amount) { p.pacer.end(i, amount); }, id,
          py::arg("amount"), "Its oldest work in flight cost so much.")
      .def(
          "abandon", [](P& p, std::uint64_t i) { p.pacer.abandon(i); }, id,
          "Its newest work in flight did not happen.")
      .def(
          "charge", [](P& p, std::uint64_t i, double amount) { p.pacer.charge(i, amount); }, id,
          py::arg("amount"), "Work that was not announced.")
      .def(
          "retry_in_ns", [](P& p, std::uint64_t i) { return p.pacer.retry_in_ns(i); }, id,
          "When asking again makes sense.")
      .def("stats", [](P& p, std::uint64_t i) { return p.pacer.stats(i); }, id, "The figures now.");
}

}  // namespace

void bind_runtime_pacing(py::module_& m) {
  bind_pacing_values(m);
  bind_share_pacer(m);
  using E = PacingObject;
  const auto id = py::arg("stream_id");
  py::class_<E>(m, "KernelPacingEngine", "Paces launches by count and interval.")
      .def(py::init([](const std::optional<PacingConfig>& config) {
             return std::make_unique<E>(config.value_or(PacingConfig()));
           }),
           py::arg("config") = py::none())
      .def(
          "allocate_stream",
          [](E& e, std::uint64_t i, double share) { return e.engine.allocate_stream(i, share); },
          id, py::arg("share"), "False when the shares would pass the total.")
      .def(
          "release_stream", [](E& e, std::uint64_t i) { return e.engine.release_stream(i); }, id,
          "False when unknown.")
      .def(
          "should_launch", [](E& e, std::uint64_t i) { return e.engine.should_launch(i); }, id,
          "Whether it may launch now; changes nothing.")
      .def(
          "record_launch", [](E& e, std::uint64_t i) { e.engine.record_launch(i); }, id,
          "It has launched.")
      .def(
          "record_throttle", [](E& e, std::uint64_t i) { e.engine.record_throttle(i); }, id,
          "It was throttled.")
      .def(
          "record_wait", [](E& e, std::uint64_t i, double ms) { e.engine.record_wait(i, ms); }, id,
          py::arg("wait_ms") = 0.0, "It has waited.")
      .def(
          "stream_stats", [](E& e, std::uint64_t i) { return e.engine.stream_stats(i); }, id,
          "Figures of a stream, or None.")
      .def(
          "stats", [](E& e) { return e.engine.stats(); }, "Figures of all streams.")
      .def(
          "reset", [](E& e) { e.engine.reset(); }, "Forgets launches; shares stay.")
      .def_property_readonly(
          "config", [](E& e) { return e.engine.config(); }, "The numbers of the rule.");
}

}  // namespace gpk::bind

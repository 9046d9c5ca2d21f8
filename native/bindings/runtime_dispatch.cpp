// The life of kernel launches.
#include "bindings/runtime_bind.h"
#include "bindings/runtime_launch.h"
#include "runtime/dispatch/dispatch.h"

namespace gpk::bind {
namespace {

using runtime::DispatchStats;
using runtime::KernelDispatcher;
using runtime::KernelLaunchRequest;
using LaunchState = runtime::KernelState;
using Shape = runtime::LaunchConfig;
using Triple = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>;

Triple dim_triple(const Shape::Dim3& d) { return {d[0], d[1], d[2]}; }

struct DispatcherObject {
  DispatcherObject(std::size_t max_in_flight, std::size_t max_queued)
      : dispatcher(clock, max_in_flight, max_queued, &launcher) {}
  runtime::SteadyClock clock;
  StreamLauncher launcher;
  KernelDispatcher dispatcher;
};

void bind_launch_config(py::module_& m) {
  py::class_<Shape>(m, "LaunchConfig", "The shape of a launch.")
      .def(py::init(&launch_config), py::arg("grid"), py::arg("block") = py::make_tuple(256, 1, 1),
           py::arg("shared_mem") = 0, py::arg("stream_id") = 0)
      .def_static("linear", &Shape::linear, py::arg("n"), py::arg("block_size") = 256,
                  "Enough blocks for n items.")
      .def_static("grid_2d", &Shape::grid_2d, py::arg("width"), py::arg("height"),
                  py::arg("block_x") = 16, py::arg("block_y") = 16, "Enough blocks for a plane.")
      .def_property_readonly(
          "grid", [](const Shape& c) { return dim_triple(c.grid); }, "Blocks.")
      .def_property_readonly(
          "block", [](const Shape& c) { return dim_triple(c.block); }, "Threads of a block.")
      .def_readonly("shared_mem", &Shape::shared_mem_bytes, "Bytes.")
      .def_readwrite("stream_id", &Shape::stream_id, "Number of the stream.");
}

void bind_dispatch_values(py::module_& m) {
  number_enum<LaunchState>(m, "KernelState", "How far a launch got.")
      .value("Queued", LaunchState::kQueued)
      .value("Launched", LaunchState::kLaunched)
      .value("Completed", LaunchState::kCompleted)
      .value("Failed", LaunchState::kFailed)
      .value("Cancelled", LaunchState::kCancelled);
  using R = KernelLaunchRequest;
  const auto lasted = [](std::int64_t from, std::int64_t to) -> std::optional<double> {
    if (from < 0 || to < 0) return std::nullopt;
    return seconds(to - from);
  };
  py::class_<R>(m, "KernelLaunchRequest", "A launch as it was when asked for.")
      .def_readonly("id", &R::id, "From 1.")
      .def_readonly("kernel_handle", &R::kernel_handle, "As queued.")
      .def_readonly("config", &R::config, "The shape.")
      .def_readonly("args", &R::args, "8 bytes each.")
      .def_property_readonly(
          "task_id",
          [](const R& r) { return r.task_id.empty() ? std::nullopt : std::optional(r.task_id); },
          "The task it belongs to, or None.")
      .def_readonly("priority", &R::priority, "Higher is earlier.")
      .def_readonly("state", &R::state, "How far it got.")
      .def_property_readonly(
          "error",
          [](const R& r) { return r.error.empty() ? std::nullopt : std::optional(r.error); },
          "Why it failed, or None.")
      .def(
          "wait_time", [lasted](const R& r) { return lasted(r.queued_ns, r.launched_ns); },
          "Seconds from queued to launched, or None.")
      .def(
          "exec_time", [lasted](const R& r) { return lasted(r.launched_ns, r.finished_ns); },
          "Seconds from launched to finished, or None.")
      .def("is_live", &R::is_live, "Queued or launched.");
  using S = DispatchStats;
  py::class_<S>(m, "DispatchStats", "Figures of a KernelDispatcher.")
      .def_readonly("total_queued", &S::total_queued, "Ever.")
      .def_readonly("total_launched", &S::total_launched, "Ever.")
      .def_readonly("completed_count", &S::num_completed, "So far.")
      .def_readonly("failed_count", &S::num_failed, "So far.")
      .def_readonly("cancelled_count", &S::num_cancelled, "So far.")
      .def_readonly("refused_count", &S::num_refused, "The queue was full.")
      .def_readonly("pending_count", &S::num_queued, "Now.")
      .def_readonly("in_flight_count", &S::num_in_flight, "Now.")
      .def_readonly("max_pending", &S::max_queued, "Most at a time.")
      .def_property_readonly("avg_wait_ms", &S::avg_wait_ms, "From queued to launched.")
      .def_property_readonly("avg_exec_ms", &S::avg_exec_ms, "From launched to completed.");
}

std::uint64_t queue_launch(DispatcherObject& self, std::uint64_t handle, const Shape& config,
                           std::optional<std::vector<std::uint64_t>> args,
                           std::optional<std::string> task, int priority) {
  const WithoutGil released;
  return self.dispatcher.queue(handle, config,
                               std::move(args).value_or(std::vector<std::uint64_t>()),
                               std::move(task).value_or(std::string()), priority);
}

}  // namespace

void bind_runtime_dispatch(py::module_& m) {
  bind_launch_config(m);
  bind_dispatch_values(m);
  using D = DispatcherObject;
  const auto id = py::arg("request_id");
  const auto handle = py::arg("kernel_handle");
  const auto args = py::arg("args") = py::none();
  py::class_<D>(m, "KernelDispatcher", "Queues launches, with limits per stream.")
      .def(py::init<std::size_t, std::size_t>(), py::arg("max_in_flight") = 4,
           py::arg("max_queued") = 65536)
      .def("queue", queue_launch, handle, py::arg("config"), args, py::arg("task_id") = py::none(),
           py::arg("priority") = 0, "A new request's id. RuntimeError when the queue is full.")
      .def(
          "queue_for_task",
          [](D& d, std::string task, std::uint64_t h, const Shape& c,
             std::optional<std::vector<std::uint64_t>> a,
             int p) { return queue_launch(d, h, c, std::move(a), std::move(task), p); },
          py::arg("task_id"), handle, py::arg("config"), args, py::arg("priority") = 0,
          "The same for a task.")
      .def(
          "get_ready", [](D& d, std::size_t max) { return d.dispatcher.get_ready(max); },
          py::arg("max_requests") = 1, Unlocked(), "Those that may launch now; changes nothing.")
      .def(
          "mark_launched", [](D& d, std::uint64_t i) { return d.dispatcher.mark_launched(i); }, id,
          Unlocked(), "Queued to launched.")
      .def(
          "mark_completed", [](D& d, std::uint64_t i) { return d.dispatcher.mark_completed(i); },
          id, Unlocked(), "Launched to completed.")
      .def(
          "mark_failed",
          [](D& d, std::uint64_t i, const std::string& e) {
            return d.dispatcher.mark_failed(i, e);
          },
          id, py::arg("error") = "", Unlocked(), "Queued or launched to failed.")
      .def(
          "cancel", [](D& d, std::uint64_t i) { return d.dispatcher.cancel(i); }, id, Unlocked(),
          "Queued to cancelled.")
      .def(
          "get_request", [](D& d, std::uint64_t i) { return d.dispatcher.get_request(i); }, id,
          Unlocked(), "The request as it is now, or None.")
      .def(
          "get_in_flight", [](D& d, std::uint64_t s) { return d.dispatcher.get_in_flight(s); },
          py::arg("stream_id") = 0, Unlocked(), "Ids launched on a stream, in launch order.")
      .def(
          "get_requests_for_task",
          [](D& d, const std::string& t) { return d.dispatcher.get_requests_for_task(t); },
          py::arg("task_id"), Unlocked(), "Ids of a task's requests.")
      .def(
          "has_pending_work", [](D& d) { return d.dispatcher.has_pending_work(); }, Unlocked(),
          "Something is queued or launched.")
      .def(
          "stats", [](D& d) { return d.dispatcher.stats(); }, Unlocked(), "The figures now.")
      .def(
          "gc", [](D& d) { return d.dispatcher.gc(); }, Unlocked(),
          "Forgets finished requests; how many.")
      .def(
          "clear", [](D& d) { d.dispatcher.clear(); }, Unlocked(), "Forgets all requests.")
      .def(
          "attach_stream",
          [](D& d, std::uint64_t number, const std::shared_ptr<Stream>& stream) {
            d.launcher.set_stream(number, stream);
          },
          py::arg("stream_id"), py::arg("stream"),
          "Requests for that number launch there: pump(), wait() and drain() act.")
      .def(
          "add_function",
          [](D& d, const py::function& function) { return d.launcher.add_function(function); },
          py::arg("function"),
          "A handle for a Python function, which launches on the current stream.")
      .def(
          "pump", [](D& d) { return d.dispatcher.pump(); }, Unlocked(),
          "Completes what is done and launches what may run; how many changed state.")
      .def(
          "wait", [](D& d, std::uint64_t i) { d.dispatcher.wait(i); }, id, Unlocked(),
          "Until the request is over; raises what it failed with.")
      .def(
          "drain", [](D& d) { d.dispatcher.drain(); }, Unlocked(),
          "Until nothing is queued or launched.")
      .def_property_readonly(
          "max_in_flight", [](D& d) { return d.dispatcher.max_in_flight(); }, "Per stream.");
}

}  // namespace gpk::bind

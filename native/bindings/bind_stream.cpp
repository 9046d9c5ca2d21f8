// Streams and events.
#include "base/error.h"
#include "base/text.h"
#include "bindings/bind.h"
#include "bindings/convert.h"
#include "bindings/made_resources.h"
#include "core/event.h"
#include "core/stream.h"
#include "device/launch_gate.h"

namespace gpk::bind {
namespace {

StreamPriority priority_from_python(py::handle object) {
  if (py::isinstance<py::str>(object)) {
    const auto text = text_from_python(object.attr("lower")());
    if (text == "high") return StreamPriority::kHigh;
    if (text == "low") return StreamPriority::kLow;
  } else if (PyLong_Check(object.ptr())) {
    int overflow = 0;
    const long value = PyLong_AsLongAndOverflow(object.ptr(), &overflow);
    if (overflow == 0 && value == 0) return StreamPriority::kHigh;
    if (overflow == 0 && value == 1) return StreamPriority::kLow;
  }
  throw InvalidArgument(cat("Stream: priority is ", safe_repr(object),
                            ", expected 'high', 'low' or a StreamPriority"));
}

std::shared_ptr<Stream> make_stream(py::handle handle, py::handle priority, py::handle device) {
  const Device where = device_from_python(device, "Stream");
  const StreamPriority level = priority_from_python(priority);
  if (!handle.is_none()) return stream_from_python(handle, where, "Stream");
  const WithoutGil released;
  auto stream = Stream::create(where, level);
  note_made("stream", stream);
  return stream;
}

py::object python_priority(const Stream& stream) {
  return py::module_::import("pygpukit.core.stream")
      .attr("StreamPriority")(static_cast<int>(stream.priority()));
}

// What `with stream:` replaced, innermost last. Per thread, like the current stream.
std::vector<std::shared_ptr<Stream>>& replaced_streams() {
  thread_local std::vector<std::shared_ptr<Stream>> stack;
  return stack;
}

std::shared_ptr<Stream> enter(const std::shared_ptr<Stream>& stream) {
  replaced_streams().push_back(exchange_current_stream(stream));
  return stream;
}

void leave(const std::shared_ptr<Stream>&, const py::args&) {
  auto& stack = replaced_streams();
  if (stack.empty()) throw Error("Stream: __exit__ without __enter__ on this thread");
  exchange_current_stream(std::move(stack.back()));
  stack.pop_back();
}

std::string describe_stream(const Stream& stream) {
  return cat("Stream(handle=", stream.handle_value(),
             ", priority=", stream.priority() == StreamPriority::kHigh ? "HIGH" : "LOW",
             ", device=", to_string(stream.device()), ")");
}

void wait_for(Stream& stream, py::handle other) {
  if (py::isinstance<Event>(other)) {
    const Event& event = other.cast<Event&>();
    const WithoutGil released;
    stream.wait(event);
    return;
  }
  const auto source = stream_from_python(other, stream.device(), "Stream.wait");
  const WithoutGil released;
  stream.wait(*source);
}

std::shared_ptr<Event> make_event(bool blocking_sync, bool timing, py::handle device) {
  const Device where = device_from_python(device, "CudaEvent");
  const WithoutGil released;
  auto event = Event::create(where, {.timing = timing, .blocking_sync = blocking_sync});
  note_made("event", event);
  return event;
}

void record(Event& event, py::handle stream) {
  const auto on = stream_from_python(stream, event.device(), "CudaEvent.record");
  const WithoutGil released;
  event.record(*on);
}

double elapsed_ms(const Event& start, const Event& stop) { return Event::elapsed_ms(start, stop); }

using Release = py::call_guard<WithoutGil>;

void limit(Stream& stream, std::optional<std::size_t> max_in_flight) {
  if (max_in_flight && (*max_in_flight == 0 || *max_in_flight > device::kMaxLaunchLimit))
    throw InvalidArgument(cat("dispatch.limit: max_in_flight is ", *max_in_flight,
                              ", expected None or 1 to ", device::kMaxLaunchLimit));
  const WithoutGil released;
  device::limit_launches(stream, max_in_flight.value_or(0));
}

py::dict gate_facts(const device::LaunchGate::Stats& gate) {
  const auto seconds = [](std::int64_t ns) { return static_cast<double>(ns) * 1e-9; };
  py::dict facts;
  facts["launches"] = gate.num_passed;
  facts["last_launch"] = gate.last_pass_ns < 0 ? 0.0 : seconds(gate.last_pass_ns);
  facts["limit"] = gate.window.limit < device::kMaxLaunchLimit ? gate.window.limit : 0;
  facts["in_flight"] = gate.window.num_in_flight;
  facts["max_in_flight"] = gate.window.max_in_flight;
  facts["waits"] = gate.window.num_waits;
  facts["wait_s"] = seconds(gate.window.wait_ns);
  facts["held"] = gate.num_held;
  facts["held_s"] = seconds(gate.held_ns);
  return facts;
}

py::dict launch_stats(py::handle device) {
  const Device where = device_from_python(device, "dispatch.stats");
  std::vector<device::GateReport> reports;
  {
    const WithoutGil released;
    reports = device::report_gates(where);
  }
  py::dict by_stream;
  for (const device::GateReport& report : reports)
    by_stream[py::int_(report.stream)] = gate_facts(report.stats);
  return by_stream;
}

}  // namespace

void bind_stream(py::module_& m) {
  py::class_<Event, std::shared_ptr<Event>>(m, "CudaEvent",
                                            "A point in a stream's work, for waiting and timing.")
      .def(py::init(&make_event), py::arg("blocking_sync") = false, py::kw_only(),
           py::arg("timing") = true, py::arg("device") = py::none())
      .def("record", record, py::arg("stream") = py::none(),
           "Marks the work submitted so far to the stream (the current one by default).")
      .def("synchronize", &Event::synchronize, Release(), "Waits for the marked work.")
      .def("query", &Event::query, Release(), "True when the marked work is done.");
  m.def("event_elapsed_ms", elapsed_ms, py::arg("start"), py::arg("stop"),
        "Milliseconds between two recorded events.");
  m.def(
      "event_elapsed_us",
      [](const Event& start, const Event& stop) { return elapsed_ms(start, stop) * 1000.0; },
      py::arg("start"), py::arg("stop"), "Microseconds between two recorded events.");

  py::class_<Stream, std::shared_ptr<Stream>>(
      m, "Stream",
      "An ordered queue of GPU work. `with stream:` makes it the calling thread's current stream.")
      .def(py::init(&make_stream), py::arg("handle") = py::none(), py::arg("priority") = "low",
           py::kw_only(), py::arg("device") = py::none(),
           "A new stream, or with `handle` (an int or an object with __cuda_stream__) an existing "
           "one.")
      .def_property_readonly("handle", &Stream::handle_value, "The CUstream as an int.")
      .def_property_readonly("priority", python_priority, "StreamPriority.HIGH or LOW.")
      .def_property_readonly(
          "device", [](const Stream& s) { return to_string(s.device()); }, "'cuda:0' or 'cpu'.")
      .def("synchronize", &Stream::synchronize, Release(), "Waits for all work submitted so far.")
      .def("query", &Stream::query, Release(), "True when the stream is idle.")
      .def("wait", wait_for, py::arg("other"),
           "Orders later work here after an event, or after another stream's work so far.")
      .def("__cuda_stream__", [](const Stream& s) { return py::make_tuple(0, s.handle_value()); })
      .def("__enter__", enter)
      .def("__exit__", leave)
      .def("__repr__", describe_stream);
  m.def("limit_launches", limit, py::arg("stream"), py::arg("max_in_flight"),
        "Limits the launches of the stream in flight; None: they are only counted.");
  m.def("launch_stats", launch_stats, py::arg("device") = py::none(),
        "Launch counters of a device's streams, by stream handle.");
  m.def(
      "current_stream",
      [](py::handle device) {
        return current_stream(device_from_python(device, "current_stream"));
      },
      py::arg("device") = py::none(), "The calling thread's current stream.");
  m.def(
      "default_stream",
      [](py::handle device) {
        return Stream::default_for(device_from_python(device, "default_stream"));
      },
      py::arg("device") = py::none(), "The device's default stream.");
}

}  // namespace gpk::bind

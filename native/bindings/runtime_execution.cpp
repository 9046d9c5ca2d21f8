// Contexts of several models on one GPU, and launches of raw functions.
#include "bindings/convert.h"
#include "bindings/runtime_bind.h"
#include "bindings/runtime_launch.h"
#include "runtime/scheduler/execution_context.h"

namespace gpk::bind {
namespace {

using runtime::ExecutionContexts;
using runtime::ExecutionContextStats;
using runtime::ExecutionStats;

void bind_execution_stats(py::module_& m) {
  using C = ExecutionContextStats;
  py::class_<C>(m, "ExecutionContextStats", "A context as it was when asked for.")
      .def_readonly("llm_id", &C::llm_id, "Its id.")
      .def_property_readonly(
          "state", [](const C& c) { return std::string(to_string(c.state)); },
          "\"IDLE\", \"RUNNING\" or \"PAUSED\".")
      .def_readonly("stream_id", &C::stream_id, "Number of its stream.")
      .def_readonly("max_vram", &C::max_vram_bytes, "Bytes; 0: only the budget of all.")
      .def_readonly("used_vram", &C::used_vram_bytes, "Bytes.")
      .def_readonly("available_vram", &C::available_vram_bytes, "Bytes.")
      .def_readonly("buffer_count", &C::buffer_count, "Tracked buffers.");
  using S = ExecutionStats;
  py::class_<S>(m, "ExecutionStats", "All contexts together; memory in bytes.")
      .def_readonly("initialized", &S::initialized, "initialize() or create() was called.")
      .def_readonly("device_id", &S::device_id, "The GPU.")
      .def_readonly("total_vram_budget", &S::total_vram_budget_bytes, "Of all contexts.")
      .def_readonly("device_total_memory", &S::device_total_memory_bytes, "Of the GPU.")
      .def_readonly("used_vram", &S::used_vram_bytes, "By all contexts.")
      .def_readonly("available_vram", &S::available_vram_bytes, "Left.")
      .def_readonly("context_count", &S::context_count, "Contexts.")
      .def_readonly("stream_pool_size", &S::stream_pool_size, "Stream ids to hand out again.");
}

}  // namespace

void bind_runtime_execution(py::module_& m) {
  bind_execution_stats(m);
  using E = ExecutionContexts;
  using Name = std::string_view;
  const auto id = py::arg("llm_id");
  py::class_<E>(m, "ExecutionContexts", "Several models on one GPU.")
      .def(py::init<>())
      .def("initialize", &E::initialize, py::arg("device_id") = 0,
           py::arg("device_total_memory") = 0, py::arg("total_vram_budget") = 0,
           "Memory 0: 8 GiB. Budget 0: the memory. Later calls do nothing.")
      .def("create", &E::create, id, py::arg("max_vram") = 0, py::arg("device_id") = 0,
           "A new context.")
      .def("destroy", &E::destroy, id, "False when there is none.")
      .def("get", &E::get, id, "The context as it is now, or None.")
      .def("ids", &E::ids, "Oldest first.")
      .def("track_allocation", &E::track_allocation, id, py::arg("buffer_id"), py::arg("size"),
           "False when the buffer would pass a budget.")
      .def("track_deallocation", &E::track_deallocation, id, py::arg("buffer_id"),
           "The buffer's size.")
      .def("begin_session", py::overload_cast<>(&E::begin_session), "All contexts run.")
      .def("end_session", py::overload_cast<>(&E::end_session), "All contexts are idle.")
      .def("is_session_active", py::overload_cast<>(&E::is_session_active, py::const_),
           "Between the two.")
      .def("begin_context_session", py::overload_cast<Name>(&E::begin_session), id, "One runs.")
      .def("end_context_session", py::overload_cast<Name>(&E::end_session), id, "One is idle.")
      .def("is_context_session_active", py::overload_cast<Name>(&E::is_session_active, py::const_),
           id, "Between the two.")
      .def("pause", &E::pause, id, "Running to paused.")
      .def("resume", &E::resume, id, "Paused to running.")
      .def("stats", &E::stats, "The figures now.")
      .def("reset", &E::reset, "As new.");
  m.def(
      "launch_function",
      [](std::uint64_t function, const LaunchDims& grid, const LaunchDims& block,
         std::uint32_t shared_mem, const std::vector<std::uint64_t>& args, py::handle stream) {
        const Device device = default_device();
        const auto on = stream_from_python(stream, device, "launch_function");
        const LaunchConfig config = launch_config(grid, block, shared_mem);
        const WithoutGil released;
        launch_raw(function, config, args, *on);
      },
      py::arg("function"), py::arg("grid"), py::arg("block"), py::arg("shared_mem"),
      py::arg("args"), py::arg("stream") = py::none(),
      "Launches a CUfunction given by its address; every argument is passed as 8 bytes.");
}

}  // namespace gpk::bind

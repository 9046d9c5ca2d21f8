// CUDA graphs.
#include "base/error.h"
#include "base/text.h"
#include "bindings/bind.h"
#include "bindings/convert.h"
#include "bindings/kernel_reference.h"
#include "bindings/made_resources.h"
#include "core/graph.h"

namespace gpk::bind {
namespace {

std::shared_ptr<Graph> make_graph(py::handle device) {
  auto graph = std::make_shared<Graph>(device_from_python(device, "CudaGraph"));
  note_made("graph", graph);
  return graph;
}

void replay(Graph& graph, py::handle stream) {
  std::shared_ptr<Stream> on;
  if (!stream.is_none()) on = stream_from_python(stream, graph.device(), "replay");
  const WithoutGil released;
  graph.replay(on);
}

// `with graph:` captures; an exception inside abandons the capture and propagates.
bool leave(Graph& graph, py::handle type, py::handle, py::handle) {
  const bool failed = !type.is_none();
  const WithoutGil released;
  if (!failed) {
    graph.end_capture();
  } else {
    graph.abandon_capture();
  }
  return false;
}

// nullptr for built-in kernels.
std::shared_ptr<KernelState> state_of(const GraphLaunch& launch) {
  if (launch.kernel) return bind::state_of(launch.kernel.get());
  return std::static_pointer_cast<KernelState>(launch.host_kernel);
}

py::list launches(const Graph& graph) {
  py::list rows;
  for (const GraphLaunch& launch : graph.launches()) {
    py::dict d;
    const LaunchConfig& c = launch.config;
    d["name"] = launch.kernel ? std::string(launch.kernel->name()) : state_of(launch)->function;
    d["grid"] = py::make_tuple(c.grid[0], c.grid[1], c.grid[2]);
    d["block"] = py::make_tuple(c.block[0], c.block[1], c.block[2]);
    d["shared_mem"] = c.shared_bytes;
    rows.append(d);
  }
  return rows;
}

void set_args(Graph& graph, std::size_t index, const py::args& args, const py::kwargs& kwargs) {
  if (index >= graph.launches().size())
    throw InvalidArgument(InvalidArgument::Kind::kIndex,
                          cat("set_args: launch ", index, " does not exist, the graph has ",
                              graph.launches().size(), " kernel launches"));
  const GraphLaunch& launch = graph.launches()[index];
  const auto state = state_of(launch);
  if (!state)
    throw InvalidArgument(cat("set_args: launch ", index, " is the built-in kernel '",
                              launch.kernel->name(), "'; only jit kernels can be changed"));
  std::vector<PyObject*> given;
  for (const py::handle value : args) given.push_back(value.ptr());
  py::tuple names(kwargs.size());
  std::size_t position = 0;
  for (const auto& [name, value] : kwargs) {
    names[position++] = name;
    given.push_back(value.ptr());
  }
  std::vector<PyObject*> values(state->args.size());
  const CallOptions options =
      match_arguments(*state, given.data(), args.size(), names.ptr(), values.data());
  if (options.has_grid || options.has_block || options.stream)
    throw InvalidArgument(cat("set_args: grid, block and stream of a captured launch are fixed"));
  PackedArgs packed(*state);
  packed.convert(values.data());
  if (!graph.device().is_cuda()) {
    graph.replace_host_launch(index, host_call(state, values.data(), launch.config));
    return;
  }
  for (const Array* array : packed.arrays()) graph.keep(array->buffer());
  const WithoutGil released;
  graph.set_launch_params(index, packed.params());
}

std::string describe(const Graph& graph) {
  return graph.ready() ? cat("CudaGraph(ready, nodes=", graph.num_nodes(), ")")
                       : std::string("CudaGraph(not ready)");
}

using Release = py::call_guard<WithoutGil>;

}  // namespace

void bind_graph(py::module_& m) {
  py::class_<Graph, std::shared_ptr<Graph>>(m, "CudaGraph",
                                            "Work captured once and replayed with one call. `with "
                                            "graph:` records what the calling thread "
                                            "does inside the block.")
      .def(py::init(&make_graph), py::kw_only(), py::arg("device") = py::none())
      .def("begin_capture", &Graph::begin_capture, Release(), "Starts capturing.")
      .def("end_capture", &Graph::end_capture, Release(),
           "Ends the capture and instantiates the graph.")
      .def("replay", replay, py::arg("stream") = py::none(),
           "Launches the captured work on a stream (the current one by default); asynchronous.")
      .def("synchronize", &Graph::synchronize, Release(), "Waits for the last replay.")
      .def("reset", &Graph::reset, Release(), "Drops the captured work and its memory.")
      .def("is_ready", &Graph::ready, "True when there is something to replay.")
      .def("is_capturing", &Graph::capturing, "True between begin_capture and end_capture.")
      .def(
          "get_stream_handle", [](const Graph& g) { return g.stream()->handle_value(); },
          "The capture stream as an int.")
      .def_property_readonly(
          "stream", [](const Graph& g) { return g.stream(); }, "The stream that is captured.")
      .def_property_readonly("num_nodes", &Graph::num_nodes, "Captured operations.")
      .def_property_readonly("launches", launches, "Captured kernel launches, in order.")
      .def("set_args", set_args, py::arg("index"),
           "Replaces all arguments of launches[index] for later replays.")
      .def("__enter__",
           [](const std::shared_ptr<Graph>& g) {
             const WithoutGil released;
             g->begin_capture();
             return g;
           })
      .def("__exit__", leave)
      .def("__repr__", describe);
}

}  // namespace gpk::bind

// The simulator: options of launches, reports, and the sources that findings point into.
#include <algorithm>
#include <mutex>

#include "base/error.h"
#include "bindings/array_object.h"
#include "bindings/bind.h"
#include "bindings/convert.h"
#include "bindings/made_resources.h"
#include "core/driver.h"
#include "core/sim_driver.h"
#include "jit/host_module.h"
#include "jit/program.h"
#include "jit/sources.h"

namespace gpk::bind {
namespace {

py::dict sim_info() {
  py::dict d;
  d["is_driver"] = driver_info().simulated;
  try {
    const SimDriver& sim = sim_driver();
    char name[64] = {};
    sim.driver.cuDeviceGetName(name, sizeof name, 0);
    d["path"] = sim.path;
    d["device"] = std::string(name);
    d["problem"] = "";
  } catch (const GpuUnavailable& error) {
    d["problem"] = std::string(error.what());
  }
  return d;
}

py::dict get_options() {
  cu::SimOptions o{};
  const SimDriver& sim = sim_driver();
  {
    const WithoutGil unlocked;
    const std::lock_guard lock(jit::host_launch_mutex());  // a launch changes them until its end
    sim.sim.gpkSimGetOptions(&o);
  }
  py::dict d;
  d["check"] = o.check != 0;
  d["races"] = o.check_races != 0;
  d["counts"] = o.counts != 0;
  d["record"] = o.record != 0;
  d["log"] = o.log != 0;
  d["threads"] = o.threads;
  d["seed"] = o.seed;
  return d;
}

void set_options(bool check, bool races, bool counts, bool record, bool log, unsigned threads,
                 std::uint64_t seed, std::uint64_t trace_steps,
                 const std::array<unsigned, 3>& trace_block, unsigned trace_warp) {
  const cu::SimOptions options{.check = check ? 1 : 0,
                               .check_races = races ? 1 : 0,
                               .counts = counts ? 1 : 0,
                               .record = record ? 1 : 0,
                               .log = log ? 1 : 0,
                               .threads = threads,
                               .seed = seed,
                               .trace_steps = trace_steps,
                               .trace_block = {trace_block[0], trace_block[1], trace_block[2]},
                               .trace_warp = trace_warp};
  const SimDriver& sim = sim_driver();
  const WithoutGil unlocked;  // a launch may be running
  const std::lock_guard lock(jit::host_launch_mutex());
  sim.sim.gpkSimSetOptions(&options);
}

std::string take_report() { return sim_driver().sim.gpkSimTakeReport(); }

// What lives of what Python code made since sim_record_made(), except the arrays of `kept`.
py::list living(const py::list& kept) {
  std::vector<const void*> excepted;
  for (const py::handle one : kept)
    if (is_array(one.ptr())) excepted.push_back(array_of(one.ptr()).buffer().get());
  py::list found;
  for (const MadeResource& made : living_made()) {
    const void* object = made.object.lock().get();
    if (object == nullptr || std::find(excepted.begin(), excepted.end(), object) != excepted.end())
      continue;
    excepted.push_back(object);  // views share their buffer
    found.append(py::make_tuple(made.kind, made.bytes));
  }
  return found;
}

// The text of a file that a finding names: that of the program, or a built-in kernel's.
py::object find_source(const std::string& file, std::uint64_t module) {
  if (const std::string built = jit::Program::built_source(file, module); !built.empty())
    return py::str(built);
  for (const jit::EmbeddedSource& embedded : jit::embedded_sources())
    if (embedded.name == file) return py::str(std::string(embedded.text));
  return py::none();
}

}  // namespace

void bind_sim(py::module_& m) {
  m.def("sim_info", sim_info,
        "The simulator: whether it is the driver, its library, its device, or why it is missing.");
  m.def("sim_options", get_options, "Options of later launches in the simulator.");
  m.def("sim_set_options", set_options, py::kw_only(), py::arg("check"), py::arg("races"),
        py::arg("counts"), py::arg("record"), py::arg("log"), py::arg("threads"), py::arg("seed"),
        py::arg("trace_steps") = 0, py::arg("trace_block") = std::array<unsigned, 3>{},
        py::arg("trace_warp") = 0, "Options of later launches in the simulator.");
  m.def("sim_take_report", take_report, py::call_guard<WithoutGil>(),
        "Recorded launches since the last call, as JSON.");
  m.def("sim_record_made", record_made, py::arg("on"),
        "Notes arrays, pinned memory, streams, events, graphs and modules that Python code makes.");
  m.def("sim_living", living, py::arg("kept"),
        "(kind, bytes) of what was made since sim_record_made(True) and lives, but for arrays.");
  m.def("sim_source", find_source, py::arg("file"), py::arg("module"),
        "The source that a finding of a launch names, or None.");
}

}  // namespace gpk::bind

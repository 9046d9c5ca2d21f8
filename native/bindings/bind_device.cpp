// Devices, the driver and the configuration, as data.
#include <cstdlib>

#include "bindings/bind.h"
#include "bindings/convert.h"
#include "core/config.h"
#include "core/context.h"
#include "core/device.h"
#include "core/driver.h"
#include "device/transfers.h"
#include "jit/disk_cache.h"

namespace gpk::bind {
namespace {

py::dict traits_dict(py::handle device) {
  const Device where = device_from_python(device, "device_traits");
  const DeviceTraits& t = device_traits(where);
  py::dict d;
  d["device"] = to_string(where);
  d["name"] = t.name;
  d["pci_bus_id"] = t.pci_bus_id;
  d["total_memory"] = t.total_memory_bytes;
  d["sm"] = t.sm;
  d["multiprocessor_count"] = t.multiprocessor_count;
  d["warp_size"] = t.warp_size;
  d["max_threads_per_block"] = t.max_threads_per_block;
  d["max_threads_per_sm"] = t.max_threads_per_sm;
  d["shared_per_block"] = t.shared_per_block_bytes;
  d["shared_per_block_optin"] = t.shared_per_block_optin_bytes;
  d["shared_per_sm"] = t.shared_per_sm_bytes;
  d["l2_bytes"] = t.l2_bytes;
  d["cooperative_launch"] = t.cooperative_launch;
  d["cluster_launch"] = t.cluster_launch;
  return d;
}

py::dict driver_dict() {
  const DriverInfo& info = driver_info();
  py::dict d;
  d["loaded"] = info.loaded;
  d["version"] = info.version;
  d["device_count"] = info.device_count;
  d["path"] = info.path;
  d["problem"] = info.problem;
  d["tried"] = info.tried;
  return d;
}

py::dict config_dict() {
  const Config& c = Config::get();
  py::dict d;
  d["cache_dir"] = c.cache_dir;
  d["cache_disable"] = c.cache_disable;
  d["nvrtc_path"] = c.nvrtc_path;
  d["cublaslt_path"] = c.cublaslt_path;
  d["require_gpu"] = c.require_gpu;
  d["allow_tf32"] = c.allow_tf32 && !c.no_tf32;
  d["launch_blocking"] = c.launch_blocking;
  d["top"] = c.top;
  d["seed"] = c.seed ? py::object(py::int_(*c.seed)) : py::none();
  d["no_color"] = c.no_color;
  return d;
}

// Documented variables as (name, meaning, value or None).
py::list variables() {
  py::list rows;
  for (const ConfigVariable& v : config_variables()) {
    const char* value = std::getenv(v.name);
    rows.append(py::make_tuple(
        v.name, v.meaning, value == nullptr ? py::object(py::none()) : py::object(py::str(value))));
  }
  return rows;
}

py::tuple chosen() {
  const DeviceChoiceResult& choice = default_device_choice();
  return py::make_tuple(to_string(choice.device), choice.reason);
}

void synchronize_all() {
  const WithoutGil released;
  for (Context* context : Context::all()) context->synchronize();
}

// At exit: waits for kernels, so that their printf output arrives. A lost device is left alone.
void finish() noexcept {
  try {
    if (forked_after_use()) return;
    const WithoutGil released;  // transfer callbacks need the GIL to finish
    device::close_transfers();
    for (Context* context : Context::all())
      if (!context->dead()) context->synchronize();
  } catch (...) {  // the process is ending; the error is reported elsewhere
  }
}

}  // namespace

void bind_device(py::module_& m) {
  m.def("cuda_device_count", cuda_device_count, "GPUs visible to the driver; 0 without a driver.");
  m.def("device_traits", traits_dict, py::arg("device") = py::none(), "Properties of a device.");
  m.def("driver_info", driver_dict, "The driver library: path, version, problem, and paths tried.");
  m.def("config", config_dict, "The configuration read from the environment.");
  m.def("config_variables", variables, "Environment variables as (name, meaning, value or None).");
  m.def("default_device", chosen, "The default device and why it was chosen.");
  m.def(
      "set_default_device",
      [](py::handle device) {
        set_default_device(device_from_python(device, "set_default_device"));
      },
      py::arg("device"), "Makes a device the default of this process.");
  m.def(
      "memory_info",
      [](py::handle device) {
        const MemoryInfo info = memory_info(device_from_python(device, "memory_info"));
        return py::make_tuple(info.free_bytes, info.total_bytes);
      },
      py::arg("device") = py::none(), "(free, total) bytes of a device.");
  m.def("synchronize", synchronize_all, "Waits for all work of this process on all GPUs.");
  m.def("finish", finish, "Runs at interpreter exit.");
}

}  // namespace gpk::bind

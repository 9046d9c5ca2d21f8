// The simulated driver (native/sim/driver), which is installed beside the extension. It serves as
// the process's driver with PYGPUKIT_DEVICE=sim, and runs kernels on host arrays where there is no
// GPU (jit/host_module.h).
#pragma once

#include <string>
#include <vector>

#include "core/driver_api.h"
#include "core/library.h"
#include "core/sim_api.h"

namespace gpk::inline core {

// Where the library is looked for.
std::vector<std::string> sim_library_names();

// True, and `api` filled, where `library` is the simulated driver.
bool fill_sim_table(const SharedLibrary& library, cu::SimApi& api);

struct SimDriver {
  cu::DriverApi driver;
  cu::SimApi sim;
  std::string path;
};

// Loaded and initialised on first use, whatever the process's own driver is; if that is the
// simulated one, it is the same. Throws GpuUnavailable with the reason.
const SimDriver& sim_driver();

}  // namespace gpk::inline core

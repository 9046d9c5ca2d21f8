// Finds and loads the CUDA driver library. Nothing happens before the first call.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "core/driver_api.h"

namespace gpk::inline core {

struct DriverInfo {
  bool loaded = false;  // library found, all required functions there, cuInit succeeded
  int version = 0;      // cuDriverGetVersion, e.g. 13000
  int device_count = 0;
  bool simulated = false;  // the library is the simulated driver (native/sim/driver)
  std::string path;        // the library that was loaded
  std::string problem;  // why it cannot be used: "CUDA driver not detected: ..."; empty if it can
  std::vector<std::string> tried;  // every library name or path tried, with the loader's message
};

// Loads the driver and calls cuInit once; never throws for a missing driver or GPU.
// `loaded && device_count > 0 && problem.empty()` means that a GPU can be used.
const DriverInfo& driver_info();

// The function table. Throws GpuUnavailable with `problem` when there is no usable driver, and in
// a forked child whose parent had already used the driver.
inline const cu::DriverApi& driver();

// True once the simulated driver is in use: kernels are PTX text there. Loads nothing.
bool driver_is_simulated() noexcept;

// True in a child forked after the parent used the driver: CUDA cannot be used there.
bool forked_after_use() noexcept;

// Replaces the library by `api` and resets devices and contexts; nullptr reverts to loading the
// real one on next use. `api` must outlive its use. For tests only: not thread safe.
void set_driver_for_testing(const cu::DriverApi* api);

namespace detail {
// Set when a driver is usable; null otherwise, also in a forked child.
extern std::atomic<const cu::DriverApi*> g_driver;
const cu::DriverApi& find_driver();
}  // namespace detail

const cu::DriverApi& driver() {
  if (const auto* api = detail::g_driver.load(std::memory_order_acquire); api != nullptr) [[likely]]
    return *api;
  return detail::find_driver();
}

}  // namespace gpk::inline core

// How kernels report an out-of-bounds index without a synchronisation: they write one record to
// pinned host memory, and host calls that wait anyway check it afterwards.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>

#include "core/driver_api.h"
#include "kernels/args/index_report.h"

namespace gpk::inline core {

class Context;

// One per context, created on first use (also during a capture); lives as long as the process.
class DeviceReport {
 public:
  explicit DeviceReport(Context& context);
  DeviceReport(const DeviceReport&) = delete;
  DeviceReport& operator=(const DeviceReport&) = delete;

  // The kernel argument. `op` starts the message and must live as long as the process.
  [[nodiscard]] kernels::IndexReport handle(const char* op) const noexcept {
    return {std::bit_cast<unsigned*>(gate_), record_, op};
  }

  // Throws InvalidArgument (kIndex, kValue), once, when finished work has reported an index. Free
  // when there is no report. Re-arms reporting in `stream` order.
  void check(cu::Stream stream) {
    if (static_cast<volatile kernels::IndexRecord*>(record_)->ready != 0) [[unlikely]]
      raise(stream);
  }

 private:
  void raise(cu::Stream stream);

  cu::DevicePtr gate_ = 0;
  kernels::IndexRecord* record_ = nullptr;
};

}  // namespace gpk::inline core

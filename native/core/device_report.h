// How kernels report an index out of bounds without a synchronisation: they write one record in
// pinned host memory, and host calls that wait anyway look at it afterwards.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>

#include "core/driver_api.h"
#include "kernels/args/index_report.h"

namespace gpk::inline core {

class Context;

// One per context, made at first use (also during a capture); lives as long as the process.
class DeviceReport {
 public:
  explicit DeviceReport(Context& context);
  DeviceReport(const DeviceReport&) = delete;
  DeviceReport& operator=(const DeviceReport&) = delete;

  // The kernel argument. `op` must stay valid for ever: it is what the message starts with.
  [[nodiscard]] kernels::IndexReport handle(const char* op) const noexcept {
    return {std::bit_cast<unsigned*>(gate_), record_, op};
  }

  // Throws InvalidArgument (kIndex, kValue), once, when work that is done has reported an index.
  // Free when there is none. The next report is enabled in the order of `stream`.
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

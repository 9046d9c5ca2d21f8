// How kernels report an index out of bounds without a synchronisation: they write one record in
// pinned host memory, and host calls that wait anyway look at it afterwards.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/driver_api.h"

namespace gpk {

class Context;

// Written by the GPU. Mirrored in kernels/indexing/layout.cuh.
struct IndexRecord {
  std::uint32_t ready;
  std::int32_t axis;  // -1: a position in the whole array, which is a wrong value (kValue)
  const char* op;
  std::int64_t index;
  std::int64_t size;
};

// One per context, made at first use (also during a capture); lives as long as the process.
class DeviceReport {
 public:
  // The kernel argument. `op` must stay valid for ever: it is what the message starts with.
  struct Handle {
    cu::DevicePtr gate = 0;  // in device memory; set by the first thread that reports
    cu::DevicePtr record = 0;
    const char* op = nullptr;
  };

  explicit DeviceReport(Context& context);
  DeviceReport(const DeviceReport&) = delete;
  DeviceReport& operator=(const DeviceReport&) = delete;

  [[nodiscard]] Handle handle(const char* op) const noexcept { return {gate_, address_, op}; }

  // Throws InvalidArgument (kIndex, kValue), once, when work that is done has reported an index.
  // Free when there is none. The next report is enabled in the order of `stream`.
  void check(cu::Stream stream) {
    if (static_cast<volatile IndexRecord*>(record_)->ready != 0) [[unlikely]]
      raise(stream);
  }

 private:
  void raise(cu::Stream stream);

  cu::DevicePtr gate_ = 0;
  cu::DevicePtr address_ = 0;
  IndexRecord* record_ = nullptr;
};

}  // namespace gpk

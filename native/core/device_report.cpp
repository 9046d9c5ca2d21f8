#include "core/device_report.h"

#include <atomic>
#include <mutex>
#include <new>

#include "base/error.h"
#include "base/text.h"
#include "core/check.h"
#include "core/context.h"
#include "core/memory.h"

namespace gpk::inline core {
namespace {

// On a dedicated stream, which is never being captured.
void clear_gate_now(cu::DevicePtr gate) {
  cu::Stream stream = nullptr;
  GPK_CU_CHECK(cuStreamCreateWithPriority, &stream, cu::kStreamNonBlocking, 0);
  const cu::Result set = driver().cuMemsetD32Async(gate, 0, 1, stream);
  const cu::Result waited = driver().cuStreamSynchronize(stream);
  driver().cuStreamDestroy(stream);
  check_cuda(set, "cuMemsetD32Async");
  check_cuda(waited, "cuStreamSynchronize");
}

}  // namespace

DeviceReport::DeviceReport(Context& context) {
  context.make_current();
  const RelaxedCaptureScope relaxed;
  void* host = nullptr;
  // With unified addressing (all supported GPUs) the device address equals the host address.
  GPK_CU_CHECK(cuMemHostAlloc, &host, sizeof(kernels::IndexRecord),
               cu::kHostAllocPortable | cu::kHostAllocDeviceMap);
  record_ = new (host) kernels::IndexRecord{};
  GPK_CU_CHECK(cuMemAlloc, &gate_, sizeof(std::uint32_t));
  clear_gate_now(gate_);
}

void DeviceReport::raise(cu::Stream stream) {
  static std::mutex mutex;  // two waiting threads must not report one record twice
  const std::lock_guard lock(mutex);
  const std::atomic_ref ready(record_->ready);  // the kernel sets it last
  if (ready.load(std::memory_order_acquire) == 0) return;
  const int axis = record_->axis;
  const std::int64_t size = record_->size;
  const std::string what = cat(static_cast<const char*>(record_->op), ": index ", record_->index,
                               " is out of bounds for ");
  ready.store(0, std::memory_order_relaxed);
  driver().cuMemsetD32Async(gate_, 0, 1, stream);  // best effort: the report matters more
  if (axis < 0) throw InvalidArgument(cat(what, "array with size ", size));
  throw InvalidArgument(InvalidArgument::Kind::kIndex,
                        cat(what, "axis ", axis, " with size ", size));
}

}  // namespace gpk::inline core

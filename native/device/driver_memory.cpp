#include "device/driver_memory.h"

#include "base/error.h"
#include "core/check.h"
#include "core/context.h"
#include "core/memory.h"
#include "core/page_locked.h"
#include "core/stream.h"
#include "core/trace_log.h"

namespace gpk::device {
namespace {

using runtime::PoolDevice;

class DriverMemory final : public PoolDevice {
 public:
  explicit DriverMemory(Context& context) : context_(context) {
    context_.make_current();
    properties_.type = cu::kMemoryPinned;
    properties_.location = {cu::kLocationDevice, context.device().index};
    can_map_ = context.traits().virtual_memory;
    if (can_map_)
      GPK_CU_CHECK(cuMemGetAllocationGranularity, &granularity_bytes_, &properties_,
                   cu::kGranularityMinimum);
  }

  [[nodiscard]] bool can_map() const noexcept override { return can_map_; }
  [[nodiscard]] std::size_t granularity_bytes() const noexcept override {
    return granularity_bytes_;
  }

  [[nodiscard]] std::size_t free_bytes() noexcept override {
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    if (!enter()) return 0;
    driver().cuMemGetInfo(&free_bytes, &total_bytes);
    return free_bytes;
  }

  Address reserve(std::size_t bytes, std::size_t alignment_bytes) override {
    context_.make_current();
    const RelaxedCaptureScope relaxed;
    cu::DevicePtr address = 0;
    const cu::Result result = driver().cuMemAddressReserve(&address, bytes, alignment_bytes, 0, 0);
    return found(result, "cuMemAddressReserve") ? address : 0;
  }

  void release(Address address, std::size_t bytes) noexcept override {
    if (!enter()) return;
    const RelaxedCaptureScope relaxed;
    driver().cuMemAddressFree(address, bytes);
  }

  Handle create(std::size_t bytes) override {
    context_.make_current();
    const RelaxedCaptureScope relaxed;
    cu::MemoryHandle handle = 0;
    const cu::Result result = driver().cuMemCreate(&handle, bytes, &properties_, 0);
    return found(result, "cuMemCreate") ? handle : 0;
  }

  void destroy(Handle handle) noexcept override {
    if (!enter()) return;
    const RelaxedCaptureScope relaxed;
    driver().cuMemRelease(handle);
  }

  bool map(Address address, std::span<const Handle> handles, std::size_t chunk_bytes) override {
    context_.make_current();
    const RelaxedCaptureScope relaxed;
    chunk_bytes_ = chunk_bytes;
    std::size_t mapped = 0;
    cu::Result result = cu::kSuccess;
    const char* call = "cuMemMap";
    for (const Handle handle : handles) {
      result = driver().cuMemMap(address + mapped, chunk_bytes, 0, handle, 0);
      if (result != cu::kSuccess) break;
      mapped += chunk_bytes;
    }
    if (result == cu::kSuccess) {
      call = "cuMemSetAccess";
      const cu::MemoryAccess access{properties_.location, cu::kAccessReadWrite};
      result = driver().cuMemSetAccess(address, mapped, &access, 1);
    }
    if (result != cu::kSuccess && mapped > 0) unmap(address, mapped);
    return found(result, call);
  }

  void unmap(Address address, std::size_t bytes) noexcept override {
    if (!enter()) return;
    const RelaxedCaptureScope relaxed;
    if (driver().cuMemUnmap(address, bytes) == cu::kSuccess) return;
    // A driver that takes back only what one call has mapped.
    for (std::size_t done = 0; chunk_bytes_ != 0 && done < bytes; done += chunk_bytes_)
      driver().cuMemUnmap(address + done, chunk_bytes_);
  }

  Address allocate(std::size_t bytes) override {
    context_.make_current();
    const RelaxedCaptureScope relaxed;
    cu::DevicePtr address = 0;
    return found(driver().cuMemAlloc(&address, bytes), "cuMemAlloc") ? address : 0;
  }

  void free(Address address, std::size_t) noexcept override {
    if (!enter()) return;
    const RelaxedCaptureScope relaxed;
    driver().cuMemFree(address);
  }

  Event record(Stream stream) override {
    context_.make_current();
    const RelaxedCaptureScope relaxed;
    cu::Event event = nullptr;
    GPK_CU_CHECK(cuEventCreate, &event, cu::kEventDisableTiming);
    const cu::Result result = driver().cuEventRecord(event, handle_of(stream));
    if (result != cu::kSuccess) {
      destroy_event(id_of(event));
      check_cuda(result, "cuEventRecord");
    }
    return id_of(event);
  }

  [[nodiscard]] bool poll(Event event) override {
    context_.make_current();
    const RelaxedCaptureScope relaxed;
    const cu::Result result = driver().cuEventQuery(event_of(event));
    if (result == cu::kNotReady) return false;
    if (result != cu::kCapturedEvent) check_cuda(result, "cuEventQuery");
    return true;  // recorded in a capture: nothing has run that it could be behind
  }

  void wait(Event event) override {
    context_.make_current();
    const RelaxedCaptureScope relaxed;
    const cu::Result result = driver().cuEventSynchronize(event_of(event));
    if (result != cu::kCapturedEvent) check_cuda(result, "cuEventSynchronize");
  }

  void stream_wait(Stream stream, Event event) override {
    context_.make_current();
    const RelaxedCaptureScope relaxed;
    GPK_CU_CHECK(cuStreamWaitEvent, handle_of(stream), event_of(event), 0);
  }

  void destroy_event(Event event) noexcept override {
    if (enter()) driver().cuEventDestroy(event_of(event));
  }

  [[nodiscard]] Stream copy_stream() override {
    if (!copies_) copies_ = gpk::Stream::create(context_.device(), StreamPriority::kLow);
    return copies_->handle_value();
  }

  void copy_to_host(void* to, Address from, std::size_t bytes, Stream stream) override {
    trace_eviction("evict", bytes);
    context_.make_current();
    const RelaxedCaptureScope relaxed;
    GPK_CU_CHECK(cuMemcpyDtoHAsync, to, from, bytes, handle_of(stream));
  }

  void copy_to_device(Address to, const void* from, std::size_t bytes, Stream stream) override {
    trace_eviction("restore", bytes);
    context_.make_current();
    const RelaxedCaptureScope relaxed;
    refuse_capture(stream);
    GPK_CU_CHECK(cuMemcpyHtoDAsync, to, from, bytes, handle_of(stream));
  }

  void* allocate_host(std::size_t bytes) override { return allocate_page_locked(context_, bytes); }

  void free_host(void* data, std::size_t) noexcept override { free_page_locked(context_, data); }

 private:
  // True for success, false where memory is missing; throws for anything else.
  static bool found(cu::Result result, const char* call) {
    if (result == cu::kOutOfMemory) return false;
    check_cuda(result, call);
    return true;
  }

  // For calls that must not fail: false when the device is lost.
  bool enter() noexcept {
    try {
      context_.make_current();
      return true;
    } catch (...) {
      return false;
    }
  }

  // Someone else's capture: the copy would become a part of that graph.
  static void refuse_capture(Stream stream) {
    int status = cu::kCaptureStatusNone;
    if (stream != 0 && driver().cuStreamIsCapturing(handle_of(stream), &status) == cu::kSuccess &&
        status != cu::kCaptureStatusNone)
      throw CaptureError(
          "restore: an evicted array is used on a stream that is being captured; restore or pin it "
          "before the capture");
  }

  static cu::Stream handle_of(Stream stream) noexcept {
    return reinterpret_cast<cu::Stream>(static_cast<std::uintptr_t>(stream));
  }
  static cu::Event event_of(Event event) noexcept {
    return reinterpret_cast<cu::Event>(static_cast<std::uintptr_t>(event));
  }
  static Event id_of(cu::Event event) noexcept { return reinterpret_cast<std::uintptr_t>(event); }

  Context& context_;
  cu::MemoryProperties properties_{};
  bool can_map_ = false;
  std::size_t granularity_bytes_ = 512;
  std::size_t chunk_bytes_ = 0;  // of the pieces that are mapped
  std::shared_ptr<gpk::Stream> copies_;
};

}  // namespace

std::unique_ptr<runtime::PoolDevice> make_driver_memory(Context& context) {
  return std::make_unique<DriverMemory>(context);
}

}  // namespace gpk::device

#include "device/copy_device.h"

#include <array>
#include <chrono>
#include <cstring>
#include <new>
#include <thread>

#include "base/error.h"
#include "core/context.h"
#include "core/event_cache.h"
#include "core/memory.h"
#include "core/page_locked.h"
#include "core/stream.h"

namespace gpk::device {
namespace {

using runtime::TransferType;

constexpr auto kBackoff = std::chrono::microseconds(20);
constexpr std::align_val_t kPageAlignment{4096};

void* pointer(std::uint64_t address) {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
}

[[noreturn]] void throw_no_pinned(std::size_t bytes) {
  OutOfMemory::Numbers numbers;
  numbers.asked_bytes = bytes;
  throw OutOfMemory("pinned memory", numbers);
}

// Threads of the engine call in, so every method makes the context current first.
class DriverCopies final : public DeviceCopies {
 public:
  explicit DriverCopies(Context& context) : context_(context), events_(context, false) {
    for (auto& stream : streams_) stream = Stream::create(context.device(), StreamPriority::kLow);
  }

  bool poll(EventId event) override { return events_.poll(event); }
  void wait(EventId event) override { events_.wait(event); }
  void release(EventId event) noexcept override { events_.release(event); }

  void copy_async(TransferType type, std::uint64_t dst, std::uint64_t src,
                  std::size_t bytes) override {
    Stream& stream = stream_of(type);
    switch (type) {
      case TransferType::kH2D: copy_to_device(dst, pointer(src), bytes, stream); return;
      case TransferType::kD2H: copy_to_host(pointer(dst), src, bytes, stream); return;
      case TransferType::kD2D: copy_on_device(dst, src, bytes, stream); return;
    }
  }

  EventId record(TransferType type) override { return events_.record(stream_of(type).handle()); }
  EventId record_stream(const Stream& stream) override { return events_.record(stream.handle()); }

  void synchronize(TransferType type) override {
    context_.make_current();
    GPK_CU_CHECK(cuStreamSynchronize, stream_of(type).handle());
  }

  void backoff() noexcept override { std::this_thread::sleep_for(kBackoff); }

  bool is_pinned(const void* ptr, std::size_t bytes) override {
    return bytes == 0 || gpk::is_pinned(context_, ptr, bytes);
  }

  void* allocate_pinned(std::size_t bytes) override {
    void* data = allocate_page_locked(context_, bytes);
    if (data == nullptr) throw_no_pinned(bytes);
    return data;
  }

  void free_pinned(void* ptr, std::size_t) noexcept override { free_page_locked(context_, ptr); }

 private:
  Stream& stream_of(TransferType type) { return *streams_[static_cast<std::size_t>(type)]; }

  Context& context_;
  std::array<std::shared_ptr<Stream>, runtime::kNumTransferTypes> streams_;
  EventCache events_;
};

// A copy is done when the call that starts it returns.
class HostCopies final : public DeviceCopies {
 public:
  bool poll(EventId) override { return true; }
  void wait(EventId) override {}
  void release(EventId) noexcept override {}
  void copy_async(TransferType, std::uint64_t dst, std::uint64_t src, std::size_t bytes) override {
    std::memmove(pointer(dst), pointer(src), bytes);
  }
  EventId record(TransferType) override { return 1; }
  EventId record_stream(const Stream&) override { return 1; }
  void synchronize(TransferType) override {}
  void backoff() noexcept override { std::this_thread::sleep_for(kBackoff); }
  bool is_pinned(const void*, std::size_t) override { return true; }  // no need to stage
  void* allocate_pinned(std::size_t bytes) override {
    void* data = ::operator new(bytes, kPageAlignment, std::nothrow);
    if (data == nullptr) throw_no_pinned(bytes);
    return data;
  }
  void free_pinned(void* ptr, std::size_t) noexcept override {
    ::operator delete(ptr, kPageAlignment);
  }
};

}  // namespace

std::unique_ptr<DeviceCopies> make_device_copies(Device device) {
  if (device.is_cuda()) return std::make_unique<DriverCopies>(Context::get(device.index));
  return std::make_unique<HostCopies>();
}

}  // namespace gpk::device

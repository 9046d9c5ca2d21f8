#include "core/block_device.h"

#include <cstring>
#include <new>

#include "core/check.h"
#include "core/context.h"
#include "core/device_pool.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/page_locked.h"
#include "core/stream.h"
#include "runtime/pool/pool.h"

namespace gpk {
namespace {

constexpr std::align_val_t kBlockAlignment{kMaxPinnedAlignment};

void* host_block(std::size_t bytes) { return ::operator new(bytes, kBlockAlignment, std::nothrow); }
void free_host_block(void* ptr) noexcept { ::operator delete(ptr, kBlockAlignment); }

class CudaBlocks final : public runtime::BlockDevice {
 public:
  explicit CudaBlocks(Context& context) : context_(context) {}

  std::uint64_t allocate(std::size_t bytes) override {
    const std::uint64_t ptr = ask(bytes);
    if (ptr != 0 || device_pool(context_.device()).trim() == 0) return ptr;
    return ask(bytes);  // what arrays had cached is free now
  }

  void free(std::uint64_t ptr, std::size_t) noexcept override {
    try {
      context_.make_current();
      const RelaxedCaptureScope relaxed;
      driver().cuMemFree(ptr);
    } catch (...) {  // a lost device frees its memory with the process
    }
  }

  void* allocate_host(std::size_t bytes) override { return allocate_page_locked(context_, bytes); }
  void free_host(void* ptr, std::size_t) noexcept override { free_page_locked(context_, ptr); }

  void copy_to_host(void* dst, std::uint64_t src, std::size_t bytes) override {
    context_.synchronize();
    gpk::copy_to_host(dst, src, bytes, *context_.default_stream());
    context_.default_stream()->synchronize();
  }

  void copy_to_device(std::uint64_t dst, const void* src, std::size_t bytes) override {
    context_.synchronize();
    gpk::copy_to_device(dst, src, bytes, *context_.default_stream());
    context_.default_stream()->synchronize();
  }

 private:
  std::uint64_t ask(std::size_t bytes) {
    context_.make_current();
    const RelaxedCaptureScope relaxed;
    cu::DevicePtr ptr = 0;
    const cu::Result result = driver().cuMemAlloc(&ptr, bytes);
    if (result == cu::kOutOfMemory) return 0;
    check_cuda(result, "cuMemAlloc");
    return ptr;
  }

  Context& context_;
};

class HostBlocks final : public runtime::BlockDevice {
 public:
  std::uint64_t allocate(std::size_t bytes) override {
    return static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(host_block(bytes)));
  }
  void free(std::uint64_t ptr, std::size_t) noexcept override { free_host_block(address(ptr)); }
  void* allocate_host(std::size_t bytes) override { return host_block(bytes); }
  void free_host(void* ptr, std::size_t) noexcept override { free_host_block(ptr); }
  void copy_to_host(void* dst, std::uint64_t src, std::size_t bytes) override {
    std::memcpy(dst, address(src), bytes);
  }
  void copy_to_device(std::uint64_t dst, const void* src, std::size_t bytes) override {
    std::memcpy(address(dst), src, bytes);
  }

 private:
  static void* address(std::uint64_t ptr) noexcept {
    return reinterpret_cast<void*>(static_cast<std::uintptr_t>(ptr));
  }
};

class CudaPinned final : public runtime::PinnedAllocator {
 public:
  explicit CudaPinned(Context& context) : context_(context) {}
  // The driver's allocations start at a page.
  void* allocate(std::size_t bytes, std::size_t) override {
    return allocate_page_locked(context_, bytes);
  }
  void free(void* ptr, std::size_t) noexcept override { free_page_locked(context_, ptr); }

 private:
  Context& context_;
};

class HostPinned final : public runtime::PinnedAllocator {
 public:
  void* allocate(std::size_t bytes, std::size_t) override { return host_block(bytes); }
  void free(void* ptr, std::size_t) noexcept override { free_host_block(ptr); }
};

}  // namespace

std::unique_ptr<runtime::BlockDevice> make_block_device(Device device) {
  if (device.is_cuda()) return std::make_unique<CudaBlocks>(Context::get(device.index));
  return std::make_unique<HostBlocks>();
}

std::unique_ptr<runtime::PinnedAllocator> make_pinned_allocator(Device device) {
  if (device.is_cuda()) return std::make_unique<CudaPinned>(Context::get(device.index));
  return std::make_unique<HostPinned>();
}

}  // namespace gpk

#include "device/host_memory.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>

#include "base/round_up.h"
#include "core/device.h"
#include "core/trace_log.h"

#ifndef _WIN32
#include <sys/mman.h>
#endif

namespace gpk::device {
namespace {

using runtime::PoolDevice;

constexpr std::size_t kGranularity = std::size_t{64} << 10;
constexpr std::align_val_t kAlignment{512};

void* pointer(std::uint64_t address) {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
}

// What does not depend on how memory is mapped.
class HostMemory : public PoolDevice {
 public:
  [[nodiscard]] std::size_t granularity_bytes() const noexcept override { return kGranularity; }
  // Of the machine's memory, what the pool has not taken: pages come when they are touched, and
  // what the system calls free leaves out all it could have again.
  [[nodiscard]] std::size_t free_bytes() noexcept override {
    return total_bytes_ - std::min(total_bytes_, taken_bytes_.load());
  }
  Address allocate(std::size_t bytes) override {
    if (!take(bytes)) return 0;
    void* data = ::operator new(bytes, kAlignment, std::nothrow);
    if (data == nullptr) give_back(bytes);
    return reinterpret_cast<std::uintptr_t>(data);
  }
  void free(Address address, std::size_t bytes) noexcept override {
    ::operator delete(pointer(address), kAlignment);
    give_back(bytes);
  }

  Event record(Stream) override { return 1; }
  [[nodiscard]] bool poll(Event) override { return true; }
  void wait(Event) override {}
  void stream_wait(Stream, Event) override {}
  void destroy_event(Event) noexcept override {}
  [[nodiscard]] Stream copy_stream() override { return 0; }

  void copy_to_host(void* to, Address from, std::size_t bytes, Stream) override {
    trace_eviction("evict", bytes);
    std::memcpy(to, pointer(from), bytes);
  }
  void copy_to_device(Address to, const void* from, std::size_t bytes, Stream) override {
    trace_eviction("restore", bytes);
    std::memcpy(pointer(to), from, bytes);
  }
  void* allocate_host(std::size_t bytes) override {
    return ::operator new(bytes, kAlignment, std::nothrow);
  }
  void free_host(void* data, std::size_t) noexcept override { ::operator delete(data, kAlignment); }

 protected:
  // The system would promise more memory than there is.
  bool take(std::size_t bytes) noexcept {
    if (bytes > free_bytes()) return false;
    taken_bytes_ += bytes;
    return true;
  }
  void give_back(std::size_t bytes) noexcept { taken_bytes_ -= bytes; }

 private:
  const std::size_t total_bytes_ = memory_info({DeviceKind::kCpu, 0}).total_bytes;
  std::atomic<std::size_t> taken_bytes_{0};
};

#ifdef _WIN32

class PlainMemory final : public HostMemory {
 public:
  [[nodiscard]] bool can_map() const noexcept override { return false; }
  Address reserve(std::size_t, std::size_t) override { return 0; }
  void release(Address, std::size_t) noexcept override {}
  Handle create(std::size_t) override { return 0; }
  void destroy(Handle) noexcept override {}
  bool map(Address, std::span<const Handle>, std::size_t) override { return false; }
  void unmap(Address, std::size_t) noexcept override {}
};
using OsMemory = PlainMemory;

#else

// A handle is only a promise of so many bytes, and its own number: pages come when they are first
// touched, and go with unmap.
class PagedMemory final : public HostMemory {
 public:
  [[nodiscard]] bool can_map() const noexcept override { return true; }

  Address reserve(std::size_t bytes, std::size_t alignment_bytes) override {
    void* all = mmap(nullptr, bytes + alignment_bytes, PROT_NONE, kFlags, -1, 0);
    if (all == MAP_FAILED) return 0;
    const auto start = reinterpret_cast<std::uintptr_t>(all);
    const std::uintptr_t aligned = round_up(start, alignment_bytes);
    if (aligned > start) munmap(all, aligned - start);
    munmap(pointer(aligned + bytes), alignment_bytes - (aligned - start));
    return aligned;
  }
  void release(Address address, std::size_t bytes) noexcept override {
    munmap(pointer(address), bytes);
  }

  Handle create(std::size_t bytes) override { return take(bytes) ? bytes : 0; }
  void destroy(Handle bytes) noexcept override { give_back(bytes); }

  bool map(Address address, std::span<const Handle> handles, std::size_t chunk_bytes) override {
    const std::size_t bytes = handles.size() * chunk_bytes;
    if (mprotect(pointer(address), bytes, PROT_READ | PROT_WRITE) != 0) return false;
#ifdef MADV_HUGEPAGE
    // Large arrays are read a quarter faster with fewer TLB misses. Advice only: may fail.
    if (bytes >= kHugeBytes) madvise(pointer(address), bytes, MADV_HUGEPAGE);
#endif
    return true;
  }
  void unmap(Address address, std::size_t bytes) noexcept override {
    // One call, so that nobody else can get the addresses in between.
    void* again = mmap(pointer(address), bytes, PROT_NONE, kFlags | MAP_FIXED, -1, 0);
    if (again == MAP_FAILED) madvise(pointer(address), bytes, MADV_DONTNEED);
  }

 private:
  static constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  static constexpr std::size_t kHugeBytes = std::size_t{4} << 20;  // as NumPy
};
using OsMemory = PagedMemory;

#endif

}  // namespace

std::unique_ptr<runtime::PoolDevice> make_host_memory() { return std::make_unique<OsMemory>(); }

}  // namespace gpk::device

#include "core/page_locked.h"

#include <cstdint>
#include <map>
#include <mutex>

#include "base/error.h"
#include "base/round_up.h"
#include "core/context.h"
#include "core/driver.h"
#include "core/memory.h"

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace gpk::inline core {
namespace {

// Blocks that we populate ourselves. Of smaller ones the driver packs several into a page; for
// larger ones it fails when memory is short, where touching the pages would invoke the OOM killer.
constexpr std::size_t kOwnFromBytes = std::size_t{1} << 20;
constexpr std::size_t kOwnToBytes = std::size_t{64} << 20;

#ifdef __linux__

constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kLargePageBytes = std::size_t{2} << 20;

// Our own address range, and the part of it in use.
struct Mapping {
  void* base = MAP_FAILED;
  std::size_t mapped_bytes = 0;
  void* data = nullptr;
};

struct Mappings {
  std::mutex mutex;
  std::map<void*, Mapping> by_data;
};

Mappings& mappings() {
  static auto* all = new Mappings;  // memory may be freed until process exit
  return *all;
}

void touch(volatile char* first, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += kPageBytes) first[at] = 0;
}

Mapping map_pages(std::size_t bytes) {
  Mapping mapping;
  mapping.mapped_bytes = bytes + kLargePageBytes;
  mapping.base = mmap(nullptr, mapping.mapped_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping.base == MAP_FAILED) return mapping;
  const auto address = reinterpret_cast<std::uintptr_t>(mapping.base);
  const std::uintptr_t aligned = round_up(address, kLargePageBytes);
  mapping.data = static_cast<char*>(mapping.base) + (aligned - address);
  madvise(mapping.data, bytes, MADV_HUGEPAGE);  // a hint
  touch(static_cast<char*>(mapping.data), bytes);
  return mapping;
}

// nullptr: let the driver do all of it.
void* lock_own_pages(std::size_t bytes) {
  if (driver().cuMemHostRegister == nullptr || driver().cuMemHostUnregister == nullptr)
    return nullptr;
  const Mapping mapping = map_pages(bytes);
  if (mapping.base == MAP_FAILED) return nullptr;
  if (driver().cuMemHostRegister(mapping.data, bytes, cu::kHostAllocPortable) != cu::kSuccess) {
    munmap(mapping.base, mapping.mapped_bytes);
    return nullptr;
  }
  Mappings& all = mappings();
  const std::lock_guard lock(all.mutex);
  all.by_data.emplace(mapping.data, mapping);
  return mapping.data;
}

// False when it is not ours.
bool free_own_pages(void* data) {
  Mapping mapping;
  {
    Mappings& all = mappings();
    const std::lock_guard lock(all.mutex);
    const auto found = all.by_data.find(data);
    if (found == all.by_data.end()) return false;
    mapping = found->second;
    all.by_data.erase(found);
  }
  driver().cuMemHostUnregister(data);
  munmap(mapping.base, mapping.mapped_bytes);
  return true;
}

#else

void* lock_own_pages(std::size_t) { return nullptr; }
bool free_own_pages(void*) { return false; }

#endif

}  // namespace

void* allocate_page_locked(Context& context, std::size_t bytes) {
  context.make_current();
  const RelaxedCaptureScope relaxed;
  if (bytes >= kOwnFromBytes && bytes <= kOwnToBytes)
    if (void* own = lock_own_pages(bytes)) return own;
  void* data = nullptr;
  const cu::Result result = driver().cuMemHostAlloc(&data, bytes, cu::kHostAllocPortable);
  if (result == cu::kOutOfMemory) return nullptr;
  check_cuda(result, "cuMemHostAlloc");
  return data;
}

void free_page_locked(Context& context, void* data) noexcept {
  try {
    context.make_current();
    const RelaxedCaptureScope relaxed;
    if (!free_own_pages(data)) driver().cuMemFreeHost(data);
  } catch (...) {  // the device is lost: its memory is freed with the process
  }
}

}  // namespace gpk::inline core

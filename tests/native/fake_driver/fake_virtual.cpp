// Virtual memory management: reserved ranges are address space without access, physical memory is
// one sparse file, mapping puts a piece of it there. Touching unmapped memory faults, as on a GPU.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "fake_driver/fake_state.h"

namespace fake {
namespace {

constexpr std::size_t kGranularity = std::size_t{2} << 20;

void* address_of(cu::DevicePtr ptr) {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(ptr));
}

bool inside_range(std::uintptr_t address, std::size_t bytes) {
  const auto& ranges = state().virtual_memory.ranges;
  auto after = ranges.upper_bound(address);
  if (after == ranges.begin()) return false;
  const auto& [start, size] = *--after;
  return address - start <= size && bytes <= size - (address - start);
}

bool any_mapping_in(std::uintptr_t address, std::size_t bytes) {
  const auto& mappings = state().virtual_memory.mappings;
  const auto after = mappings.lower_bound(address + bytes);
  if (after == mappings.begin()) return false;
  const auto& [start, mapping] = *std::prev(after);
  return start + mapping.bytes > address;
}

bool valid_properties(const cu::MemoryProperties* properties) {
  return properties->type == cu::kMemoryPinned &&
         properties->location.type == cu::kLocationDevice && properties->location.id >= 0 &&
         static_cast<std::size_t>(properties->location.id) < state().devices.size();
}

// Back to address space without access, so that nothing else can move in.
void hide(std::uintptr_t address, std::size_t bytes) {
  mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE,
       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

}  // namespace

int mapped_device(std::uintptr_t address, std::size_t bytes) {
  const auto& mappings = state().virtual_memory.mappings;
  auto at = mappings.upper_bound(address);
  if (at == mappings.begin()) return -1;
  --at;
  const int device = at->second.device;
  const std::uintptr_t end = address + std::max<std::size_t>(bytes, 1);
  std::uintptr_t reached = at->first;
  for (; at != mappings.end() && at->first == reached && reached < end; ++at) {
    if (!at->second.accessible || at->second.device != device) return -1;
    reached += at->second.bytes;
  }
  return reached >= end ? device : -1;
}

std::size_t created_bytes(int device) {
  std::size_t bytes = 0;
  for (const auto& [handle, chunk] : state().virtual_memory.chunks)
    if (chunk.device == device) bytes += chunk.bytes;
  return bytes;
}

void release_virtual_memory(VirtualMemory& memory) {
  for (const auto& [address, bytes] : memory.ranges)
    munmap(reinterpret_cast<void*>(address), bytes);
  if (memory.file >= 0) close(memory.file);
}

namespace impl {

Result cuMemGetAllocationGranularity(std::size_t* bytes, const MemoryProperties* properties, int) {
  if (!valid_properties(properties)) return kInvalidValue;
  *bytes = kGranularity;
  return kSuccess;
}

Result cuMemAddressReserve(DevicePtr* ptr, std::size_t bytes, std::size_t, DevicePtr,
                           std::uint64_t flags) {
  if (bytes == 0 || bytes % kGranularity != 0 || flags != 0) return kInvalidValue;
  // One granule more, so that an aligned part can be cut out.
  void* memory = mmap(nullptr, bytes + kGranularity, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return kOutOfMemory;
  const auto start = reinterpret_cast<std::uintptr_t>(memory);
  const std::uintptr_t aligned = (start + kGranularity - 1) / kGranularity * kGranularity;
  if (aligned > start) munmap(memory, aligned - start);
  munmap(reinterpret_cast<void*>(aligned + bytes), kGranularity - (aligned - start));
  state().virtual_memory.ranges[aligned] = bytes;
  *ptr = aligned;
  return kSuccess;
}

Result cuMemAddressFree(DevicePtr ptr, std::size_t bytes) {
  auto& ranges = state().virtual_memory.ranges;
  const auto found = ranges.find(static_cast<std::uintptr_t>(ptr));
  if (found == ranges.end() || found->second != bytes) return kInvalidValue;
  if (any_mapping_in(found->first, bytes)) return kInvalidValue;
  munmap(address_of(ptr), bytes);
  ranges.erase(found);
  return kSuccess;
}

Result cuMemCreate(MemoryHandle* handle, std::size_t bytes, const MemoryProperties* properties,
                   std::uint64_t flags) {
  if (bytes == 0 || bytes % kGranularity != 0 || flags != 0 || !valid_properties(properties))
    return kInvalidValue;
  if (const Result result = check_unsafe_call(); result != kSuccess) return result;
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  if (const Result result = cuMemGetInfo(&free_bytes, &total_bytes); result != kSuccess)
    return result;
  if (bytes > free_bytes) return kOutOfMemory;
  VirtualMemory& memory = state().virtual_memory;
  if (memory.file < 0) memory.file = memfd_create("fake GPU memory", MFD_CLOEXEC);
  auto& reusable = memory.free_chunks[bytes];
  if (!reusable.empty()) {
    *handle = reusable.back();
    reusable.pop_back();
  } else {
    *handle = memory.next;
    memory.next += bytes;
    if (ftruncate(memory.file, static_cast<off_t>(memory.next)) != 0) return kOutOfMemory;
  }
  memory.chunks[*handle] = {bytes, properties->location.id};
  return kSuccess;
}

Result cuMemRelease(MemoryHandle handle) {
  VirtualMemory& memory = state().virtual_memory;
  const auto found = memory.chunks.find(handle);
  if (found == memory.chunks.end()) return kInvalidValue;
  for (const auto& [address, mapping] : memory.mappings)  // stricter than CUDA, which waits
    if (mapping.handle == handle) return kInvalidValue;
  const std::size_t bytes = found->second.bytes;
  fallocate(memory.file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(handle - 1),
            static_cast<off_t>(bytes));
  memory.free_chunks[bytes].push_back(handle);
  memory.chunks.erase(found);
  return kSuccess;
}

Result cuMemMap(DevicePtr ptr, std::size_t bytes, std::size_t offset, MemoryHandle handle,
                std::uint64_t flags) {
  VirtualMemory& memory = state().virtual_memory;
  const auto address = static_cast<std::uintptr_t>(ptr);
  const auto found = memory.chunks.find(handle);
  if (found == memory.chunks.end() || offset != 0 || flags != 0 || bytes != found->second.bytes ||
      address % kGranularity != 0 || !inside_range(address, bytes) ||
      any_mapping_in(address, bytes))
    return kInvalidValue;
  if (mmap(address_of(ptr), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, memory.file,
           static_cast<off_t>(handle - 1)) == MAP_FAILED)
    return kOutOfMemory;
  memory.mappings[address] = {bytes, handle, found->second.device, false};
  return kSuccess;
}

Result cuMemUnmap(DevicePtr ptr, std::size_t bytes) {
  auto& mappings = state().virtual_memory.mappings;
  const auto first = mappings.find(static_cast<std::uintptr_t>(ptr));
  const std::uintptr_t end = static_cast<std::uintptr_t>(ptr) + bytes;
  auto last = first;
  std::uintptr_t reached = static_cast<std::uintptr_t>(ptr);
  while (last != mappings.end() && last->first == reached && reached < end)
    reached += (last++)->second.bytes;
  if (first == mappings.end() || reached != end) return kInvalidValue;  // whole mappings only
  hide(first->first, bytes);
  mappings.erase(first, last);
  return kSuccess;
}

Result cuMemSetAccess(DevicePtr ptr, std::size_t bytes, const MemoryAccess* access,
                      std::size_t count) {
  if (count == 0 || access->flags != kAccessReadWrite) return kInvalidValue;
  auto& mappings = state().virtual_memory.mappings;
  const auto first = mappings.find(static_cast<std::uintptr_t>(ptr));
  const std::uintptr_t end = static_cast<std::uintptr_t>(ptr) + bytes;
  std::uintptr_t reached = static_cast<std::uintptr_t>(ptr);
  auto last = first;
  while (last != mappings.end() && last->first == reached && reached < end)
    reached += (last++)->second.bytes;
  if (first == mappings.end() || reached != end) return kInvalidValue;
  for (auto at = first; at != last; ++at) {
    mprotect(reinterpret_cast<void*>(at->first), at->second.bytes, PROT_READ | PROT_WRITE);
    at->second.accessible = true;
  }
  return kSuccess;
}

}  // namespace impl
}  // namespace fake

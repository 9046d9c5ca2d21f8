// Virtual memory: reserved ranges are address space without access, physical memory is one sparse
// file, a mapping shows a piece of it. Only accessible mappings are known to kernels and copies.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <tuple>

#include "base/round_up.h"

#include "sim/driver/machine.h"

namespace gpk::sim::driver {
namespace {

constexpr std::size_t kGranularity = std::size_t{2} << 20;

void* pointer(DevicePtr ptr) { return reinterpret_cast<void*>(static_cast<std::uintptr_t>(ptr)); }

bool inside_range(DevicePtr address, std::size_t bytes) {
  const auto& ranges = machine().virtual_memory.ranges;
  auto after = ranges.upper_bound(address);
  if (after == ranges.begin()) return false;
  const auto& [start, size] = *--after;
  return address - start <= size && bytes <= size - (address - start);
}

bool any_mapping_in(DevicePtr address, std::size_t bytes) {
  const auto& mappings = machine().virtual_memory.mappings;
  const auto after = mappings.lower_bound(address + bytes);
  if (after == mappings.begin()) return false;
  const auto& [start, mapping] = *std::prev(after);
  return start + mapping.bytes > address;
}

bool valid_properties(const MemoryProperties* properties) {
  return properties->type == kMemoryPinned && properties->location.type == kLocationDevice &&
         find_device(properties->location.id) != nullptr;
}

using MappingAt = std::map<std::uint64_t, Mapping>::iterator;

// The mappings that cover the range exactly; an empty pair where they do not.
std::pair<MappingAt, MappingAt> whole_mappings(DevicePtr ptr, std::size_t bytes) {
  auto& mappings = machine().virtual_memory.mappings;
  const auto first = mappings.find(ptr);
  auto last = first;
  DevicePtr reached = ptr;
  while (last != mappings.end() && last->first == reached && reached < ptr + bytes)
    reached += (last++)->second.bytes;
  if (first == mappings.end() || reached != ptr + bytes) return {mappings.end(), mappings.end()};
  return {first, last};
}

// Pages go back to the system; the piece of the file is used again.
void free_chunk(MemoryHandle handle) {
  VirtualMemory& memory = machine().virtual_memory;
  const auto found = memory.chunks.find(handle);
  const std::size_t bytes = found->second.bytes;
  fallocate(memory.file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(handle - 1),
            static_cast<off_t>(bytes));
  memory.free_chunks[bytes].push_back(handle);
  memory.chunks.erase(found);
}

}  // namespace

VirtualMemory::~VirtualMemory() {
  for (const auto& [address, bytes] : ranges) munmap(pointer(address), bytes);
  if (file >= 0) close(file);
}

std::size_t created_bytes(int device) {
  std::size_t bytes = 0;
  for (const auto& [handle, chunk] : machine().virtual_memory.chunks)
    if (chunk.device == device) bytes += chunk.bytes;
  return bytes;
}

Result cuMemGetAllocationGranularity(std::size_t* bytes, const MemoryProperties* properties, int) {
  const Call call(Need::kLive);
  if (call.refused() != kSuccess) return call.refused();
  if (!valid_properties(properties)) return kInvalidValue;
  *bytes = kGranularity;
  return kSuccess;
}

Result cuMemAddressReserve(DevicePtr* ptr, std::size_t bytes, std::size_t alignment, DevicePtr,
                           std::uint64_t flags) {
  const Call call(Need::kLive);
  if (call.refused() != kSuccess) return call.refused();
  if (bytes == 0 || bytes % kGranularity != 0 || flags != 0) return kInvalidValue;
  const std::size_t align = std::max(alignment, kGranularity);
  if ((align & (align - 1)) != 0) return kInvalidValue;
  // More than asked for, so that an aligned part can be cut out.
  void* memory =
      mmap(nullptr, bytes + align, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return kOutOfMemory;
  const auto start = reinterpret_cast<std::uintptr_t>(memory);
  const std::uintptr_t aligned = round_up(start, align);
  if (aligned > start) munmap(memory, aligned - start);
  if (aligned - start < align) munmap(pointer(aligned + bytes), align - (aligned - start));
  machine().virtual_memory.ranges[aligned] = bytes;
  *ptr = aligned;
  return kSuccess;
}

Result cuMemAddressFree(DevicePtr ptr, std::size_t bytes) {
  const Call call(Need::kLive);
  if (call.refused() != kSuccess) return call.refused();
  auto& ranges = machine().virtual_memory.ranges;
  const auto found = ranges.find(ptr);
  if (found == ranges.end() || found->second != bytes) return kInvalidValue;
  if (any_mapping_in(ptr, bytes)) return kInvalidValue;
  munmap(pointer(ptr), bytes);
  ranges.erase(found);
  return kSuccess;
}

Result cuMemCreate(MemoryHandle* handle, std::size_t bytes, const MemoryProperties* properties,
                   std::uint64_t flags) {
  const Call call(Need::kLive);
  if (call.refused() != kSuccess) return call.refused();
  if (bytes == 0 || bytes % kGranularity != 0 || flags != 0 || !valid_properties(properties))
    return kInvalidValue;
  if (const Result result = check_unsafe_call(); result != kSuccess) return result;
  const int device = properties->location.id;
  if (bytes > unused_bytes(device)) return kOutOfMemory;
  VirtualMemory& memory = machine().virtual_memory;
  if (memory.file < 0) memory.file = memfd_create("simulated GPU memory", MFD_CLOEXEC);
  auto& reusable = memory.free_chunks[bytes];
  if (!reusable.empty()) {
    *handle = reusable.back();
    reusable.pop_back();
  } else {
    *handle = memory.next;
    if (ftruncate(memory.file, static_cast<off_t>(memory.next + bytes)) != 0) return kOutOfMemory;
    memory.next += bytes;
  }
  memory.chunks[*handle] = {.bytes = bytes, .device = device};
  return kSuccess;
}

Result cuMemRelease(MemoryHandle handle) {
  const Call call(Need::kLive);
  if (call.refused() != kSuccess) return call.refused();
  auto& chunks = machine().virtual_memory.chunks;
  const auto found = chunks.find(handle);
  if (found == chunks.end() || found->second.released) return kInvalidValue;
  found->second.released = true;
  if (found->second.num_mappings == 0) free_chunk(handle);
  return kSuccess;
}

Result cuMemMap(DevicePtr ptr, std::size_t bytes, std::size_t offset, MemoryHandle handle,
                std::uint64_t flags) {
  const Call call(Need::kLive);
  if (call.refused() != kSuccess) return call.refused();
  VirtualMemory& memory = machine().virtual_memory;
  const auto found = memory.chunks.find(handle);
  if (found == memory.chunks.end() || found->second.released || offset != 0 || flags != 0 ||
      bytes != found->second.bytes || ptr % kGranularity != 0 || !inside_range(ptr, bytes) ||
      any_mapping_in(ptr, bytes))
    return kInvalidValue;
  if (mmap(pointer(ptr), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, memory.file,
           static_cast<off_t>(handle - 1)) == MAP_FAILED)
    return kOutOfMemory;
  memory.mappings[ptr] = {.bytes = bytes, .handle = handle};
  ++found->second.num_mappings;
  return kSuccess;
}

Result cuMemUnmap(DevicePtr ptr, std::size_t bytes) {
  Call call(Need::kLive);
  if (call.refused() != kSuccess) return call.refused();
  auto [first, last] = whole_mappings(ptr, bytes);
  if (first == last) return kInvalidValue;
  VirtualMemory& memory = machine().virtual_memory;
  call.wait_for_device(memory.chunks.at(first->second.handle).device);
  std::tie(first, last) = whole_mappings(ptr, bytes);  // the lock was open meanwhile
  if (first == last) return kInvalidValue;
  // Back to address space without access, so that nothing else can be mapped there.
  mmap(pointer(ptr), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
       0);
  for (auto at = first; at != last; ++at) {
    machine().allocations.remove(at->first, MemoryKind::kMapped);
    Chunk& chunk = memory.chunks.at(at->second.handle);
    if (--chunk.num_mappings == 0 && chunk.released) free_chunk(at->second.handle);
  }
  machine().allocations.note_freed(ptr, bytes, "memory that was unmapped");
  memory.mappings.erase(first, last);
  return kSuccess;
}

Result cuMemSetAccess(DevicePtr ptr, std::size_t bytes, const MemoryAccess* access,
                      std::size_t count) {
  const Call call(Need::kLive);
  if (call.refused() != kSuccess) return call.refused();
  if (count == 0 || access->flags != kAccessReadWrite) return kInvalidValue;
  const auto [first, last] = whole_mappings(ptr, bytes);
  if (first == last) return kInvalidValue;
  for (auto at = first; at != last; ++at) {
    if (at->second.accessible) continue;
    mprotect(pointer(at->first), at->second.bytes, PROT_READ | PROT_WRITE);
    at->second.accessible = true;
    Allocation made;
    made.base = at->first;
    made.bytes = at->second.bytes;
    made.kind = MemoryKind::kMapped;
    made.device = machine().virtual_memory.chunks.at(at->second.handle).device;
    machine().allocations.add(std::move(made));
  }
  return kSuccess;
}

}  // namespace gpk::sim::driver

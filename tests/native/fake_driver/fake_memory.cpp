// Device memory, pinned host memory, copies and fills. Device addresses are host addresses.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "fake_driver/fake_state.h"

namespace fake {
namespace {

constexpr std::size_t kAlignment = 512;

std::size_t used_on(int device) {
  std::size_t used = 0;
  for (const auto& [address, block] : state().memory)
    if (block.device == device) used += block.bytes;
  return used + created_bytes(device);
}

std::uintptr_t allocate_block(std::map<std::uintptr_t, Block>& blocks, std::size_t bytes,
                              int device) {
  const std::size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  void* memory = std::aligned_alloc(kAlignment, rounded);
  if (memory == nullptr) return 0;
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  blocks[address] = {bytes, device, false};
  return address;
}

bool free_block(std::map<std::uintptr_t, Block>& blocks, std::uintptr_t address) {
  if (blocks.erase(address) == 0) return false;
  std::free(reinterpret_cast<void*>(address));
  return true;
}

void* host(cu::DevicePtr ptr) { return reinterpret_cast<void*>(static_cast<std::uintptr_t>(ptr)); }

bool on_device(cu::DevicePtr ptr, std::size_t bytes) {
  const auto address = static_cast<std::uintptr_t>(ptr);
  return inside_block(state().memory, address, bytes) ||
         inside_block(state().globals, address, bytes) || mapped_device(address, bytes) >= 0;
}

Result copy(const char* call, void* dst, const void* src, std::size_t bytes, cu::Stream stream) {
  FakeStream* target = find_stream(stream);
  if (target == nullptr) return cu::kInvalidHandle;
  Node node;
  node.effect = [=] { std::memmove(dst, src, bytes); };
  return submit(*target, call, std::move(node));
}

template <class T>
Result fill(const char* call, cu::DevicePtr dst, T value, std::size_t count, cu::Stream stream) {
  FakeStream* target = find_stream(stream);
  if (target == nullptr) return cu::kInvalidHandle;
  if (dst % sizeof(T) != 0 || !on_device(dst, count * sizeof(T))) return cu::kInvalidValue;
  Node node;
  node.effect = [=] { std::fill_n(static_cast<T*>(host(dst)), count, value); };
  return submit(*target, call, std::move(node));
}

}  // namespace

State::~State() {
  for (const auto* blocks : {&memory, &pinned})
    for (const auto& [address, block] : *blocks)
      if (!block.registered) std::free(reinterpret_cast<void*>(address));
  release_virtual_memory(virtual_memory);
}

bool inside_block(const std::map<std::uintptr_t, Block>& blocks, std::uintptr_t address,
                  std::size_t bytes) {
  auto after = blocks.upper_bound(address);
  if (after == blocks.begin()) return false;
  const auto& [start, block] = *--after;
  return address - start <= block.bytes && bytes <= block.bytes - (address - start);
}

std::size_t used_bytes(int device) {
  const std::lock_guard lock(mutex());
  return used_on(device);
}

namespace impl {

Result cuMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes) {
  const FakeContext* context = current_context();
  if (context == nullptr) return kInvalidContext;
  const std::size_t used = used_on(context->device);
  *total_bytes = state().devices[static_cast<std::size_t>(context->device)].memory_bytes;
  *free_bytes = *total_bytes - std::min(used, *total_bytes);
  return kSuccess;
}

Result cuMemAlloc(DevicePtr* ptr, std::size_t bytes) {
  const FakeContext* context = current_context();
  if (context == nullptr) return kInvalidContext;
  if (bytes == 0) return kInvalidValue;
  if (const Result result = check_unsafe_call(); result != kSuccess) return result;
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  cuMemGetInfo(&free_bytes, &total_bytes);
  if (bytes > free_bytes) return kOutOfMemory;
  *ptr = allocate_block(state().memory, bytes, context->device);
  return *ptr == 0 ? kOutOfMemory : kSuccess;
}

Result cuMemFree(DevicePtr ptr) {
  if (current_context() == nullptr) return kInvalidContext;
  if (const Result result = check_unsafe_call(); result != kSuccess) return result;
  return free_block(state().memory, static_cast<std::uintptr_t>(ptr)) ? kSuccess : kInvalidValue;
}

Result cuPointerGetAttributes(unsigned count, int* attributes, void** values, DevicePtr ptr) {
  constexpr unsigned kMemoryTypeDevice = 2;
  const auto address = static_cast<std::uintptr_t>(ptr);
  unsigned type = 0;  // memory the driver does not know
  std::uintptr_t start = 0;
  if (inside_block(state().memory, address, 1) || mapped_device(address, 1) >= 0)
    type = kMemoryTypeDevice;
  if (inside_block(state().pinned, address, 1)) {
    type = kMemoryTypeHost;
    start = std::prev(state().pinned.upper_bound(address))->first;
  }
  for (unsigned i = 0; i < count; ++i) {
    if (attributes[i] == kPointerMemoryType)
      std::memcpy(values[i], &type, sizeof type);
    else if (attributes[i] == kPointerRangeStart)
      std::memcpy(values[i], &start, sizeof start);
    else
      return kInvalidValue;
  }
  return kSuccess;
}

Result cuMemHostAlloc(void** ptr, std::size_t bytes, unsigned) {
  if (current_context() == nullptr) return kInvalidContext;
  if (bytes == 0) return kInvalidValue;
  if (const Result result = check_unsafe_call(); result != kSuccess) return result;
  const std::uintptr_t address = allocate_block(state().pinned, bytes, current_context()->device);
  *ptr = reinterpret_cast<void*>(address);
  return address == 0 ? kOutOfMemory : kSuccess;
}

Result cuMemFreeHost(void* ptr) {
  if (const Result result = check_unsafe_call(); result != kSuccess) return result;
  return free_block(state().pinned, reinterpret_cast<std::uintptr_t>(ptr)) ? kSuccess
                                                                           : kInvalidValue;
}

Result cuMemHostRegister(void* ptr, std::size_t bytes, unsigned) {
  if (current_context() == nullptr) return kInvalidContext;
  if (ptr == nullptr || bytes == 0) return kInvalidValue;
  if (const Result result = check_unsafe_call(); result != kSuccess) return result;
  const auto address = reinterpret_cast<std::uintptr_t>(ptr);
  return state().pinned.emplace(address, Block{bytes, current_context()->device, true}).second
             ? kSuccess
             : kInvalidValue;
}

Result cuMemHostUnregister(void* ptr) {
  if (const Result result = check_unsafe_call(); result != kSuccess) return result;
  return state().pinned.erase(reinterpret_cast<std::uintptr_t>(ptr)) == 1 ? kSuccess
                                                                          : kInvalidValue;
}

Result cuMemcpyHtoDAsync(DevicePtr dst, const void* src, std::size_t bytes, Stream stream) {
  if (!on_device(dst, bytes)) return kInvalidValue;
  return copy("cuMemcpyHtoDAsync", host(dst), src, bytes, stream);
}

Result cuMemcpyDtoHAsync(void* dst, DevicePtr src, std::size_t bytes, Stream stream) {
  if (!on_device(src, bytes)) return kInvalidValue;
  return copy("cuMemcpyDtoHAsync", dst, host(src), bytes, stream);
}

Result cuMemcpyDtoDAsync(DevicePtr dst, DevicePtr src, std::size_t bytes, Stream stream) {
  if (!on_device(dst, bytes) || !on_device(src, bytes)) return kInvalidValue;
  return copy("cuMemcpyDtoDAsync", host(dst), host(src), bytes, stream);
}

Result cuMemcpyPeerAsync(DevicePtr dst, Context dst_context, DevicePtr src, Context src_context,
                         std::size_t bytes, Stream stream) {
  if (!on_device(dst, bytes) || !on_device(src, bytes)) return kInvalidValue;
  for (const auto& [ptr, context] : {std::pair{dst, dst_context}, std::pair{src, src_context}}) {
    const FakeContext* found = state().contexts.find(context);
    if (found == nullptr) return kInvalidContext;
    const auto address = static_cast<std::uintptr_t>(ptr);
    const auto after = state().memory.upper_bound(address);
    const bool plain = inside_block(state().memory, address, bytes);
    const int device = plain ? std::prev(after)->second.device : mapped_device(address, bytes);
    if (device != found->device) return kInvalidValue;
  }
  return copy("cuMemcpyPeerAsync", host(dst), host(src), bytes, stream);
}

Result cuMemsetD8Async(DevicePtr dst, unsigned char value, std::size_t count, Stream stream) {
  return fill("cuMemsetD8Async", dst, value, count, stream);
}

Result cuMemsetD16Async(DevicePtr dst, unsigned short value, std::size_t count, Stream stream) {
  return fill("cuMemsetD16Async", dst, value, count, stream);
}

Result cuMemsetD32Async(DevicePtr dst, unsigned value, std::size_t count, Stream stream) {
  return fill("cuMemsetD32Async", dst, value, count, stream);
}

}  // namespace impl
}  // namespace fake

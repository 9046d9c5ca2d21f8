// Device memory, pinned host memory, copies and fills.
#include <algorithm>
#include <cstring>

#include "base/text.h"
#include "sim/driver/machine.h"

namespace gpk::sim::driver {
namespace {

constexpr std::size_t kAlignment = 512;

void* host(DevicePtr ptr) { return reinterpret_cast<void*>(static_cast<std::uintptr_t>(ptr)); }

DevicePtr address_of(const void* ptr) { return reinterpret_cast<std::uintptr_t>(ptr); }

bool on_device(DevicePtr ptr, std::size_t bytes) {
  const Allocation* found = machine().allocations.find(ptr, bytes);
  return found != nullptr || bytes == 0;
}

// Kernels may read it from now on.
void note_written(const void* ptr, std::size_t bytes) {
  machine().allocations.fresh().write(address_of(ptr), bytes);
}

Result copy(void* dst, const void* src, std::size_t bytes, Stream stream) {
  SimStream* target = find_stream(stream);
  if (target == nullptr) return kInvalidHandle;
  Node node;
  node.effect = [=] {
    std::memmove(dst, src, bytes);
    note_written(dst, bytes);
  };
  return submit(*target, std::move(node));
}

// As CUDA: an asynchronous copy from pageable memory has read its source when the call returns.
Result copy_from_host(void* dst, const void* src, std::size_t bytes, Stream stream) {
  SimStream* target = find_stream(stream);
  if (target == nullptr) return kInvalidHandle;
  const Allocation* pinned = machine().allocations.find(address_of(src), bytes);
  if (pinned != nullptr || target->capture) return copy(dst, src, bytes, stream);
  const auto* begin = static_cast<const std::byte*>(src);
  Node node;
  node.effect = [dst,
                 staged = std::make_shared<const std::vector<std::byte>>(begin, begin + bytes)] {
    std::memcpy(dst, staged->data(), staged->size());
    note_written(dst, staged->size());
  };
  return submit(*target, std::move(node));
}

template <class T>
Result fill(DevicePtr dst, T value, std::size_t count, Stream stream) {
  const Call call(Need::kContext);
  if (call.refused() != kSuccess) return call.refused();
  SimStream* target = find_stream(stream);
  if (target == nullptr) return kInvalidHandle;
  if (dst % sizeof(T) != 0 || !on_device(dst, count * sizeof(T))) return kInvalidValue;
  Node node;
  node.effect = [=] {
    std::fill_n(static_cast<T*>(host(dst)), count, value);
    note_written(host(dst), count * sizeof(T));
  };
  return submit(*target, std::move(node));
}

}  // namespace

std::size_t used_bytes(int device) {
  return machine().allocations.used_bytes(device, MemoryKind::kDevice) +
         machine().allocations.used_bytes(device, MemoryKind::kGlobal) + created_bytes(device);
}

std::size_t unused_bytes(int device) {
  const std::size_t total = find_device(device)->memory_bytes;
  return total - std::min(used_bytes(device), total);
}

Result cuMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes) {
  const Call call(Need::kContext);
  if (call.refused() != kSuccess) return call.refused();
  const int device = current_context()->device;
  *total_bytes = find_device(device)->memory_bytes;
  *free_bytes = unused_bytes(device);
  return kSuccess;
}

Result cuMemAlloc(DevicePtr* ptr, std::size_t bytes) {
  const Call call(Need::kContext);
  if (call.refused() != kSuccess) return call.refused();
  if (bytes == 0) return kInvalidValue;
  if (const Result result = check_unsafe_call(); result != kSuccess) return result;
  const int device = current_context()->device;
  if (bytes > unused_bytes(device)) return kOutOfMemory;
  *ptr = machine().allocations.allocate(bytes, kAlignment, MemoryKind::kDevice, device, "");
  return *ptr == 0 ? kOutOfMemory : kSuccess;
}

Result cuMemFree(DevicePtr ptr) {
  Call call(Need::kContext);
  if (call.refused() != kSuccess) return call.refused();
  if (const Result result = check_unsafe_call(); result != kSuccess) return result;
  if (ptr == 0) return kSuccess;
  const Allocation* found = machine().allocations.at(ptr);
  if (found == nullptr || found->kind != MemoryKind::kDevice) return kInvalidValue;
  call.wait_for_device(found->device);
  return machine().allocations.free(ptr, MemoryKind::kDevice) ? kSuccess : kInvalidValue;
}

Result cuPointerGetAttributes(unsigned count, int* attributes, void** values, DevicePtr ptr) {
  const Call call(Need::kLive);
  if (call.refused() != kSuccess) return call.refused();
  constexpr unsigned kMemoryTypeDevice = 2;
  const Allocation* found = machine().allocations.find(ptr);
  const bool pinned = found != nullptr && (found->kind == MemoryKind::kPinned ||
                                           found->kind == MemoryKind::kRegistered);
  const unsigned type = found == nullptr ? 0 : pinned ? kMemoryTypeHost : kMemoryTypeDevice;
  const DevicePtr start = found == nullptr ? 0 : found->base;
  const int device = found == nullptr ? -2 : found->device;  // CU_DEVICE_INVALID
  for (unsigned i = 0; i < count; ++i) {
    if (attributes[i] == kPointerMemoryType)
      std::memcpy(values[i], &type, sizeof type);
    else if (attributes[i] == kPointerRangeStart)
      std::memcpy(values[i], &start, sizeof start);
    else if (attributes[i] == kPointerDeviceOrdinal)
      std::memcpy(values[i], &device, sizeof device);
    else
      return kInvalidValue;
  }
  return kSuccess;
}

Result cuMemHostAlloc(void** ptr, std::size_t bytes, unsigned) {
  const Call call(Need::kContext);
  if (call.refused() != kSuccess) return call.refused();
  if (bytes == 0) return kInvalidValue;
  if (const Result result = check_unsafe_call(); result != kSuccess) return result;
  const std::uint64_t address = machine().allocations.allocate(
      bytes, kAlignment, MemoryKind::kPinned, current_context()->device, "");
  *ptr = host(address);
  return address == 0 ? kOutOfMemory : kSuccess;
}

Result cuMemFreeHost(void* ptr) {
  Call call(Need::kContext);
  if (call.refused() != kSuccess) return call.refused();
  if (const Result result = check_unsafe_call(); result != kSuccess) return result;
  const Allocation* found = machine().allocations.at(address_of(ptr));
  if (found == nullptr || found->kind != MemoryKind::kPinned) return kInvalidValue;
  call.wait_for_device(found->device);
  return machine().allocations.free(address_of(ptr), MemoryKind::kPinned) ? kSuccess
                                                                          : kInvalidValue;
}

Result cuMemHostRegister(void* ptr, std::size_t bytes, unsigned) {
  const Call call(Need::kContext);
  if (call.refused() != kSuccess) return call.refused();
  if (ptr == nullptr || bytes == 0) return kInvalidValue;
  if (const Result result = check_unsafe_call(); result != kSuccess) return result;
  Allocation made;
  made.base = address_of(ptr);
  made.bytes = bytes;
  made.kind = MemoryKind::kRegistered;
  made.device = current_context()->device;
  return machine().allocations.add(std::move(made)) ? kSuccess : kInvalidValue;
}

Result cuMemHostUnregister(void* ptr) {
  Call call(Need::kContext);
  if (call.refused() != kSuccess) return call.refused();
  if (const Result result = check_unsafe_call(); result != kSuccess) return result;
  const Allocation* found = machine().allocations.at(address_of(ptr));
  if (found == nullptr || found->kind != MemoryKind::kRegistered) return kInvalidValue;
  call.wait_for_device(found->device);
  return machine().allocations.remove(address_of(ptr), MemoryKind::kRegistered) ? kSuccess
                                                                                : kInvalidValue;
}

Result cuMemcpyHtoDAsync(DevicePtr dst, const void* src, std::size_t bytes, Stream stream) {
  const Call call(Need::kContext);
  if (call.refused() != kSuccess) return call.refused();
  if (!on_device(dst, bytes)) return kInvalidValue;
  return copy_from_host(host(dst), src, bytes, stream);
}

// As CUDA: a copy into pageable memory is done when the call returns.
Result cuMemcpyDtoHAsync(void* dst, DevicePtr src, std::size_t bytes, Stream stream) {
  Call call(Need::kContext);
  if (call.refused() != kSuccess) return call.refused();
  if (!on_device(src, bytes)) return kInvalidValue;
  if (const Result result = copy(dst, host(src), bytes, stream); result != kSuccess) return result;
  const SimStream* target = find_stream(stream);
  if (target->capture || machine().allocations.find(address_of(dst), bytes) != nullptr)
    return kSuccess;
  const Ticket tail = target->queue->tail();
  call.wait([&] { return reached(tail); });
  return current_context()->lost;
}

Result cuMemcpyDtoDAsync(DevicePtr dst, DevicePtr src, std::size_t bytes, Stream stream) {
  const Call call(Need::kContext);
  if (call.refused() != kSuccess) return call.refused();
  if (!on_device(dst, bytes) || !on_device(src, bytes)) return kInvalidValue;
  return copy(host(dst), host(src), bytes, stream);
}

Result cuMemcpyPeerAsync(DevicePtr dst, Context dst_context, DevicePtr src, Context src_context,
                         std::size_t bytes, Stream stream) {
  const Call call(Need::kContext);
  if (call.refused() != kSuccess) return call.refused();
  for (const auto& [ptr, handle] : {std::pair{dst, dst_context}, std::pair{src, src_context}}) {
    const SimContext* context = find_context(handle);
    if (context == nullptr) return kInvalidContext;
    const Allocation* found = machine().allocations.find(ptr, bytes);
    if (found == nullptr || found->device != context->device) return kInvalidValue;
  }
  return copy(host(dst), host(src), bytes, stream);
}

Result cuMemsetD8Async(DevicePtr dst, unsigned char value, std::size_t count, Stream stream) {
  return fill(dst, value, count, stream);
}

Result cuMemsetD16Async(DevicePtr dst, unsigned short value, std::size_t count, Stream stream) {
  return fill(dst, value, count, stream);
}

Result cuMemsetD32Async(DevicePtr dst, unsigned value, std::size_t count, Stream stream) {
  return fill(dst, value, count, stream);
}

}  // namespace gpk::sim::driver

extern "C" {

GPK_SIM_EXPORT void gpkSimMarkMemory(std::uint64_t address, std::size_t bytes, int written) {
  using gpk::sim::driver::machine;
  auto& fresh = machine().allocations.fresh();
  if (written != 0)
    fresh.write(address, bytes);
  else
    fresh.add(address, bytes, "");
}

GPK_SIM_EXPORT void gpkSimHandOut(std::uint64_t address, std::size_t bytes, std::size_t room,
                                  gpk::cu::Stream stream) {
  using namespace gpk::sim::driver;
  const Call call(Need::kContext);
  SimStream* target = call.refused() == gpk::cu::kSuccess ? find_stream(stream) : nullptr;
  if (target == nullptr) return;
  if (target->capture) return machine().arrays.forget(address, room);
  const auto hand_out = [=] {
    machine().arrays.add(address, {bytes, room});
    machine().allocations.fresh().add(address, bytes, gpk::cat("an array of ", bytes, " bytes"));
  };
  if (reached(target->queue->tail()))
    hand_out();
  else
    enqueue(*target, hand_out);
}
}

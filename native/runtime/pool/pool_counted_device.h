// A device wrapper that counts calls.
#pragma once

#include <atomic>

#include "runtime/pool/pool_device.h"

namespace gpk::runtime {

// Does not own the device.
class PoolCountedDevice final : public PoolDevice {
 public:
  explicit PoolCountedDevice(PoolDevice& device) : device_(device) {}

  [[nodiscard]] std::size_t num_calls() const noexcept { return num_calls_.load(); }
  [[nodiscard]] std::size_t num_waits() const noexcept { return num_waits_.load(); }

  [[nodiscard]] bool can_map() const noexcept override { return device_.can_map(); }
  [[nodiscard]] std::size_t granularity_bytes() const noexcept override {
    return device_.granularity_bytes();
  }
  [[nodiscard]] std::size_t free_bytes() noexcept override { return counted().free_bytes(); }

  Address reserve(std::size_t bytes, std::size_t alignment_bytes) override {
    return counted().reserve(bytes, alignment_bytes);
  }
  void release(Address address, std::size_t bytes) noexcept override {
    counted().release(address, bytes);
  }
  Handle create(std::size_t bytes) override { return counted().create(bytes); }
  void destroy(Handle handle) noexcept override { counted().destroy(handle); }
  bool map(Address address, std::span<const Handle> handles, std::size_t chunk_bytes) override {
    return counted().map(address, handles, chunk_bytes);
  }
  void unmap(Address address, std::size_t bytes) noexcept override {
    counted().unmap(address, bytes);
  }
  Address allocate(std::size_t bytes) override { return counted().allocate(bytes); }
  void free(Address address, std::size_t bytes) noexcept override {
    counted().free(address, bytes);
  }

  Event record(Stream stream) override { return counted().record(stream); }
  [[nodiscard]] bool poll(Event event) override { return counted().poll(event); }
  void wait(Event event) override {
    num_waits_.fetch_add(1, std::memory_order_relaxed);
    counted().wait(event);
  }
  void stream_wait(Stream stream, Event event) override { counted().stream_wait(stream, event); }
  void destroy_event(Event event) noexcept override { counted().destroy_event(event); }

  [[nodiscard]] Stream copy_stream() override { return device_.copy_stream(); }
  void copy_to_host(void* to, Address from, std::size_t bytes, Stream stream) override {
    counted().copy_to_host(to, from, bytes, stream);
  }
  void copy_to_device(Address to, const void* from, std::size_t bytes, Stream stream) override {
    counted().copy_to_device(to, from, bytes, stream);
  }
  void* allocate_host(std::size_t bytes) override { return counted().allocate_host(bytes); }
  void free_host(void* data, std::size_t bytes) noexcept override {
    counted().free_host(data, bytes);
  }

 private:
  PoolDevice& counted() noexcept {
    num_calls_.fetch_add(1, std::memory_order_relaxed);
    return device_;
  }

  PoolDevice& device_;
  std::atomic<std::size_t> num_calls_{0};
  std::atomic<std::size_t> num_waits_{0};
};

}  // namespace gpk::runtime

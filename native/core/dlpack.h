// Arrays as DLPack tensors and back, without copies.
#pragma once

#include <cstdint>
#include <memory>

#include "core/array.h"
#include "core/dlpack_abi.h"

namespace gpk::inline core {

// kDLCPU or kDLCUDA with the index.
dl::Device dlpack_device(Device device);
// Pinned memory counts as the CPU's, managed memory as its GPU's. Throws ExchangeError for others.
Device device_from_dlpack(dl::Device device, const char* op);

// A tensor that shares the array's memory and owns a reference to it until its deleter is called:
// from any thread, at any time. Four-bit types are packed. Throws ExchangeError when the memory is
// read-only and the unversioned layout, which has no flags, is requested.
dl::ManagedTensorVersioned* to_dlpack(const Array& array, std::uint64_t flags);
dl::ManagedTensor* to_dlpack_unversioned(const Array& array);

// An array over the tensor's memory; `owner` keeps that memory alive. The tensor itself is only
// read. Throws ExchangeError for unsupported layouts and dtypes.
Array from_dlpack(const dl::Tensor& tensor, std::uint64_t flags, std::shared_ptr<void> owner,
                  const char* op);

// An array over foreign memory: `first` is the address of element (0, ..., 0), strides are in
// elements and may be negative. Throws ExchangeError for a misaligned address.
Array wrap_memory(Device device, void* first, Dims shape, Dims strides, DType dtype,
                  std::shared_ptr<void> owner, const char* op);

// The GPU that owns an address known to the driver. Throws ExchangeError for other addresses.
Device device_of_memory(const void* ptr, const char* op);

// Makes the consumer's stream wait for the work on `array`. Stream numbers as in the DLPack
// protocol: 1 is the legacy default stream, 2 the per-thread one, -1 means no ordering, others are
// handles. CaptureError during a capture, unless it is -1.
void order_for_consumer(const Array& array, std::int64_t stream, const char* op);

// The other direction: the calling thread's current stream waits for `stream` (as above).
void wait_for_producer(Device device, std::int64_t stream, const char* op);

}  // namespace gpk::inline core

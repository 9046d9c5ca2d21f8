// The array: a strided view of a shared buffer. Copying an Array copies the view, never the data.
#pragma once

#include <cstdint>
#include <memory>

#include "core/buffer.h"
#include "core/dtype.h"
#include "core/shape.h"

namespace gpk::inline core {

class Array {
 public:
  // C-contiguous, contents undefined, on `device`. Throws InvalidArgument (naming `op`) for a bad
  // shape, OutOfMemory.
  static Array empty(Dims shape, DType dtype, Device device, const char* op = "empty");

  // A view: strides and offset in elements of `dtype` (4-bit types: in elements too).
  Array(Dims shape, Dims strides, DType dtype, std::shared_ptr<Buffer> buffer,
        std::int64_t offset_elems);

  [[nodiscard]] const Dims& shape() const noexcept { return shape_; }
  [[nodiscard]] const Dims& strides() const noexcept { return strides_; }  // in elements
  [[nodiscard]] int ndim() const noexcept { return shape_.size(); }
  [[nodiscard]] DType dtype() const noexcept { return dtype_; }
  [[nodiscard]] std::int64_t size() const noexcept { return size_; }
  [[nodiscard]] std::size_t nbytes() const noexcept { return bytes_for(dtype_, size_); }
  [[nodiscard]] Device device() const noexcept { return buffer_->device(); }
  [[nodiscard]] const std::shared_ptr<Buffer>& buffer() const noexcept { return buffer_; }
  [[nodiscard]] std::int64_t offset_elems() const noexcept { return offset_elems_; }

  // Address of the first element: a device address on a GPU.
  [[nodiscard]] void* data() const noexcept {
    return static_cast<char*>(buffer_->data()) + offset_bytes();
  }
  [[nodiscard]] cu::DevicePtr device_ptr() const noexcept {
    return static_cast<cu::DevicePtr>(reinterpret_cast<std::uintptr_t>(data()));
  }
  // device_ptr() for those who only pass it on to a kernel (Buffer::address).
  [[nodiscard]] cu::DevicePtr kernel_ptr() const noexcept {
    return reinterpret_cast<std::uintptr_t>(static_cast<char*>(buffer_->address()) +
                                            offset_bytes());
  }

  // C order without gaps. Always true for at most one element.
  [[nodiscard]] bool is_contiguous() const noexcept;

 private:
  [[nodiscard]] std::int64_t offset_bytes() const noexcept {
    return offset_elems_ * info(dtype_).bits / 8;
  }

  Dims shape_;
  Dims strides_;
  DType dtype_;
  std::int64_t size_;
  std::int64_t offset_elems_ = 0;
  std::shared_ptr<Buffer> buffer_;
};

// Copies all elements on the current stream (also into a graph being captured). InvalidArgument
// unless byte counts are equal, both are contiguous, and they are on one device or on two GPUs.
void copy(const Array& dst, const Array& src, const char* op);
Array clone(const Array& array);

}  // namespace gpk::inline core

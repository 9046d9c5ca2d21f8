#include "device/host_copy.h"

#include <cstring>

#include "base/error.h"
#include "base/text.h"
#include "core/graph.h"
#include "core/memory.h"
#include "core/stream.h"
#include "device/transfers.h"

namespace gpk::device {

namespace {

void check_contiguous(const Array& array, const char* op) {
  if (!array.is_contiguous()) throw InvalidArgument(cat(op, ": the array is not contiguous"));
}

// copy(stream) on a GPU, after the array's work so far.
template <class Copy>
void read(const Array& array, void* dst, const Copy& copy) {
  check_contiguous(array, "to_numpy");
  if (array.nbytes() == 0) return;
  const auto& stream = current_stream(array.device());
  const BufferUse use(array.buffer(), stream);
  if (!array.device().is_cuda()) {
    std::memcpy(dst, array.data(), array.nbytes());
    return;
  }
  array.buffer()->order_before(*stream);
  copy(stream);
}

}  // namespace

Array from_host(const void* src, Dims shape, DType dtype, Device device) {
  Array array = Array::empty(std::move(shape), dtype, device, "from_numpy");
  copy_from_host(array, src);
  return array;
}

void copy_from_host(const Array& array, const void* src) {
  forbid_in_capture("from_numpy", "host memory is read once, a replay could not read it again");
  check_contiguous(array, "from_numpy");
  if (array.nbytes() == 0) return;
  const auto& stream = current_stream(array.device());
  const BufferUse use(array.buffer(), stream);
  if (!array.device().is_cuda()) {
    std::memcpy(array.data(), src, array.nbytes());
    return;
  }
  array.buffer()->order_before(*stream);
  upload(array.device_ptr(), src, array.nbytes(), stream);
}

void to_host(const Array& array, void* dst) {
  forbid_in_capture("to_numpy", "the result is needed now, the work is only being recorded");
  read(array, dst,
       [&](const auto& stream) { download(dst, array.device_ptr(), array.nbytes(), stream); });
}

void copy_to_pinned(const Array& array, void* dst) {
  read(array, dst, [&](const auto& stream) {
    core::copy_to_host(dst, array.device_ptr(), array.nbytes(), *stream);
  });
}

}  // namespace gpk::device

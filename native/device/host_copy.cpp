#include "device/host_copy.h"

#include <cstring>

#include "base/error.h"
#include "core/graph.h"
#include "core/stream.h"
#include "device/transfers.h"

namespace gpk::device {

Array from_host(const void* src, Dims shape, DType dtype, Device device) {
  forbid_in_capture("from_numpy", "host memory is read once, a replay could not read it again");
  Array array = Array::empty(std::move(shape), dtype, device, "from_numpy");
  const auto& stream = current_stream(device);
  const BufferUse use(array.buffer(), stream);
  if (!device.is_cuda()) {
    if (array.nbytes() > 0) std::memcpy(array.data(), src, array.nbytes());
    return array;
  }
  upload(array.device_ptr(), src, array.nbytes(), stream);
  return array;
}

void to_host(const Array& array, void* dst) {
  forbid_in_capture("to_numpy", "the result is needed now, the work is only being recorded");
  if (!array.is_contiguous()) throw InvalidArgument("to_numpy: the array is not contiguous");
  if (array.nbytes() == 0) return;
  const auto& stream = current_stream(array.device());
  const BufferUse use(array.buffer(), stream);
  if (!array.device().is_cuda()) {
    std::memcpy(dst, array.data(), array.nbytes());
    return;
  }
  array.buffer()->order_before(*stream);
  download(dst, array.device_ptr(), array.nbytes(), stream);
}

}  // namespace gpk::device

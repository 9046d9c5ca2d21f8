#include "core/array.h"

#include <cstring>

#include "base/error.h"
#include "base/text.h"
#include "core/check.h"
#include "core/context.h"
#include "core/graph.h"
#include "core/memory.h"
#include "core/stream.h"

namespace gpk::inline core {

Array Array::empty(Dims shape, DType dtype, Device device, const char* op) {
  const std::int64_t count = num_elements(shape, op);
  if (count > (std::int64_t{1} << 58))
    throw InvalidArgument(cat(op, ": shape ", to_string(shape), " needs more than 2**62 bytes"));
  auto buffer = Buffer::allocate(device, bytes_for(dtype, count));
  Dims strides = contiguous_strides(shape);
  return Array(std::move(shape), std::move(strides), dtype, std::move(buffer), 0);
}

Array::Array(Dims shape, Dims strides, DType dtype, std::shared_ptr<Buffer> buffer,
             std::int64_t offset_elems)
    : shape_(std::move(shape)),
      strides_(std::move(strides)),
      dtype_(dtype),
      size_(num_elements(shape_, "array")),
      offset_elems_(offset_elems),
      buffer_(std::move(buffer)) {}

bool Array::is_contiguous() const noexcept {
  if (size_ <= 1) return true;
  std::int64_t expected = 1;
  for (int axis = ndim() - 1; axis >= 0; --axis) {
    if (shape_[axis] == 1) continue;
    if (strides_[axis] != expected) return false;
    expected *= shape_[axis];
  }
  return true;
}

namespace {

void copy_on_cpu(const Array& dst, const Array& src) {
  const auto& stream = current_stream(dst.device());
  const BufferUse target(dst.buffer(), stream);
  const BufferUse source(src.buffer(), stream);
  std::memmove(dst.data(), src.data(), dst.nbytes());
}

}  // namespace

void copy(const Array& dst, const Array& src, const char* op) {
  if (!dst.is_contiguous() || !src.is_contiguous())
    throw InvalidArgument(cat(op, ": both arrays must be contiguous"));
  if (dst.nbytes() != src.nbytes())
    throw InvalidArgument(cat(op, ": dst has ", dst.nbytes(), " bytes, src has ", src.nbytes()));
  if (dst.device().is_cuda() != src.device().is_cuda())
    throw InvalidArgument(
        cat(op, ": dst is on ", to_string(dst.device()), ", src on ", to_string(src.device())));
  if (dst.nbytes() == 0) return;
  Graph* graph = capturing_graph();
  if (!dst.device().is_cuda()) {
    if (graph != nullptr && !graph->device().is_cuda()) {
      graph->record_host_call([dst, src] { copy_on_cpu(dst, src); });
    } else {
      copy_on_cpu(dst, src);
    }
    return;
  }
  const auto& stream = current_stream(dst.device());
  if (graph != nullptr) {
    graph->keep(dst.buffer());
    graph->keep(src.buffer());
  }
  if (!(dst.device() == src.device())) src.buffer()->order_before(*stream);
  const BufferUse target(dst.buffer(), stream);
  const BufferUse source(src.buffer(), stream);
  if (dst.device() == src.device()) {
    copy_on_device(dst.device_ptr(), src.device_ptr(), dst.nbytes(), *stream);
    return;
  }
  copy_peer(dst.device_ptr(), Context::get(dst.device().index), src.device_ptr(),
            Context::get(src.device().index), dst.nbytes(), *stream);
}

Array clone(const Array& array) {
  Array result = Array::empty(array.shape(), array.dtype(), array.device(), "clone");
  copy(result, array, "clone");
  return result;
}

}  // namespace gpk::inline core

// Arrays to NumPy and back. Four-bit types are packed two to a byte here and one to a byte in
// ml_dtypes; the even element is in the low nibble.
#include <pybind11/numpy.h>

#include "bindings/convert.h"
#include "core/error.h"
#include "core/graph.h"
#include "core/text.h"

namespace gpk::bind {
namespace {

py::array new_numpy(const Array& array) {
  const py::object made = py::module_::import("numpy").attr("empty")(to_tuple(array.shape()),
                                                                     numpy_dtype(array.dtype()));
  return py::reinterpret_borrow<py::array>(made);
}

bool is_packed(DType dtype) { return info(dtype).bits == 4; }

void unpack(const std::vector<unsigned char>& packed, std::int64_t count, unsigned char* out) {
  for (std::int64_t i = 0; i < count; ++i) {
    const unsigned byte = packed[static_cast<std::size_t>(i / 2)];
    out[i] = static_cast<unsigned char>(i % 2 == 0 ? byte & 0xfu : byte >> 4);
  }
}

std::vector<unsigned char> pack(const unsigned char* in, std::int64_t count) {
  std::vector<unsigned char> packed(static_cast<std::size_t>((count + 1) / 2));
  for (std::int64_t i = 0; i < count; ++i) {
    const unsigned value = in[i] & 0xfu;
    packed[static_cast<std::size_t>(i / 2)] |=
        static_cast<unsigned char>(i % 2 == 0 ? value : value << 4);
  }
  return packed;
}

}  // namespace

py::object numpy_view(const Array& array) {
  if (is_packed(array.dtype()))
    throw InvalidArgument(InvalidArgument::Kind::kType,
                          cat("numpy_view: ", name(array.dtype()),
                              " is packed two to a byte, which NumPy cannot view"));
  std::vector<py::ssize_t> shape(array.shape().begin(), array.shape().end());
  std::vector<py::ssize_t> strides;
  for (const std::int64_t stride : array.strides())
    strides.push_back(
        static_cast<py::ssize_t>(stride * static_cast<std::int64_t>(itemsize(array.dtype()))));
  const auto* kept = new std::shared_ptr<Buffer>(array.buffer());
  const py::capsule base(kept, [](void* p) { delete static_cast<std::shared_ptr<Buffer>*>(p); });
  return py::array(py::reinterpret_borrow<py::dtype>(numpy_dtype(array.dtype())), std::move(shape),
                   std::move(strides), array.data(), base);
}

py::object to_numpy(const Array& array) {
  forbid_in_capture("to_numpy", "the result is needed now, the work is only being recorded");
  py::array result = new_numpy(array);
  void* dst = result.mutable_data();
  if (is_packed(array.dtype())) {
    std::vector<unsigned char> packed(array.nbytes());
    {
      const WithoutGil released;
      to_host(array, packed.data());
    }
    unpack(packed, array.size(), static_cast<unsigned char*>(dst));
    return result;
  }
  const WithoutGil released;
  to_host(array, dst);
  return result;
}

Array from_numpy(py::handle object, Device device) {
  const py::module_ numpy = py::module_::import("numpy");
  const auto source =
      py::reinterpret_borrow<py::array>(numpy.attr("asarray")(object, py::arg("order") = "C"));
  const DType dtype = dtype_from_python(source.attr("dtype"), "from_numpy");
  Dims shape = Dims::filled(static_cast<int>(source.ndim()), 0);
  for (int i = 0; i < shape.size(); ++i) shape[i] = source.shape(i);
  const void* data = source.data();
  if (is_packed(dtype)) {
    const auto packed = pack(static_cast<const unsigned char*>(data), source.size());
    const WithoutGil released;
    return from_host(packed.data(), std::move(shape), dtype, device);
  }
  const WithoutGil released;
  return from_host(data, std::move(shape), dtype, device);
}

}  // namespace gpk::bind

// __cuda_array_interface__, version 3, export and import.
#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "bindings/array_object.h"
#include "bindings/bind.h"
#include "bindings/convert.h"
#include "core/dlpack.h"
#include "core/graph.h"

namespace gpk::bind {
namespace {

constexpr const char* kOp = "from_cuda_array_interface";

// '<f4', '|b1'; nullopt for dtypes that NumPy has no code for.
std::optional<std::string> type_string(DType dtype) {
  const DTypeInfo& row = info(dtype);
  if (row.bits < 8 || dtype == DType::kBFloat16 ||
      (row.bits == 8 && row.kind == DTypeClass::kFloat))
    return std::nullopt;
  char letter = 'f';
  switch (row.kind) {
    case DTypeClass::kBool: letter = 'b'; break;
    case DTypeClass::kSigned: letter = 'i'; break;
    case DTypeClass::kUnsigned: letter = 'u'; break;
    case DTypeClass::kComplex: letter = 'c'; break;
    case DTypeClass::kFloat: break;
  }
  return cat(row.bits == 8 ? '|' : '<', letter, row.bits / 8);
}

DType dtype_from_type_string(const std::string& text) {
  for (const DTypeInfo& row : detail::kDTypes)
    if (const auto known = type_string(row.dtype); known && text.size() > 1) {
      const bool native = text[0] == '<' || text[0] == '=' || (text[0] == '|' && row.bits == 8);
      if (native && known->substr(1) == text.substr(1)) return row.dtype;
    }
  throw InvalidArgument(InvalidArgument::Kind::kType,
                        cat(kOp, ": Unsupported dtype: typestr '", text, "'"));
}

py::dict cuda_array_interface(const Array& array) {
  if (!array.device().is_cuda())
    throw py::attribute_error(
        "GPUArray: no __cuda_array_interface__, the array is on the CPU; use DLPack or to_numpy()");
  const auto type = type_string(array.dtype());
  if (!type)
    throw py::attribute_error(cat("GPUArray: no __cuda_array_interface__, it has no type for ",
                                  name(array.dtype()), "; use DLPack"));
  const auto& stream = current_stream(array.device());
  // Consumers wait for one stream, so make it wait for the others.
  if (capturing_graph() == nullptr) {
    const WithoutGil released;
    array.buffer()->order_before(*stream);
  }
  array.buffer()->expose();
  py::dict result;
  result["shape"] = to_tuple(array.shape());
  result["typestr"] = *type;
  const auto address = array.size() == 0 ? 0 : reinterpret_cast<std::uintptr_t>(array.data());
  result["data"] = py::make_tuple(address, array.buffer()->read_only());
  result["strides"] = py::none();
  if (!array.is_contiguous()) {
    Dims bytes = array.strides();
    for (int i = 0; i < bytes.size(); ++i)
      bytes[i] *= static_cast<std::int64_t>(itemsize(array.dtype()));
    result["strides"] = to_tuple(bytes);
  }
  result["version"] = 3;
  result["stream"] = stream->handle_value() == 0 ? 1 : stream->handle_value();
  return result;
}

Dims element_strides(const py::dict& interface, const Dims& shape, DType dtype) {
  if (!interface.contains("strides") || interface["strides"].is_none())
    return contiguous_strides(shape);
  Dims strides = shape_from_python(interface["strides"], kOp);
  if (strides.size() != shape.size())
    throw ExchangeError(
        cat(kOp, ": strides ", to_string(strides), " for shape ", to_string(shape)));
  const auto item = static_cast<std::int64_t>(itemsize(dtype));
  for (int i = 0; i < strides.size(); ++i) {
    if (shape[i] > 1 && strides[i] % item != 0)
      throw ExchangeError(
          cat(kOp, ": strides ", to_string(strides), " are not multiples of the item size ", item));
    strides[i] /= item;
  }
  return strides;
}

std::optional<std::int64_t> producer_stream(const py::dict& interface) {
  if (!interface.contains("stream") || interface["stream"].is_none()) return std::nullopt;
  const auto stream = interface["stream"].cast<std::int64_t>();
  if (stream <= 0)
    throw InvalidArgument(cat(kOp, ": stream is ", stream, ", expected None, 1, 2 or a handle"));
  return stream;
}

Array import_cuda_array(py::handle x) {
  if (!has_attribute(x, "__cuda_array_interface__"))
    throw InvalidArgument(InvalidArgument::Kind::kType,
                          cat(kOp, ": x is ", safe_repr(x), ", expected an object with ",
                              "__cuda_array_interface__"));
  const auto interface = py::cast<py::dict>(x.attr("__cuda_array_interface__"));
  if (interface.contains("mask") && !interface["mask"].is_none())
    throw ExchangeError(cat(kOp, ": x is masked, which GPUArray is not"));
  Dims shape = shape_from_python(interface["shape"], kOp);
  const DType dtype = dtype_from_type_string(interface["typestr"].cast<std::string>());
  Dims strides = element_strides(interface, shape, dtype);
  const auto data = py::cast<py::tuple>(interface["data"]);
  auto* first = reinterpret_cast<void*>(data[0].cast<std::uintptr_t>());
  const bool read_only = py::bool_(data[1]);
  const auto stream = producer_stream(interface);
  auto owner = keep_alive(x);
  const WithoutGil released;
  const bool empty = num_elements(shape, kOp) == 0;
  const Device device = empty ? Device{DeviceKind::kCuda, 0} : device_of_memory(first, kOp);
  Array array = wrap_memory(device, first, std::move(shape), std::move(strides), dtype,
                            std::move(owner), kOp);
  if (read_only) array.buffer()->set_read_only();
  if (empty) return array;
  if (stream) wait_for_producer(device, *stream, kOp);
  array.buffer()->mark_use(current_stream(device));
  return array;
}

}  // namespace

void bind_cuda_interface(py::module_& m) {
  m.def("cuda_array_interface", cuda_array_interface, py::arg("array"),
        "array.__cuda_array_interface__");
  m.def("from_cuda_array_interface", import_cuda_array, py::arg("x"),
        "An array over the memory of an object with __cuda_array_interface__.");
}

}  // namespace gpk::bind

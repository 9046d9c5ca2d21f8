// Arrays to NumPy and back. Four-bit types are packed two per byte here and stored one per byte in
// ml_dtypes; the even element is in the low nibble.
#include <pybind11/numpy.h>

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "bindings/convert.h"
#include "bindings/interop.h"
#include "core/context.h"
#include "core/dlpack.h"
#include "core/graph.h"
#include "core/memory.h"
#include "core/release.h"
#include "device/host_copy.h"
#include "device/transfers.h"
#include "ops/elementwise/copy.h"

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

Dims shape_of(const py::array& array) {
  Dims shape = Dims::filled(static_cast<int>(array.ndim()), 0);
  for (int i = 0; i < shape.size(); ++i) shape[i] = array.shape(i);
  return shape;
}

bool is_c_contiguous(const py::array& array) { return (array.flags() & py::array::c_style) != 0; }

void copy_values(const py::object& dst, const py::object& src) {
  py::module_::import("numpy").attr("copyto")(dst, src);
}

// --- to NumPy -----------------------------------------------------------------------------------

py::array check_out(const Array& array, py::handle out) {
  if (!py::isinstance<py::array>(out))
    throw InvalidArgument(InvalidArgument::Kind::kType,
                          cat("to_numpy: out is ", safe_repr(out), ", expected a numpy.ndarray"));
  const auto result = py::reinterpret_borrow<py::array>(out);
  const Dims shape = shape_of(result);
  if (!(shape == array.shape()))
    throw InvalidArgument(cat("to_numpy: out has shape ", to_string(shape), ", the array has ",
                              to_string(array.shape())));
  const py::object expected = numpy_dtype(array.dtype());
  if (!result.dtype().equal(expected))
    throw InvalidArgument(cat("to_numpy: out has dtype ", std::string(py::str(result.dtype())),
                              ", the array has ", name(array.dtype())));
  if (!is_c_contiguous(result)) throw InvalidArgument("to_numpy: out is not C-contiguous");
  if (!result.writeable()) throw InvalidArgument("to_numpy: out is read-only");
  return result;
}

void check_not_blocking(const Array& array, py::handle out) {
  if (out.is_none())
    throw InvalidArgument("to_numpy: blocking=False needs out, a NumPy array from pinned_empty");
  if (is_packed(array.dtype()))
    throw InvalidArgument(cat("to_numpy: blocking=False with ", name(array.dtype()),
                              ", which the host has to unpack after the copy"));
  const void* data = py::reinterpret_borrow<py::array>(out).data();
  if (array.device().is_cuda() && array.nbytes() > 0 &&
      !is_pinned(Context::get(array.device().index), data))
    throw InvalidArgument("to_numpy: blocking=False needs out in pinned memory (pinned_empty)");
}

// Runs without the GIL. `kept` holds the destination until an asynchronous copy is done.
void copy_out(const Array& array, void* dst, const std::shared_ptr<Stream>& stream,
              std::shared_ptr<void> kept) {
  const StreamScope scope(stream);
  if (array.device().is_cuda()) array.buffer()->order_before(*stream);
  const Array source = ops::contiguous(array, "to_numpy");
  if (!array.device().is_cuda() || kept == nullptr) {
    device::to_host(source, dst);
    return;
  }
  const BufferUse use(source.buffer(), stream);
  copy_to_host(dst, source.device_ptr(), source.nbytes(), *stream);
  release_after({stream}, std::move(kept));
}

// --- from NumPy ---------------------------------------------------------------------------------

// Some rows at a time, so that a strided view of a large file is never entirely in host memory.
Array upload_in_parts(const py::array& source, const Dims& shape, DType dtype, Device device) {
  constexpr std::size_t kPartBytes = std::size_t{64} << 20;
  Array result = Array::empty(shape, dtype, device, "from_numpy");
  const auto stream = current_stream(device);
  const BufferUse use(result.buffer(), stream);
  const py::object contiguous = py::module_::import("numpy").attr("ascontiguousarray");
  const std::size_t row_bytes = result.nbytes() / static_cast<std::size_t>(shape[0]);
  const auto rows = static_cast<std::int64_t>(std::max<std::size_t>(1, kPartBytes / row_bytes));
  for (std::int64_t first = 0; first < shape[0]; first += rows) {
    const std::int64_t end = std::min(first + rows, shape[0]);
    const auto part =
        py::reinterpret_borrow<py::array>(contiguous(source[py::slice(first, end, 1)]));
    const void* data = part.data();
    const std::size_t offset = static_cast<std::size_t>(first) * row_bytes;
    const std::size_t bytes = static_cast<std::size_t>(end - first) * row_bytes;
    const WithoutGil released;
    device::upload(result.device_ptr() + offset, data, bytes, stream);
  }
  return result;
}

}  // namespace

// Made for every operand of every op on the CPU, hence the C API: pybind11's constructor copies
// shape and strides twice.
py::object numpy_view(const Array& array) {
  if (is_packed(array.dtype()))
    throw InvalidArgument(InvalidArgument::Kind::kType,
                          cat("numpy_view: ", name(array.dtype()),
                              " is packed two to a byte, which NumPy cannot view"));
  using Api = py::detail::npy_api;
  const Api& api = Api::get();
  const int rank = array.ndim();
  py::ssize_t shape[kMaxRank];
  py::ssize_t strides[kMaxRank];
  for (int i = 0; i < rank; ++i) {
    shape[i] = array.shape()[i];
    strides[i] = array.strides()[i] * static_cast<py::ssize_t>(itemsize(array.dtype()));
  }
  const int flags = array.buffer()->read_only() ? 0 : Api::NPY_ARRAY_WRITEABLE_;
  auto view = py::reinterpret_steal<py::object>(
      api.PyArray_NewFromDescr_(api.PyArray_Type_, numpy_dtype(array.dtype()).release().ptr(), rank,
                                shape, strides, array.data(), flags, nullptr));
  if (!view) throw py::error_already_set();
  if (array.data() == nullptr) return view;  // empty: NumPy has given it memory of its own
  PyObject* base = PyCapsule_New(new BufferPin(array.buffer()), nullptr, [](PyObject* capsule) {
    delete static_cast<BufferPin*>(PyCapsule_GetPointer(capsule, nullptr));
  });
  if (base == nullptr || api.PyArray_SetBaseObject_(view.ptr(), base) < 0)
    throw py::error_already_set();
  return view;
}

py::object to_numpy(const Array& array) { return to_numpy(array, py::none(), py::none(), true); }

py::object to_numpy(const Array& array, py::handle out, py::handle stream, bool blocking) {
  forbid_in_capture("to_numpy", "the result is needed now, the work is only being recorded");
  const auto on = stream_from_python(stream, array.device(), "to_numpy");
  if (!(on->device() == array.device()))
    throw InvalidArgument(cat("to_numpy: the stream belongs to ", to_string(on->device()),
                              ", the array to ", to_string(array.device())));
  py::array result = out.is_none() ? new_numpy(array) : check_out(array, out);
  if (!blocking) check_not_blocking(array, out);
  void* dst = result.mutable_data();
  if (is_packed(array.dtype())) {
    std::vector<unsigned char> packed(array.nbytes());
    {
      const WithoutGil released;
      copy_out(array, packed.data(), on, nullptr);
    }
    unpack(packed, array.size(), static_cast<unsigned char*>(dst));
    return result;
  }
  if (!array.device().is_cuda() && !array.is_contiguous()) {
    copy_values(result, numpy_view(array));
    return result;
  }
  std::shared_ptr<void> kept = blocking ? nullptr : keep_alive(result);
  const WithoutGil released;
  copy_out(array, dst, on, std::move(kept));
  return result;
}

Array from_numpy(py::handle object, Device device) {
  forbid_in_capture("from_numpy", "host memory is read once, a replay could not read it again");
  const py::object asarray = py::module_::import("numpy").attr("asarray");
  auto source = py::reinterpret_borrow<py::array>(asarray(object));
  const DType dtype = dtype_from_python(source.dtype(), "from_numpy");
  const Dims shape = shape_of(source);
  if (is_packed(dtype)) {
    source = py::reinterpret_borrow<py::array>(asarray(source, py::arg("order") = "C"));
    const auto packed = pack(static_cast<const unsigned char*>(source.data()), source.size());
    const WithoutGil released;
    return device::from_host(packed.data(), shape, dtype, device);
  }
  if (is_c_contiguous(source)) {
    const void* data = source.data();
    const WithoutGil released;
    return device::from_host(data, shape, dtype, device);
  }
  if (device.is_cuda()) return upload_in_parts(source, shape, dtype, device);
  Array result = Array::empty(shape, dtype, device, "from_numpy");
  copy_values(numpy_view(result), source);
  return result;
}

Array wrap_numpy(py::handle object) {
  constexpr const char* kOp = "wrap_numpy";
  if (!py::isinstance<py::array>(object))
    throw InvalidArgument(InvalidArgument::Kind::kType,
                          cat(kOp, ": array is ", safe_repr(object), ", expected a numpy.ndarray"));
  auto source = py::reinterpret_borrow<py::array>(object);
  const DType dtype = dtype_from_python(source.dtype(), kOp);
  const char* problem = nullptr;
  if (is_packed(dtype)) problem = "four-bit types are packed differently there";
  if (!source.writeable()) problem = "the array is read-only";
  if (!py::bool_(source.attr("flags").attr("aligned"))) problem = "the array is not aligned";
  Dims strides = Dims::filled(static_cast<int>(source.ndim()), 0);
  for (int i = 0; i < strides.size(); ++i) {
    if (source.shape(i) > 1 && source.strides(i) % source.itemsize() != 0)
      problem = "a stride is not a multiple of the item size";
    strides[i] = source.strides(i) / source.itemsize();
  }
  if (problem != nullptr)
    throw InvalidArgument(cat(kOp, ": the memory cannot be shared without a copy: ", problem));
  return wrap_memory({DeviceKind::kCpu, 0}, source.mutable_data(), shape_of(source),
                     std::move(strides), dtype, keep_alive(source), kOp);
}

}  // namespace gpk::bind

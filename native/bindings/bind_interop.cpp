// Exchange of arrays with other libraries: DLPack capsules, NumPy, and the small copies that
// printing needs. The CUDA array interface is in bind_cuda_interface.cpp.
#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "bindings/array_object.h"
#include "bindings/bind.h"
#include "bindings/convert.h"
#include "bindings/interop.h"
#include "core/dlpack.h"
#include "core/graph.h"
#include "core/view.h"
#include "device/host_copy.h"
#include "ops/elementwise/copy.h"

namespace gpk::bind {
namespace {

template <class Managed>
struct CapsuleNames;
template <>
struct CapsuleNames<dl::ManagedTensor> {
  static constexpr const char* kFresh = "dltensor";
  static constexpr const char* kUsed = "used_dltensor";
};
template <>
struct CapsuleNames<dl::ManagedTensorVersioned> {
  static constexpr const char* kFresh = "dltensor_versioned";
  static constexpr const char* kUsed = "used_dltensor_versioned";
};

std::optional<bool> copy_argument(py::handle object, const char* op) {
  if (object.is_none()) return std::nullopt;
  if (!PyBool_Check(object.ptr())) bad_argument(op, "copy", object, "True, False or None");
  return object.ptr() == Py_True;
}

// --- export -------------------------------------------------------------------------------------

// Runs wherever the last reference is dropped, even while an exception is propagating: foreign
// deleters must neither see nor replace it.
template <class Managed>
void drop_capsule(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, CapsuleNames<Managed>::kFresh) == 0) return;  // already consumed
  auto* managed =
      static_cast<Managed*>(PyCapsule_GetPointer(capsule, CapsuleNames<Managed>::kFresh));
  const py::error_scope pending;
  if (managed->deleter != nullptr) managed->deleter(managed);
}

template <class Managed>
py::object make_capsule(Managed* managed) {
  PyObject* capsule = PyCapsule_New(managed, CapsuleNames<Managed>::kFresh, drop_capsule<Managed>);
  if (capsule == nullptr) {
    managed->deleter(managed);
    throw py::error_already_set();
  }
  return py::reinterpret_steal<py::object>(capsule);
}

// Stream number of the DLPack protocol; None means the legacy default stream.
std::int64_t stream_argument(py::handle stream, Device device) {
  constexpr const char* kOp = "__dlpack__";
  if (stream.is_none()) return 1;
  if (!PyLong_Check(stream.ptr()) || PyBool_Check(stream.ptr()))
    bad_argument(kOp, "stream", stream, "an int or None");
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(stream.ptr(), &overflow);
  const bool known = overflow == 0 && value >= -1 && value != 0;
  if (!known || (!device.is_cuda() && value != -1))
    throw InvalidArgument(cat(kOp, ": stream is ", safe_repr(stream),
                              device.is_cuda() ? ", expected None, -1, 1, 2 or a handle; 0 could "
                                                 "mean either default stream"
                                               : ", expected None: the array is on the CPU"));
  return value;
}

bool wants_versioned(py::handle max_version) {
  if (max_version.is_none()) return false;
  if (!py::isinstance<py::tuple>(max_version) || py::len(max_version) != 2)
    bad_argument("__dlpack__", "max_version", max_version, "a pair of ints or None");
  return py::cast<py::tuple>(max_version)[0].cast<long long>() >= 1;
}

Device device_argument(py::handle dl_device, Device own) {
  if (dl_device.is_none()) return own;
  if (!py::isinstance<py::tuple>(dl_device) || py::len(dl_device) != 2)
    bad_argument("__dlpack__", "dl_device", dl_device, "a pair of ints or None");
  const auto pair = py::cast<py::tuple>(dl_device);
  const dl::Device asked{pair[0].cast<std::int32_t>(), pair[1].cast<std::int32_t>()};
  if (asked.type == dl::kCudaHost || asked.type == dl::kCudaManaged)
    throw ExchangeError(
        cat("__dlpack__: dl_device ", safe_repr(dl_device), ", expected the CPU (1) or CUDA (2)"));
  const Device device = device_from_dlpack(asked, "__dlpack__");
  if (device == own || !device.is_cuda()) return device;
  try {
    device_traits(device);
  } catch (const Error& error) {
    throw ExchangeError(
        cat("__dlpack__: dl_device ", safe_repr(dl_device), ": ", std::string(error.what())));
  }
  return device;
}

py::object dlpack_capsule(const Array& array, py::handle stream, py::handle max_version,
                          py::handle dl_device, py::handle copy) {
  constexpr const char* kOp = "__dlpack__";
  const Device target = device_argument(dl_device, array.device());
  const auto wanted = copy_argument(copy, kOp);
  const bool versioned = wants_versioned(max_version);
  const bool moves = !(target == array.device());
  // Host memory is ready when the copy returns: its consumer has no stream to order.
  const std::int64_t consumer = moves && !target.is_cuda() ? -1 : stream_argument(stream, target);
  if (moves && wanted == false)
    throw ExchangeError(cat(kOp, ": the array is on ", to_string(array.device()),
                            " and cannot be on ", to_string(target), " without a copy"));
  const bool copies = moves || wanted == true;
  std::optional<Array> exported;
  {
    const WithoutGil released;
    exported = moves ? moved_to(array, target, kOp) : copies ? fresh_copy(array, kOp) : array;
    order_for_consumer(*exported, consumer, kOp);
  }
  if (versioned) return make_capsule(to_dlpack(*exported, copies ? dl::kIsCopied : 0));
  return make_capsule(to_dlpack_unversioned(*exported));
}

// --- import -------------------------------------------------------------------------------------

// Calls the producer's deleter with the GIL held: not every producer takes it itself.
template <class Managed>
struct TensorOwner {
  explicit TensorOwner(Managed* managed) : managed_(managed) {}
  ~TensorOwner() {
    if (!armed_ || managed_->deleter == nullptr || !python_runs()) return;
    const WithGil gil;
    const py::error_scope pending;
    managed_->deleter(managed_);
  }
  TensorOwner(const TensorOwner&) = delete;
  TensorOwner& operator=(const TensorOwner&) = delete;
  void arm() noexcept { armed_ = true; }

 private:
  Managed* managed_;
  bool armed_ = false;  // until armed, the capsule owns the tensor
};

struct Imported {
  Array array;
  std::uint64_t flags;
};

template <class Managed>
Imported consume(PyObject* capsule, Managed* managed, std::uint64_t flags) {
  auto owner = std::make_shared<TensorOwner<Managed>>(managed);
  Array array = from_dlpack(managed->tensor, flags, owner, "from_dlpack");
  if (PyCapsule_SetName(capsule, CapsuleNames<Managed>::kUsed) != 0) throw py::error_already_set();
  owner->arm();
  return {std::move(array), flags};
}

Imported consume(py::handle object) {
  PyObject* capsule = object.ptr();
  using Old = dl::ManagedTensor;
  using New = dl::ManagedTensorVersioned;
  if (PyCapsule_IsValid(capsule, CapsuleNames<New>::kFresh) != 0) {
    auto* managed = static_cast<New*>(PyCapsule_GetPointer(capsule, CapsuleNames<New>::kFresh));
    if (managed->version.major > dl::kMajorVersion)
      throw ExchangeError(cat("from_dlpack: the tensor is of DLPack ", managed->version.major, ".",
                              managed->version.minor, ", at most 1.x is known"));
    return consume(capsule, managed, managed->flags);
  }
  if (PyCapsule_IsValid(capsule, CapsuleNames<Old>::kFresh) != 0)
    return consume(capsule,
                   static_cast<Old*>(PyCapsule_GetPointer(capsule, CapsuleNames<Old>::kFresh)), 0);
  throw ExchangeError(cat("from_dlpack: ", safe_repr(object),
                          " is not a DLPack capsule, or it was consumed before"));
}

// The calling thread's current stream as a protocol number.
std::int64_t protocol_stream(Device device) {
  const std::uintptr_t handle = current_stream(device)->handle_value();
  return handle == 0 ? 1 : static_cast<std::int64_t>(handle);
}

py::object request_capsule(py::handle x, const std::optional<Device>& target) {
  constexpr const char* kOp = "from_dlpack";
  if (!has_attribute(x, "__dlpack__") || !has_attribute(x, "__dlpack_device__"))
    bad_argument(kOp, "x", x, "an object with __dlpack__ and __dlpack_device__");
  const auto pair = py::cast<py::tuple>(x.attr("__dlpack_device__")());
  const dl::Device where{py::int_(pair[0]).cast<std::int32_t>(),
                         py::int_(pair[1]).cast<std::int32_t>()};
  py::dict options;
  py::dict old_options;  // for producers that predate DLPack 1.0
  const bool known = where.type == dl::kCpu || where.type == dl::kCudaHost ||
                     where.type == dl::kCuda || where.type == dl::kCudaManaged;
  if (!known && target && !target->is_cuda())
    options["dl_device"] = py::make_tuple(static_cast<int>(dl::kCpu), 0);
  else if (const Device device = device_from_dlpack(where, kOp); device.is_cuda()) {
    forbid_in_capture(kOp, "work of another library cannot be waited for in a graph");
    device_traits(device);  // throws when there is none
    options["stream"] = protocol_stream(device);
    old_options["stream"] = options["stream"];
  }
  options["max_version"] = py::make_tuple(dl::kMajorVersion, dl::kMinorVersion);
  const py::object function = x.attr("__dlpack__");
  try {
    return function(**options);
  } catch (py::error_already_set& error) {
    if (!error.matches(PyExc_TypeError)) throw;
  }
  return function(**old_options);
}

Array import_dlpack(py::handle x, py::handle device, py::handle copy) {
  constexpr const char* kOp = "from_dlpack";
  const auto wanted = copy_argument(copy, kOp);
  std::optional<Device> target;
  if (!device.is_none()) target = device_from_python(device, kOp);
  const bool is_capsule = PyCapsule_CheckExact(x.ptr());
  const py::object capsule =
      is_capsule ? py::reinterpret_borrow<py::object>(x) : request_capsule(x, target);
  Imported imported = consume(capsule);
  const Array& array = imported.array;
  const Device from = array.device();
  const Device to = target.value_or(from);
  const bool moves = !(to == from);
  if (wanted == false && moves)
    throw ExchangeError(
        cat(kOp, ": copy=False, but x is on ", to_string(from), " and device is ", to_string(to)));
  const bool is_private = (imported.flags & dl::kIsCopied) != 0;
  const WithoutGil released;
  if (from.is_cuda()) {
    if (is_capsule) wait_for_producer(from, 1, kOp);  // the producer was not told our stream
    array.buffer()->mark_use(current_stream(from));
  }
  if (moves) return moved_to(array, to, kOp);
  if (wanted == true && !is_private) return fresh_copy(array, kOp);
  return array;
}

// --- small views --------------------------------------------------------------------------------

void copy_edges(const Array& to, const Array& from, int axis, std::int64_t edge) {
  if (axis == to.ndim()) {
    ops::copy_into(to, from, "repr");
    return;
  }
  const std::int64_t size = from.shape()[axis];
  if (to.shape()[axis] == size) {
    copy_edges(to, from, axis + 1, edge);
    return;
  }
  copy_edges(slice_axis(to, axis, 0, edge + 1, 1), slice_axis(from, axis, 0, edge + 1, 1), axis + 1,
             edge);
  if (edge == 0) return;
  copy_edges(slice_axis(to, axis, edge + 1, edge, 1), slice_axis(from, axis, size - edge, edge, 1),
             axis + 1, edge);
}

// A 0-d view of one element.
Array element(const Array& array, const std::vector<std::int64_t>& index) {
  const Dims at(index);
  bool inside = at.size() == array.ndim();
  std::int64_t offset = array.offset_elems();
  for (int i = 0; inside && i < array.ndim(); ++i) {
    inside = at[i] >= 0 && at[i] < array.shape()[i];
    if (inside) offset += at[i] * array.strides()[i];
  }
  if (!inside)
    throw InvalidArgument(InvalidArgument::Kind::kIndex,
                          cat("element: index is ", to_string(at), ", expected one inside shape ",
                              to_string(array.shape())));
  return {Dims{}, Dims{}, array.dtype(), array.buffer(), offset};
}

py::tuple device_pair(const Array& array) {
  const dl::Device device = dlpack_device(array.device());
  return py::make_tuple(device.type, device.id);
}

}  // namespace

Array edge_items(const Array& array, std::int64_t edge) {
  forbid_in_capture("repr", "the values are needed now, the work is only being recorded");
  edge = std::clamp<std::int64_t>(edge, 0, std::int64_t{1} << 40);
  Dims shape = array.shape();
  for (int i = 0; i < shape.size(); ++i) shape[i] = std::min(shape[i], 2 * edge + 1);
  if (array.device().is_cuda()) array.buffer()->order_before(*current_stream(array.device()));
  Array result = Array::empty(std::move(shape), array.dtype(), array.device(), "repr");
  if (result.size() > 0) copy_edges(result, array, 0, edge);
  return result;
}

Array packed_bytes(const Array& array) {
  Dims shape = array.shape();
  const int last = shape.size() - 1;
  if (info(array.dtype()).bits != 4 || last < 0 || shape[last] % 2 != 0 ||
      array.offset_elems() % 2 != 0)
    throw InvalidArgument(cat("packed_bytes: ", name(array.dtype()), " of shape ",
                              to_string(array.shape()), " does not consist of pairs"));
  shape[last] /= 2;
  Dims strides = contiguous_strides(shape);
  return {std::move(shape), std::move(strides), DType::kUInt8, array.buffer(),
          array.offset_elems() / 2};
}

Array fresh_copy(const Array& array, const char* op) {
  if (array.device().is_cuda() && capturing_graph() == nullptr)
    array.buffer()->order_before(*current_stream(array.device()));
  return array.is_contiguous() ? clone(array) : ops::copy_as(array, array.dtype(), op);
}

Array moved_to(const Array& array, Device device, const char* op) {
  if (array.device() == device) return array;
  const Array source = ops::contiguous(array, op);
  if (!source.device().is_cuda())
    return device::from_host(source.data(), source.shape(), source.dtype(), device);
  Array result = Array::empty(source.shape(), source.dtype(), device, op);
  if (device.is_cuda()) {
    copy(result, source, op);
  } else {
    const BufferUse use(result.buffer(), current_stream(device));
    device::to_host(source, result.data());
  }
  return result;
}

void bind_interop(py::module_& m) {
  using Release = py::call_guard<WithoutGil>;
  m.def("dlpack_capsule", dlpack_capsule, py::arg("array"), py::arg("stream"),
        py::arg("max_version"), py::arg("dl_device"), py::arg("copy"), "array.__dlpack__(...)");
  m.def("dlpack_device", device_pair, py::arg("array"), "array.__dlpack_device__()");
  m.def("from_dlpack", import_dlpack, py::arg("x"), py::arg("device") = py::none(),
        py::arg("copy") = py::none(), "An array over the memory of any DLPack producer.");
  m.def("to_numpy", py::overload_cast<const Array&, py::handle, py::handle, bool>(to_numpy),
        py::arg("array"), py::arg("host") = py::none(), py::arg("stream") = py::none(),
        py::arg("blocking") = true, "array.to_numpy(...)");
  m.def("wrap_numpy", wrap_numpy, py::arg("array"),
        "A CPU array over the memory of a writable NumPy array; ValueError where it needs a copy.");
  m.def("edge_items", edge_items, py::arg("array"), py::arg("edge"), Release(),
        "The first edge + 1 and last edge items of each longer axis, on the same device.");
  m.def("packed_bytes", packed_bytes, py::arg("array"), Release(),
        "The bytes of a four-bit array whose last axis is even, as a uint8 view.");
  m.def("element", element, py::arg("array"), py::arg("index"), "A 0-d view of one element.");
  m.def(
      "copied", [](const Array& array) { return fresh_copy(array, "copy"); }, py::arg("array"),
      Release(), "A contiguous copy in its own memory.");
  m.def(
      "moved_to",
      [](const Array& array, py::handle device) {
        const Device target = device_from_python(device, "to_device");
        const WithoutGil released;
        return moved_to(array, target, "to_device");
      },
      py::arg("array"), py::arg("device"),
      "The array itself when it is on that device, else a copy.");
}

}  // namespace gpk::bind

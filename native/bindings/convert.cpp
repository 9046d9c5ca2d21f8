#include "bindings/convert.h"

#include <limits>

#include "base/error.h"
#include "base/text.h"
#include "bindings/array_object.h"
#include "core/promote.h"

namespace gpk::bind {
namespace {

std::int64_t dimension(py::handle item, const char* op, const char* argument) {
  if (PyLong_CheckExact(item.ptr())) {
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(item.ptr(), &overflow);
    if (overflow == 0) return value;
  }
  const py::object index = py::reinterpret_steal<py::object>(PyNumber_Index(item.ptr()));
  if (!index) {
    clear_if(PyExc_TypeError);
    bad_argument(op, argument, item, "an integer or a sequence of integers");
  }
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(index.ptr(), &overflow);
  if (overflow != 0)
    throw InvalidArgument(
        cat(op, ": ", argument, " has the size ", safe_repr(index), ", more than 2**63 - 1"));
  return value;
}

std::optional<DType> dtype_from_numpy(py::handle object) {
  try {
    const py::object dtype = py::module_::import("numpy").attr("dtype")(object);
    const auto byte_order = dtype.attr("byteorder").cast<std::string>();
    if (byte_order == ">") return std::nullopt;
    return dtype_from_name(dtype.attr("name").cast<std::string>());
  } catch (py::error_already_set& error) {
    // NumPy's errors for something that is not a dtype.
    if (!error.matches(PyExc_TypeError) && !error.matches(PyExc_ValueError)) throw;
    return std::nullopt;
  }
}

std::optional<Scalar> integer_scalar(PyObject* number, const char* op) {
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(number, &overflow);
  if (overflow == 0) return Scalar(static_cast<std::int64_t>(value));
  const unsigned long long large = PyLong_AsUnsignedLongLong(number);
  if (!PyErr_Occurred()) return Scalar(static_cast<std::uint64_t>(large));
  clear_if(PyExc_OverflowError);
  throw InvalidArgument(InvalidArgument::Kind::kOverflow,
                        cat(op, ": ", safe_repr(number), " does not fit in 64 bits"));
}

}  // namespace

std::optional<DType> find_dtype(py::handle object) {
  if (PyUnicode_Check(object.ptr())) {
    Py_ssize_t size = 0;
    const char* text = PyUnicode_AsUTF8AndSize(object.ptr(), &size);
    if (text == nullptr) throw py::error_already_set();
    if (const auto found = dtype_from_name({text, static_cast<std::size_t>(size)})) return found;
  } else if (py::isinstance<DTypeInfo>(object)) {
    return object.cast<const DTypeInfo&>().dtype;
  } else if (object.is_none()) {
    return std::nullopt;  // float64 to NumPy
  }
  return dtype_from_numpy(object);
}

DType dtype_from_python(py::handle object, const char* op) {
  for (const DTypeInfo& row : detail::kDTypes)  // the common case: one of ours
    if (object.ptr() == dtype_object(row.dtype)) return row.dtype;
  if (const auto found = find_dtype(object)) return *found;
  std::vector<const char*> names;
  for (const DTypeInfo& row : detail::kDTypes) names.push_back(row.name);
  const bool text = PyUnicode_Check(object.ptr()) != 0;
  throw InvalidArgument(text ? InvalidArgument::Kind::kValue : InvalidArgument::Kind::kType,
                        cat(op, ": Unsupported dtype", text ? " string: " : ": ", safe_repr(object),
                            "; supported are ", join(names, ", ")));
}

std::optional<DType> optional_dtype(py::handle object, const char* op) {
  if (object.is_none()) return std::nullopt;
  return dtype_from_python(object, op);
}

py::object numpy_dtype(DType dtype) {
  static PyObject* made[kNumDTypes] = {};  // under the GIL
  PyObject*& found = made[static_cast<std::size_t>(dtype)];
  if (found == nullptr) {
    const py::object make = py::module_::import("numpy").attr("dtype");
    switch (dtype) {
      case DType::kBFloat16:
      case DType::kFloat8E4M3FN:
      case DType::kFloat8E5M2:
      case DType::kInt4:
      case DType::kUInt4:
      case DType::kFloat4E2M1FN:
        found = make(py::module_::import("ml_dtypes").attr(name(dtype))).release().ptr();
        break;
      default: found = make(name(dtype)).release().ptr();
    }
  }
  return py::reinterpret_borrow<py::object>(found);
}

Array array_from_list(py::handle list, const Array* beside, const char* op, const char* argument) {
  const py::object asarray = py::module_::import("pygpukit.ops.conversion").attr("asarray");
  const auto convert = [&](const py::object& dtype) {
    const py::object device =
        beside != nullptr ? py::object(py::str(to_string(beside->device()))) : py::none();
    return asarray(list, py::arg("dtype") = dtype, py::arg("device") = device).cast<Array>();
  };
  try {
    const Array made = convert(py::none());
    const bool in_double = beside != nullptr && (beside->dtype() == DType::kFloat64 ||
                                                 beside->dtype() == DType::kComplex128);
    if (in_double && made.dtype() == DType::kFloat32) return convert(py::str("float64"));
    if (in_double && made.dtype() == DType::kComplex64) return convert(py::str("complex128"));
    return made;
  } catch (py::error_already_set& error) {
    if (!error.matches(PyExc_TypeError) && !error.matches(PyExc_ValueError)) throw;
  }
  bad_argument(op, argument, list, "a GPUArray or a list of numbers");
}

py::tuple items_from_python(py::handle sequence) {
  PyObject* items = PySequence_Tuple(sequence.ptr());
  if (items == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::tuple>(items);
}

Dims shape_from_python(py::handle object, const char* op, const char* argument) {
  if (PyIndex_Check(object.ptr())) return Dims{dimension(object, op, argument)};
  if (!PySequence_Check(object.ptr()) || PyUnicode_Check(object.ptr()) ||
      PyObject_CheckBuffer(object.ptr()))
    bad_argument(op, argument, object, "an integer or a sequence of integers");
  const py::tuple items = items_from_python(object);
  const std::size_t count = items.size();
  if (count > kMaxRank)
    throw InvalidArgument(cat(op, ": ", argument, " has ", count, " dimensions, at most ", kMaxRank,
                              " are supported"));
  Dims dims = Dims::filled(static_cast<int>(count), 0);
  for (std::size_t i = 0; i < count; ++i)
    dims[static_cast<int>(i)] = dimension(items[i], op, argument);
  return dims;
}

py::tuple to_tuple(const Dims& dims) {
  py::tuple result(dims.size());
  for (int i = 0; i < dims.size(); ++i) result[static_cast<std::size_t>(i)] = dims[i];
  return result;
}

std::optional<Scalar> scalar_from_python(py::handle object, const char* op) {
  PyObject* o = object.ptr();
  if (PyBool_Check(o)) return Scalar(o == Py_True);
  if (PyFloat_Check(o)) return Scalar(PyFloat_AS_DOUBLE(o));
  if (PyLong_Check(o)) return integer_scalar(o, op);
  if (PyComplex_Check(o))
    return Scalar(std::complex<double>(PyComplex_RealAsDouble(o), PyComplex_ImagAsDouble(o)));
  if (has_attribute(object, "dtype") && has_attribute(object, "item") &&
      has_attribute(object, "shape") && py::isinstance<py::tuple>(object.attr("shape")) &&
      py::len(object.attr("shape")) == 0)
    if (const py::object item = object.attr("item")();
        item.ptr() != o && !has_attribute(item, "item"))
      return scalar_from_python(item, op);
  return std::nullopt;
}

std::optional<Scalar> scalar_for_dtype(py::handle object, DType dtype, const char* op) {
  if ((is_float(dtype) || is_complex(dtype)) && PyLong_Check(object.ptr())) {
    int overflow = 0;
    PyLong_AsLongLongAndOverflow(object.ptr(), &overflow);
    if (overflow != 0) {
      const double value = PyLong_AsDouble(object.ptr());
      if (PyErr_Occurred() == nullptr) return Scalar(value);
      clear_if(PyExc_OverflowError);
      throw InvalidArgument(InvalidArgument::Kind::kOverflow,
                            cat(op, ": ", safe_repr(object), " does not fit in ", name(dtype)));
    }
  }
  return scalar_from_python(object, op);
}

std::optional<bool> bool_from_python(py::handle object) {
  if (PyBool_Check(object.ptr())) return object.ptr() == Py_True;
  if (is_array(object.ptr()) || is_list(object.ptr())) return std::nullopt;
  if (!py::isinstance(object, py::module_::import("numpy").attr("bool_"))) return std::nullopt;
  return is_true(object);
}

std::optional<std::string> text_from_python(py::handle object) {
  if (!PyUnicode_Check(object.ptr())) return std::nullopt;
  Py_ssize_t size = 0;
  const char* text = PyUnicode_AsUTF8AndSize(object.ptr(), &size);
  if (text == nullptr) {
    clear_if(PyExc_UnicodeError);
    return std::nullopt;
  }
  return std::string(text, static_cast<std::size_t>(size));
}

Device device_from_python(py::handle object, const char* op) {
  if (object.is_none()) return default_device();
  constexpr const char* kExpected = "None, 'cpu', 'cuda', 'cuda:<index>' or an index";
  int index = 0;
  if (PyLong_Check(object.ptr())) {
    int overflow = 0;
    const long value = PyLong_AsLongAndOverflow(object.ptr(), &overflow);
    if (overflow != 0 || value < 0 || value > 1'000'000)
      bad_argument(op, "device", object, kExpected);
    index = static_cast<int>(value);
  } else if (const auto text = text_from_python(object)) {
    if (*text == "cpu") return {DeviceKind::kCpu, 0};
    if (!text->starts_with("cuda")) bad_argument(op, "device", object, kExpected);
    if (text->size() > 4) {
      const char* end = text->data() + text->size();
      const auto parsed = std::from_chars(text->data() + 5, end, index);
      if ((*text)[4] != ':' || parsed.ec != std::errc() || parsed.ptr != end)
        bad_argument(op, "device", object, kExpected);
    }
  } else {
    bad_argument(op, "device", object, kExpected);
  }
  const Device device{DeviceKind::kCuda, index};
  device_traits(device);  // throws when it does not exist
  return device;
}

std::shared_ptr<Stream> stream_from_python(py::handle object, Device device, const char* op) {
  if (object.is_none()) return current_stream(device);
  if (py::isinstance<Stream>(object)) return object.cast<std::shared_ptr<Stream>>();
  constexpr const char* kExpected = "a Stream, a handle or an object with __cuda_stream__";
  std::shared_ptr<void> owner;
  py::object handle;
  if (has_attribute(object, "__cuda_stream__")) {
    // The protocol: a pair of its version, 0, and the handle.
    const py::object pair = object.attr("__cuda_stream__")();
    if (!py::isinstance<py::tuple>(pair) || py::len(pair) != 2 ||
        !py::object(pair[py::int_(0)]).equal(py::int_(0)))
      bad_argument(op, "stream", object, "its __cuda_stream__() to return (0, handle)");
    handle = pair[py::int_(1)];
    owner = keep_alive(object);
  } else {
    handle = py::reinterpret_borrow<py::object>(object);
  }
  if (!PyLong_Check(handle.ptr()) || PyBool_Check(handle.ptr()))
    bad_argument(op, "stream", object, kExpected);
  const std::size_t value = PyLong_AsSize_t(handle.ptr());
  if (PyErr_Occurred() != nullptr) {
    clear_if(PyExc_OverflowError);
    bad_argument(op, "stream", object, kExpected);
  }
  if (value == 0 || value == 1) return Stream::default_for(device);  // the legacy default stream
  return Stream::wrap(device, value, std::move(owner));
}

}  // namespace gpk::bind

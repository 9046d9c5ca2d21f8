#include "bindings/operand.h"

#include <pybind11/complex.h>

#include <complex>
#include <limits>

#include "base/error.h"
#include "base/text.h"
#include "bindings/array_object.h"
#include "bindings/convert.h"
#include "core/promote.h"
#include "device/host_copy.h"

namespace gpk::bind {
namespace {

// NumPy scalars have dtype, shape () and item().
std::optional<ops::Operand> numpy_operand(py::handle object, const char* op) {
  if (!has_attribute(object, "dtype") || !has_attribute(object, "item") ||
      !has_attribute(object, "shape") || !py::isinstance<py::tuple>(object.attr("shape")) ||
      py::len(object.attr("shape")) != 0)
    return std::nullopt;
  const DType dtype = dtype_from_python(object.attr("dtype"), op);
  py::object value = object.attr("item")();
  if (!PyBool_Check(value.ptr()) && !PyLong_Check(value.ptr()) && !PyFloat_Check(value.ptr()) &&
      !PyComplex_Check(value.ptr()))
    value = value.attr("__float__")();  // ml_dtypes
  if (const auto scalar = scalar_from_python(value, op)) return ops::Operand(*scalar, dtype);
  return std::nullopt;
}

template <class T>
T read(const unsigned char* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

py::object element(DType dtype, const unsigned char* bytes) {
  switch (dtype) {
    case DType::kBool: return py::bool_(bytes[0] != 0);
    case DType::kInt8: return py::int_(read<std::int8_t>(bytes));
    case DType::kInt16: return py::int_(read<std::int16_t>(bytes));
    case DType::kInt32: return py::int_(read<std::int32_t>(bytes));
    case DType::kInt64: return py::int_(read<std::int64_t>(bytes));
    case DType::kUInt8: return py::int_(read<std::uint8_t>(bytes));
    case DType::kUInt16: return py::int_(read<std::uint16_t>(bytes));
    case DType::kUInt32: return py::int_(read<std::uint32_t>(bytes));
    case DType::kUInt64: return py::int_(read<std::uint64_t>(bytes));
    case DType::kFloat16: return py::float_(from_float16(read<std::uint16_t>(bytes)));
    case DType::kBFloat16:
      return py::float_(std::bit_cast<float>(std::uint32_t{read<std::uint16_t>(bytes)} << 16));
    case DType::kFloat32: return py::float_(read<float>(bytes));
    case DType::kFloat64: return py::float_(read<double>(bytes));
    case DType::kComplex64: return py::cast(std::complex<double>(read<std::complex<float>>(bytes)));
    default: return py::cast(read<std::complex<double>>(bytes));
  }
}

bool compares(ops::OpId id) {
  using enum ops::OpId;
  return id == less || id == less_equal || id == greater || id == greater_equal || id == equal ||
         id == not_equal;
}

// An integer of more than 64 bits beside an array of this dtype.
std::optional<Scalar> large_integer(PyObject* object, DType beside, bool compared) {
  if (!PyLong_Check(object)) return std::nullopt;
  if (is_float(beside) || is_complex(beside)) {
    const double value = PyLong_AsDouble(object);
    if (PyErr_Occurred() == nullptr) return Scalar(value);
    clear_if(PyExc_OverflowError);
  }
  if (!compared) return std::nullopt;
  int sign = 0;
  PyLong_AsLongLongAndOverflow(object, &sign);
  return Scalar(sign * std::numeric_limits<double>::infinity());
}

}  // namespace

std::optional<ops::Operand> operand_from_python(PyObject* object, const char* op) {
  if (is_array(object)) return ops::Operand(array_of(object));
  const bool plain = PyFloat_CheckExact(object) || PyLong_CheckExact(object) ||
                     PyBool_Check(object) || PyComplex_CheckExact(object);
  if (!plain) {
    if (auto found = numpy_operand(object, op)) return found;
    if (!PyFloat_Check(object) && !PyLong_Check(object) && !PyComplex_Check(object))
      return std::nullopt;
  }
  if (const auto scalar = scalar_from_python(object, op)) return ops::Operand(*scalar);
  return std::nullopt;
}

std::optional<ops::Operand> operand_beside(PyObject* object, PyObject* other, ops::OpId id) {
  const char* op = ops::elementwise_op(id).name;
  try {
    return operand_from_python(object, op);
  } catch (const InvalidArgument& error) {
    if (error.kind() != InvalidArgument::Kind::kOverflow || !is_array(other)) throw;
    if (const auto found = large_integer(object, array_of(other).dtype(), compares(id)))
      return ops::Operand(*found);
    throw;
  }
}

ops::Operand require_operand(PyObject* object, const char* op, const char* argument) {
  if (const auto found = operand_from_python(object, op)) return *found;
  bad_argument(op, argument, object, "a GPUArray or a number");
}

ListOperands::ListOperands(const Arguments& args, int count) : device_(default_device()) {
  for (int i = count - 1; i >= 0; --i) {
    if (is_array(args[i].ptr())) device_ = array_of(args[i].ptr()).device();
    if (is_array(args[i].ptr()) || is_list(args[i].ptr())) numbers_only_ = false;
  }
}

ops::Operand ListOperands::operator()(const Arguments& args, int i) {
  if (!is_list(args[i].ptr())) {
    const ops::Operand given = require_operand(args[i].ptr(), args.op(), args.name(i));
    if (!numbers_only_) return given;
  }
  try {
    return made_.emplace_back(from_numpy(args[i], device_));
  } catch (const InvalidArgument&) {  // its dtype
  } catch (py::error_already_set& error) {
    if (!error.matches(PyExc_TypeError) && !error.matches(PyExc_ValueError)) throw;
  }
  args.refuse(i, "a GPUArray, a number or a list of numbers");
}

PyObject* call_elementwise(ops::OpId id, std::span<const ops::Operand> operands, const Array* out,
                           PyObject* out_object) {
  std::optional<Array> result;
  {
    const BrieflyWithoutGil released;
    result = ops::run_elementwise(id, operands, out);
  }
  if (out != nullptr) return Py_NewRef(out_object);
  return make_array_object(std::move(*result));
}

py::object item_of(const Array& array, const char* op) {
  if (array.size() != 1)
    throw InvalidArgument(
        cat(op, ": can only convert an array of size 1 to a Python scalar, the shape is ",
            to_string(array.shape())));
  if (info(array.dtype()).cuda_name == nullptr) return to_numpy(array).attr("item")();
  unsigned char bytes[16] = {};
  {
    const WithoutGil released;
    device::to_host(array, bytes);
  }
  return element(array.dtype(), bytes);
}

}  // namespace gpk::bind

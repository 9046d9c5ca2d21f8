// Creation of arrays.
#include <pybind11/complex.h>

#include "bindings/array_object.h"
#include "bindings/axes.h"
#include "bindings/bind.h"
#include "bindings/convert.h"
#include "bindings/errors.h"
#include "bindings/fast_call.h"
#include "core/error.h"
#include "core/promote.h"
#include "core/text.h"
#include "ops/creation/eye.h"
#include "ops/creation/ramp.h"
#include "ops/creation/triangle.h"
#include "ops/elementwise/copy.h"
#include "ops/elementwise/fill.h"

namespace gpk::bind {
namespace {

DType dtype_or(py::handle dtype, DType otherwise, const char* op) {
  return dtype.is_none() ? otherwise : dtype_from_python(dtype, op);
}

Array make_full(py::handle shape, const Scalar& value, py::handle dtype, py::handle device,
                const char* op) {
  const Dims dims = shape_from_python(shape, op);
  const DType type = dtype_or(dtype, DType::kFloat32, op);
  const Device target = device_from_python(device, op);
  const WithoutGil released;
  return ops::full(dims, value, type, target, op);
}

Scalar number(py::handle value, const char* op, const char* argument) {
  if (const auto scalar = scalar_from_python(value, op)) return *scalar;
  throw InvalidArgument(InvalidArgument::Kind::kType,
                        cat(op, ": ", argument, " is ", safe_repr(value), ", expected a number"));
}

Array make_full_of(py::handle shape, py::handle value, py::handle dtype, py::handle device) {
  if (is_array(value.ptr())) {  // stays where it is: no transfer
    const Array& source = array_of(value.ptr());
    const Dims dims = shape_from_python(shape, "full");
    const DType type = dtype_or(dtype, source.dtype(), "full");
    const Device target = device.is_none() ? source.device() : device_from_python(device, "full");
    const WithoutGil released;
    Array result = Array::empty(dims, type, target, "full");
    ops::copy_into(result, source, "full");
    return result;
  }
  const Scalar scalar = number(value, "full", "fill_value");
  if (!dtype.is_none()) return make_full(shape, scalar, dtype, device, "full");
  const auto natural =
      has_attribute(value, "dtype")
          ? py::object(value.attr("dtype"))
          : py::reinterpret_borrow<py::object>(dtype_object(default_dtype(scalar)));
  return make_full(shape, scalar, natural, device, "full");
}

Array make_arange(py::handle count, py::handle start, py::handle step, py::handle dtype,
                  py::handle device) {
  const std::int64_t n = int_from_python(count, "arange", "the number of elements");
  const Scalar from = number(start, "arange", "start");
  const Scalar by = number(step, "arange", "step");
  const DType type = dtype_from_python(dtype, "arange");
  const Device target = device_from_python(device, "arange");
  const WithoutGil released;
  return ops::arange(n, from, by, type, target);
}

Array make_linspace(std::complex<double> start, std::complex<double> stop, py::handle num,
                    bool endpoint, py::handle dtype, py::handle device) {
  const std::int64_t n = int_from_python(num, "linspace", "num");
  const DType type = dtype_from_python(dtype, "linspace");
  const Device target = device_from_python(device, "linspace");
  const WithoutGil released;
  return ops::linspace(start, stop, n, endpoint, type, target);
}

Array make_eye(py::handle rows, py::handle cols, py::handle k, py::handle dtype,
               py::handle device) {
  const std::int64_t num_rows = int_from_python(rows, "eye", "n_rows");
  const std::int64_t num_cols = cols.is_none() ? num_rows : int_from_python(cols, "eye", "n_cols");
  const std::int64_t diagonal = int_from_python(k, "eye", "k");
  const DType type = dtype_or(dtype, DType::kFloat32, "eye");
  const Device target = device_from_python(device, "eye");
  const WithoutGil released;
  return ops::eye(num_rows, num_cols, diagonal, type, target);
}

// zeros, ones and full by the fast calling convention, with a signature that Python can inspect.

constexpr const char* kFilledNames[] = {"shape", "dtype", "device"};
constexpr const char* kFullNames[] = {"shape", "fill_value", "dtype", "device"};
const FastSignature kZeros = {"zeros", kFilledNames, 2, 0, 1};
const FastSignature kOnes = {"ones", kFilledNames, 2, 0, 1};
const FastSignature kFull = {"full", kFullNames, 3, 0, 2};

py::handle or_none(PyObject* slot) { return slot == nullptr ? Py_None : slot; }

PyObject* filled(const FastSignature& signature, const Scalar& value, PyObject* const* args,
                 Py_ssize_t num_args, PyObject* keywords) {
  return guarded<>(static_cast<PyObject*>(nullptr), [&] {
    PyObject* slots[3];
    bind_arguments(signature, args, num_args, keywords, slots);
    return make_array_object(
        make_full(slots[0], value, or_none(slots[1]), or_none(slots[2]), signature.function));
  });
}

PyObject* zeros(PyObject*, PyObject* const* args, Py_ssize_t num_args, PyObject* keywords) {
  return filled(kZeros, Scalar(std::int64_t{0}), args, num_args, keywords);
}

PyObject* ones(PyObject*, PyObject* const* args, Py_ssize_t num_args, PyObject* keywords) {
  return filled(kOnes, Scalar(true), args, num_args, keywords);
}

PyObject* full(PyObject*, PyObject* const* args, Py_ssize_t num_args, PyObject* keywords) {
  return guarded<>(static_cast<PyObject*>(nullptr), [&] {
    PyObject* slots[4];
    bind_arguments(kFull, args, num_args, keywords, slots);
    return make_array_object(
        make_full_of(slots[0], slots[1], or_none(slots[2]), or_none(slots[3])));
  });
}

template <auto function>
PyMethodDef method(const char* name, const char* doc) {
  return {name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function)),
          METH_FASTCALL | METH_KEYWORDS, doc};
}

void bind_filled(py::module_& m) {
  static PyMethodDef functions[] = {
      method<zeros>("zeros",
                    "zeros(shape, dtype=None, *, device=None)\n--\n\nA new array of zeros; float32 "
                    "unless `dtype` says otherwise."),
      method<ones>("ones",
                   "ones(shape, dtype=None, *, device=None)\n--\n\nA new array of ones; float32 "
                   "unless `dtype` says otherwise."),
      method<full>("full",
                   "full(shape, fill_value, dtype=None, *, device=None)\n--\n\nA new array with "
                   "every element fill_value, of its dtype: Python numbers give bool, int64, "
                   "float32 or complex64."),
  };
  for (PyMethodDef& function : functions) add_function(m, &function, py::none());
  m.def(
      "from_numpy",
      [](py::handle array, py::handle where) {
        return from_numpy(array, device_from_python(where, "from_numpy"));
      },
      py::arg("array"), py::kw_only(), py::arg("device") = py::none(),
      "A new array with a copy of a NumPy array's contents (anything numpy.asarray takes).");
}

}  // namespace

void bind_array(py::module_& m) {
  bind_filled(m);
  m.def("arange", make_arange, py::arg("count"), py::arg("start"), py::arg("step"),
        py::arg("dtype"), py::arg("device") = py::none(), "start + i * step for i below count.");
  m.def("linspace", make_linspace, py::arg("start"), py::arg("stop"), py::arg("num"),
        py::arg("endpoint"), py::arg("dtype"), py::arg("device") = py::none(),
        "num numbers from start to stop.");
  m.def("eye", make_eye, py::arg("n_rows"), py::arg("n_cols") = py::none(), py::arg("k") = 0,
        py::arg("dtype") = py::none(), py::arg("device") = py::none(),
        "Ones on a diagonal, zeros elsewhere.");
  m.def(
      "diagflat",
      [](const Array& x, py::handle k) {
        const std::int64_t diagonal = int_from_python(k, "diagflat", "k");
        const WithoutGil released;
        return ops::diagflat(x, diagonal, "diagflat");
      },
      py::arg("x"), py::arg("k") = 0, "A square matrix with these elements on a diagonal.");
  m.def(
      "tril",
      [](const Array& x, py::handle k) {
        const std::int64_t diagonal = int_from_python(k, "tril", "k");
        const WithoutGil released;
        return ops::tril(x, diagonal);
      },
      py::arg("x"), py::arg("k") = 0, "The lower triangle of matrices, zero elsewhere.");
  m.def(
      "triu",
      [](const Array& x, py::handle k) {
        const std::int64_t diagonal = int_from_python(k, "triu", "k");
        const WithoutGil released;
        return ops::triu(x, diagonal);
      },
      py::arg("x"), py::arg("k") = 0, "The upper triangle of matrices, zero elsewhere.");
}

}  // namespace gpk::bind

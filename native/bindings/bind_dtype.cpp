// DataType: one object per element type.
#include "base/error.h"
#include "base/text.h"
#include "bindings/array_object.h"
#include "bindings/bind.h"
#include "bindings/convert.h"
#include "bindings/operand.h"

namespace gpk::bind {
namespace {

PyObject* g_dtypes[kNumDTypes];

// A property of the NumPy dtype.
template <class Result>
auto numpy_property(const char* name) {
  return [name](const DTypeInfo& d) { return numpy_dtype(d.dtype).attr(name).cast<Result>(); };
}

// As NumPy compares dtypes: with anything that names one.
bool equals(const DTypeInfo& a, py::handle b) {
  if (b.ptr() == dtype_object(a.dtype)) return true;
  if (py::isinstance<DTypeInfo>(b) || b.is_none()) return false;
  const bool names_one = PyUnicode_Check(b.ptr()) != 0 || PyType_Check(b.ptr()) != 0 ||
                         std::string_view(Py_TYPE(b.ptr())->tp_name).starts_with("numpy.dtype");
  return names_one && find_dtype(b) == a.dtype;
}

// The scalar of a number: gp.float32(3) is numpy.float32(3), which has a dtype and no device.
py::object make_scalar(const DTypeInfo& d, py::object value) {
  if (is_array(value.ptr())) value = item_of(array_of(value.ptr()), d.name);
  if (!PyBool_Check(value.ptr()) && !PyLong_Check(value.ptr()) && !PyFloat_Check(value.ptr()) &&
      !PyComplex_Check(value.ptr()) && !scalar_from_python(value, d.name))
    bad_argument(d.name, "value", value, "a number; asarray(values, dtype) makes arrays");
  return numpy_dtype(d.dtype).attr("type")(value);
}

const DTypeInfo& from_python(py::handle object) {
  return info(dtype_from_python(object, "DataType"));
}

[[noreturn]] void refuse_assignment(const DTypeInfo&, const std::string& name, py::handle) {
  const py::object type = py::module_::import("dataclasses").attr("FrozenInstanceError");
  py::set_error(type, cat("cannot assign to field '", name, "'").c_str());
  throw py::error_already_set();
}

}  // namespace

PyObject* dtype_object(DType dtype) { return g_dtypes[static_cast<std::size_t>(dtype)]; }

void bind_dtype(py::module_& m) {
  // nodelete: the rows of the dtype table live as long as the process.
  py::class_<DTypeInfo, std::unique_ptr<DTypeInfo, py::nodelete>> type(
      m, "DataType", "An element type, such as pygpukit.float32.");
  const auto reference = py::return_value_policy::reference;
  type.def_property_readonly(
          "name", [](const DTypeInfo& d) { return d.name; }, "Public name.")
      .def_property_readonly(
          "itemsize", [](const DTypeInfo& d) { return itemsize(d.dtype); },
          "Bytes of one element (1 for four-bit types, which share bytes).")
      .def_property_readonly(
          "bits", [](const DTypeInfo& d) { return d.bits; }, "Bits of one element.")
      .def_property_readonly("kind", numpy_property<std::string>("kind"),
                             "NumPy's letter: b, i, u, f, c, and what ml_dtypes has.")
      .def_property_readonly("char", numpy_property<std::string>("char"), "NumPy's character code.")
      .def_property_readonly("str", numpy_property<std::string>("str"),
                             "NumPy's type string, such as '<f4'.")
      .def_property_readonly("alignment", numpy_property<int>("alignment"), "Bytes.")
      .def_property_readonly("type", numpy_property<py::object>("type"),
                             "The class of NumPy scalars, such as numpy.float32.")
      .def_property_readonly(
          "dtype", [](const DTypeInfo& d) { return numpy_dtype(d.dtype); },
          "The numpy.dtype: numpy.dtype(gp.float32) looks here.")
      .def_property_readonly("__numpy_dtype__",
                             [](const DTypeInfo& d) { return numpy_dtype(d.dtype); })
      .def(
          "to_numpy_dtype", [](const DTypeInfo& d) { return numpy_dtype(d.dtype); },
          "The numpy.dtype; an ml_dtypes type where NumPy has none.")
      .def_static("from_numpy_dtype", from_python, py::arg("dtype"), reference,
                  "The DataType of a NumPy dtype.")
      .def_static("from_string", from_python, py::arg("name"), reference,
                  "The DataType of that name.")
      .def("__str__", [](const DTypeInfo& d) { return d.name; })
      .def("__repr__", [](const DTypeInfo& d) { return cat("DataType(", d.name, ")"); })
      // Equal to the numpy.dtype, so with its hash.
      .def("__hash__", [](const DTypeInfo& d) { return py::hash(numpy_dtype(d.dtype)); })
      .def("__eq__", equals)
      .def("__call__", make_scalar, py::arg("value") = 0, py::pos_only(),
           "A NumPy scalar of this dtype.")
      // A plain name: pickle and copy look the object up in this module.
      .def("__reduce__", [](const DTypeInfo& d) { return d.name; })
      .def("__setattr__", refuse_assignment);
  for (const DTypeInfo& row : detail::kDTypes) {
    py::object object = py::cast(&row, reference);
    m.attr(row.name) = object;
    g_dtypes[static_cast<std::size_t>(row.dtype)] = object.release().ptr();
  }
}

}  // namespace gpk::bind

// DataType: one object per element type.
#include "base/error.h"
#include "base/text.h"
#include "bindings/bind.h"
#include "bindings/convert.h"

namespace gpk::bind {
namespace {

PyObject* g_dtypes[kNumDTypes];

py::object kind_of(const DTypeInfo& dtype) {
  return py::module_::import("pygpukit.core.dtypes").attr("DataTypeKind")(dtype.name);
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
      .def_property_readonly("kind", kind_of, "The DataTypeKind.")
      .def(
          "to_numpy_dtype", [](const DTypeInfo& d) { return numpy_dtype(d.dtype); },
          "The numpy.dtype; an ml_dtypes type where NumPy has none.")
      .def_static("from_numpy_dtype", from_python, py::arg("dtype"), reference,
                  "The DataType of a NumPy dtype.")
      .def_static("from_string", from_python, py::arg("name"), reference,
                  "The DataType of that name.")
      .def("__str__", [](const DTypeInfo& d) { return d.name; })
      .def("__repr__", [](const DTypeInfo& d) { return cat("DataType(", d.name, ")"); })
      .def("__hash__", [](const DTypeInfo& d) { return static_cast<int>(d.dtype) + 1; })
      .def("__eq__",
           [](const DTypeInfo& a, py::handle b) {
             return py::isinstance<DTypeInfo>(b) && b.cast<const DTypeInfo&>().dtype == a.dtype;
           })
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

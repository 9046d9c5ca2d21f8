#include "bindings/guard.h"

#include "base/error.h"

namespace gpk::bind {
namespace {

// pybind11 allocates here when an object without a value is used as an argument, and would pass
// that memory on as if it held one.
void* refuse_value(std::size_t /*bytes*/) {
  throw InvalidArgument(InvalidArgument::Kind::kType, kUnconstructed);
}

// pybind11_object, the base of all classes, cannot be constructed, and trying aborts the process.
// copyreg calls it with the object to be pickled (protocols 0 and 1, __reduce__).
PyObject* call_type(PyObject* type, PyObject* args, PyObject* kwargs) {
  PyObject* base = py::detail::get_internals().instance_base;
  if (type != base) return py::detail::pybind11_meta_call(type, args, kwargs);
  const bool pickles = PyTuple_GET_SIZE(args) == 1;
  const PyTypeObject* given = Py_TYPE(pickles ? PyTuple_GET_ITEM(args, 0) : base);
  PyErr_Format(PyExc_TypeError,
               pickles ? "cannot pickle '%.200s' object" : "cannot create '%.200s' instances",
               pickles ? given->tp_name : reinterpret_cast<PyTypeObject*>(base)->tp_name);
  return nullptr;
}

}  // namespace

void guard_classes(const py::module_& m) {
  py::detail::get_internals().default_metaclass->tp_call = call_type;
  for (const auto& [name, value] : py::dict(m.attr("__dict__"))) {
    if (PyType_Check(value.ptr()) == 0) continue;
    py::detail::type_info* type =
        py::detail::get_type_info(reinterpret_cast<PyTypeObject*>(value.ptr()));
    if (type != nullptr) type->operator_new = refuse_value;
  }
}

}  // namespace gpk::bind

#include "bindings/tracer.h"

#include "bindings/array_object.h"

namespace gpk::bind {

bool is_tracer(PyObject* object) {
  static PyObject* const name = PyUnicode_InternFromString("_elementwise");
  if (is_array(object) || PyFloat_CheckExact(object) || PyLong_CheckExact(object)) return false;
  return _PyType_Lookup(Py_TYPE(object), name) != nullptr;
}

PyObject* find_tracer(const Arguments& args, int count) {
  for (int i = 0; i < count; ++i)
    if (is_tracer(args[i].ptr())) return args[i].ptr();
  return nullptr;
}

PyObject* record_elementwise(PyObject* tracer, const Arguments& args, int arity) {
  py::tuple operands(arity);
  for (int i = 0; i < arity; ++i)
    operands[static_cast<std::size_t>(i)] = py::reinterpret_borrow<py::object>(args[i]);
  return py::handle(tracer).attr("_elementwise")(args.op(), operands).release().ptr();
}

PyObject* record_row_op(PyObject* tracer, const Arguments& args) {
  py::dict arguments;
  for (int i = 0; i < args.size(); ++i)
    arguments[args.name(i)] = py::reinterpret_borrow<py::object>(args[i]);
  return py::handle(tracer).attr("_row_op")(args.op(), arguments).release().ptr();
}

}  // namespace gpk::bind

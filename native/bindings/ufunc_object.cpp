#include "bindings/ufunc_object.h"

#include <structmember.h>

#include <cstddef>

#include "bindings/errors.h"

namespace gpk::bind {
namespace {

PyTypeObject* g_ufunc_type = nullptr;

struct UfuncObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  const OpFunction* function;
  PyObject* wrapped;  // the plain function, which knows its signature
  int nin;
};

UfuncObject* ufunc_of(PyObject* self) { return reinterpret_cast<UfuncObject*>(self); }

PyObject* call_ufunc(PyObject* self, PyObject* const* args, std::size_t nargsf,
                     PyObject* keywords) {
  return guarded<>(static_cast<PyObject*>(nullptr), [&] {
    const OpFunction& function = *ufunc_of(self)->function;
    return function.call(Arguments(function.signature, args, PyVectorcall_NARGS(nargsf), keywords));
  });
}

void ufunc_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  Py_XDECREF(ufunc_of(self)->wrapped);
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* ufunc_name(PyObject* self, void*) {
  return PyUnicode_FromString(ufunc_of(self)->function->signature.function());
}

PyObject* ufunc_doc(PyObject* self, void*) {
  return PyObject_GetAttrString(ufunc_of(self)->wrapped, "__doc__");
}

PyObject* ufunc_wrapped(PyObject* self, void*) { return Py_NewRef(ufunc_of(self)->wrapped); }

PyObject* ufunc_nin(PyObject* self, void*) { return PyLong_FromLong(ufunc_of(self)->nin); }

PyObject* ufunc_nout(PyObject*, void*) { return PyLong_FromLong(1); }

PyObject* ufunc_repr(PyObject* self) {
  return PyUnicode_FromFormat("<ufunc '%s'>", ufunc_of(self)->function->signature.function());
}

// Pickled by name, as functions are.
PyObject* ufunc_reduce(PyObject* self, PyObject*) { return ufunc_name(self, nullptr); }

PyGetSetDef g_ufunc_getset[] = {
    {"__name__", ufunc_name, nullptr, nullptr, nullptr},
    {"__qualname__", ufunc_name, nullptr, nullptr, nullptr},
    {"__doc__", ufunc_doc, nullptr, nullptr, nullptr},
    {"__wrapped__", ufunc_wrapped, nullptr, nullptr, nullptr},
    {"nin", ufunc_nin, nullptr, "Number of operands.", nullptr},
    {"nout", ufunc_nout, nullptr, "Number of results: 1.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMethodDef g_ufunc_methods[] = {
    {"__reduce__", ufunc_reduce, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyMemberDef g_ufunc_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(UfuncObject, vectorcall), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot g_ufunc_slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(ufunc_dealloc)},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_repr, reinterpret_cast<void*>(ufunc_repr)},
    {Py_tp_getset, g_ufunc_getset},
    {Py_tp_methods, g_ufunc_methods},
    {Py_tp_members, g_ufunc_members},
    {0, nullptr},
};

PyType_Spec g_ufunc_spec = {
    "pygpukit._native.ufunc", static_cast<int>(sizeof(UfuncObject)), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    g_ufunc_slots};

}  // namespace

void bind_ufunc_type(py::module_& m) {
  PyObject* type = PyType_FromSpec(&g_ufunc_spec);
  if (type == nullptr) throw py::error_already_set();
  m.attr("ufunc") = py::reinterpret_borrow<py::object>(type);
  g_ufunc_type = reinterpret_cast<PyTypeObject*>(type);
}

void add_ufunc(py::module_& m, const OpFunction& function, int num_operands) {
  const char* name = function.signature.function();
  auto* object = reinterpret_cast<UfuncObject*>(g_ufunc_type->tp_alloc(g_ufunc_type, 0));
  if (object == nullptr) throw py::error_already_set();
  object->vectorcall = call_ufunc;
  object->function = &function;
  object->wrapped = py::object(m.attr(name)).release().ptr();
  object->nin = num_operands;
  m.attr(name) = py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(object));
}

}  // namespace gpk::bind

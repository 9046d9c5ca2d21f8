#include "bindings/array_object.h"

#include <structmember.h>

#include <cstddef>

#include "base/error.h"
#include "base/text.h"
#include "bindings/array_index.h"
#include "bindings/array_operators.h"
#include "bindings/convert.h"
#include "bindings/errors.h"
#include "bindings/made_resources.h"
#include "bindings/operand.h"
#include "core/memory.h"
#include "core/stream.h"
#include "ops/elementwise/copy.h"

namespace gpk::bind {
namespace {

PyTypeObject* g_type = nullptr;

void dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  if (reinterpret_cast<ArrayObject*>(self)->weak_references != nullptr)
    PyObject_ClearWeakRefs(self);
  array_of(self).~Array();
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* refuse_new(PyTypeObject*, PyObject*, PyObject*) {
  PyErr_SetString(PyExc_TypeError,
                  "GPUArray: use zeros, ones, empty, full or from_numpy to create an array");
  return nullptr;
}

PyObject* repr(PyObject* self) {
  return guarded<>(static_cast<PyObject*>(nullptr), [&] {
    const Array& a = array_of(self);
    const std::string text =
        cat("GPUArray(shape=", to_string(a.shape()), ", dtype=", name(a.dtype()),
            ", backend=", a.device().is_cuda() ? "native" : "simulation", ")");
    return PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
  });
}

Py_ssize_t length(PyObject* self) {
  const Array& a = array_of(self);
  if (a.ndim() == 0) {
    PyErr_SetString(PyExc_TypeError, "len() of unsized object");
    return -1;
  }
  return static_cast<Py_ssize_t>(a.shape()[0]);
}

// --- attributes ---------------------------------------------------------------------------------

PyObject* get_shape(PyObject* self, void*) {
  return guarded<>(static_cast<PyObject*>(nullptr),
                   [&] { return to_tuple(array_of(self).shape()).release().ptr(); });
}

PyObject* get_strides(PyObject* self, void*) {
  return guarded<>(static_cast<PyObject*>(nullptr), [&] {
    Dims bytes = array_of(self).strides();
    const auto item = static_cast<std::int64_t>(itemsize(array_of(self).dtype()));
    for (int i = 0; i < bytes.size(); ++i) bytes[i] *= item;
    return to_tuple(bytes).release().ptr();
  });
}

PyObject* get_dtype(PyObject* self, void*) {
  return Py_NewRef(dtype_object(array_of(self).dtype()));
}
PyObject* get_size(PyObject* self, void*) { return PyLong_FromLongLong(array_of(self).size()); }
PyObject* get_ndim(PyObject* self, void*) { return PyLong_FromLong(array_of(self).ndim()); }
// Exact even for a broadcast view of more than 2**64 bytes.
PyObject* get_nbytes(PyObject* self, void*) {
  const Array& array = array_of(self);
  if (array.size() <= (std::int64_t{1} << 58)) return PyLong_FromSize_t(array.nbytes());
  if (info(array.dtype()).bits < 8) return PyLong_FromLongLong(array.size() / 2 + array.size() % 2);
  return guarded<>(static_cast<PyObject*>(nullptr), [&] {
    return (py::int_(array.size()) * py::int_(itemsize(array.dtype()))).release().ptr();
  });
}
PyObject* get_itemsize(PyObject* self, void*) {
  return PyLong_FromSize_t(itemsize(array_of(self).dtype()));
}
PyObject* get_device_ptr(PyObject* self, void*) {
  return guarded<>(static_cast<PyObject*>(nullptr), [&] {
    array_of(self).buffer()->expose();
    return PyLong_FromVoidPtr(array_of(self).data());
  });
}
PyObject* get_on_gpu(PyObject* self, void*) {
  return PyBool_FromLong(array_of(self).device().is_cuda() ? 1 : 0);
}
PyObject* get_device(PyObject* self, void*) {
  return guarded<>(static_cast<PyObject*>(nullptr), [&] {
    return PyUnicode_FromString(to_string(array_of(self).device()).c_str());
  });
}

// --- methods ------------------------------------------------------------------------------------

PyObject* method_to_numpy(PyObject* self, PyObject*) {
  return guarded<>(static_cast<PyObject*>(nullptr),
                   [&] { return to_numpy(array_of(self)).release().ptr(); });
}

PyObject* method_is_contiguous(PyObject* self, PyObject*) {
  return PyBool_FromLong(array_of(self).is_contiguous() ? 1 : 0);
}

PyObject* method_contiguous(PyObject* self, PyObject*) {
  if (array_of(self).is_contiguous()) return Py_NewRef(self);
  return guarded<>(static_cast<PyObject*>(nullptr), [&] {
    std::optional<Array> result;
    {
      const BrieflyWithoutGil released;
      result = ops::contiguous(array_of(self), "contiguous");
    }
    return make_array_object(std::move(*result));
  });
}

PyObject* method_clone(PyObject* self, PyObject*) {
  return guarded<>(static_cast<PyObject*>(nullptr), [&] {
    const Array& a = array_of(self);
    std::optional<Array> result;
    {
      const BrieflyWithoutGil released;
      result = ops::copy_as(a, a.dtype(), "clone");
    }
    return make_array_object(std::move(*result));
  });
}

PyObject* method_array(PyObject*, PyObject*) {
  return guarded<>(static_cast<PyObject*>(nullptr), []() -> PyObject* {
    throw InvalidArgument(InvalidArgument::Kind::kType,
                          "GPUArray: implicit conversion to a NumPy array; call to_numpy()");
  });
}

PyObject* method_complex(PyObject* self, PyObject*) {
  return guarded<>(static_cast<PyObject*>(nullptr), [&]() -> PyObject* {
    const py::object value = item_of(array_of(self), "complex");
    return PyObject_CallFunctionObjArgs(reinterpret_cast<PyObject*>(&PyComplex_Type), value.ptr(),
                                        nullptr);
  });
}

PyGetSetDef g_getset[] = {
    {"shape", get_shape, nullptr, "Sizes of the dimensions, a tuple.", nullptr},
    {"strides", get_strides, nullptr, "Byte strides, per dimension.", nullptr},
    {"dtype", get_dtype, nullptr, "Element type, a DataType.", nullptr},
    {"size", get_size, nullptr, "Number of elements.", nullptr},
    {"ndim", get_ndim, nullptr, "Number of dimensions.", nullptr},
    {"nbytes", get_nbytes, nullptr, "Bytes of all elements.", nullptr},
    {"itemsize", get_itemsize, nullptr, "Bytes of one element.", nullptr},
    {"device", get_device, nullptr, "'cuda:0' or 'cpu'.", nullptr},
    {"device_ptr", get_device_ptr, nullptr, "Address of the first element.", nullptr},
    {"on_gpu", get_on_gpu, nullptr, "True when the data is in GPU memory.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMethodDef g_methods[] = {
    {"to_numpy", method_to_numpy, METH_NOARGS,
     "to_numpy(self) -> numpy.ndarray\n\nA new host copy; waits only for this array's own work."},
    {"is_contiguous", method_is_contiguous, METH_NOARGS,
     "is_contiguous(self) -> bool\n\nTrue when the elements are in C order without gaps."},
    {"contiguous", method_contiguous, METH_NOARGS,
     "contiguous(self) -> GPUArray\n\nThis array if it is contiguous, else a contiguous copy."},
    {"clone", method_clone, METH_NOARGS, "clone(self) -> GPUArray\n\nA copy of the data."},
    {"__complex__", method_complex, METH_NOARGS,
     "__complex__(self) -> complex\n\nThe only element as a complex number."},
    {"__array__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(method_array)),
     METH_VARARGS | METH_KEYWORDS,
     "__array__(self, *args: object, **kwargs: object) -> typing.NoReturn\n\nRaises: transfers are "
     "explicit, call to_numpy()."},
    {nullptr, nullptr, 0, nullptr},
};

PyMemberDef g_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(ArrayObject, weak_references), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

std::vector<PyType_Slot> slots() {
  std::vector<PyType_Slot> all = {
      {Py_tp_doc, const_cast<char*>("An n-dimensional array on a GPU, or in host memory on the CPU "
                                    "simulation backend.")},
      {Py_tp_new, reinterpret_cast<void*>(refuse_new)},
      {Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
      {Py_tp_repr, reinterpret_cast<void*>(repr)},
      {Py_tp_getset, g_getset},
      {Py_tp_methods, g_methods},
      {Py_tp_members, g_members},
      {Py_sq_length, reinterpret_cast<void*>(length)},
      {Py_sq_item, reinterpret_cast<void*>(array_item)},
      {Py_mp_length, reinterpret_cast<void*>(length)},
      {Py_mp_subscript, reinterpret_cast<void*>(array_getitem)},
      {Py_mp_ass_subscript, reinterpret_cast<void*>(array_setitem)},
      {Py_tp_iter, reinterpret_cast<void*>(array_iter)},
  };
  for (const PyType_Slot* slot = array_operator_slots(); slot->slot != 0; ++slot)
    all.push_back(*slot);
  all.push_back({0, nullptr});
  return all;
}

}  // namespace

PyTypeObject* array_type() noexcept { return g_type; }

PyObject* make_array_object(Array array) {
  PyObject* object = g_type->tp_alloc(g_type, 0);
  if (object == nullptr) throw py::error_already_set();
  note_made("array", array.buffer(), array.buffer()->bytes());
  new (&reinterpret_cast<ArrayObject*>(object)->array) Array(std::move(array));
  return object;
}

void bind_array_type(py::module_& m) {
  std::vector<PyType_Slot> all = slots();
  PyType_Spec spec = {"pygpukit._native.GPUArray", static_cast<int>(sizeof(ArrayObject)), 0,
                      Py_TPFLAGS_DEFAULT, all.data()};
  PyObject* type = PyType_FromSpec(&spec);
  if (type == nullptr) throw py::error_already_set();
  g_type = reinterpret_cast<PyTypeObject*>(type);
  // None is what collections.abc.Hashable looks for. The slot keeps its message: setattr would not.
  if (PyDict_SetItemString(g_type->tp_dict, "__hash__", Py_None) < 0) throw py::error_already_set();
  m.attr("GPUArray") = py::reinterpret_steal<py::object>(type);
  Py_INCREF(type);  // g_type keeps its own reference
}

}  // namespace gpk::bind

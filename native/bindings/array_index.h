// a[key], a[key] = value, iteration: slots of GPUArray. Keys without arrays make no Python call and
// allocate nothing but the result.
#pragma once

#include <optional>

#include "bindings/python.h"
#include "core/array.h"
#include "ops/indexing/getitem.h"

namespace gpk::bind {

PyObject* array_getitem(PyObject* self, PyObject* key);
int array_setitem(PyObject* self, PyObject* key, PyObject* value);  // value NULL: del, refused

// Rows as views. sq_item enables iter(); 0-d arrays are refused.
PyObject* array_item(PyObject* self, Py_ssize_t index);
PyObject* array_iter(PyObject* self);

// A GPUArray, or host data (an integer, a list, a NumPy array) copied to `device`, as an array of
// integers or bools. Throws InvalidArgument.
Array index_from_python(py::handle object, Device device, const char* op);

// The coordinates of the nonzero elements: one int64 array per axis.
py::tuple nonzero_tuple(const Array& x, const char* op);

// Assignable values: a GPUArray, a NumPy array, a number, a (nested) list of numbers.
// An integer of NumPy's wraps around where it is too large for the array, as in NumPy.
ops::AssignValue value_from_python(py::handle object, const Array& array, const char* op);

}  // namespace gpk::bind

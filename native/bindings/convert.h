// Python values to C++ values and back: dtypes, shapes, scalars, devices, streams.
#pragma once

#include <optional>

#include "bindings/python.h"
#include "core/array.h"
#include "core/device.h"
#include "core/dtype.h"
#include "core/scalar.h"
#include "core/shape.h"
#include "core/stream.h"

namespace gpk::bind {

// The DataType object of a dtype (one object per dtype), borrowed.
PyObject* dtype_object(DType dtype);

// DataType, name (ours or one of NumPy's, such as "f4"), NumPy dtype or scalar type, bool / int /
// float / complex. Throws InvalidArgument.
DType dtype_from_python(py::handle object, const char* op);

// Same; nullopt for anything that is not a dtype.
std::optional<DType> find_dtype(py::handle object);

// Same; nullopt for None.
std::optional<DType> optional_dtype(py::handle object, const char* op);

// np.dtype of a dtype; an ml_dtypes type where NumPy has none.
py::object numpy_dtype(DType dtype);

// A snapshot of the items: conversions call Python code, which may modify the sequence.
py::tuple items_from_python(py::handle sequence);

// An int or a sequence of ints. Throws InvalidArgument.
Dims shape_from_python(py::handle object, const char* op, const char* argument = "shape");
py::tuple to_tuple(const Dims& dims);

// bool, int, float, complex and NumPy scalars of these; nullopt for anything else.
std::optional<Scalar> scalar_from_python(py::handle object, const char* op);

// The same for an array of this dtype: beside floats, integers of more than 64 bits are floats.
std::optional<Scalar> scalar_for_dtype(py::handle object, DType dtype, const char* op);

// True or False, of Python or NumPy; nullopt for anything else.
std::optional<bool> bool_from_python(py::handle object);

// The text of a str; nullopt for other objects, and for text with lone surrogates.
std::optional<std::string> text_from_python(py::handle object);

// None (the default device), "cpu", "cuda", "cuda:1", an int. Throws InvalidArgument.
Device device_from_python(py::handle object, const char* op);

// A Stream, an int handle or an object with __cuda_stream__; None is the current stream.
std::shared_ptr<Stream> stream_from_python(py::handle object, Device device, const char* op);

// A C-order NumPy array over an array's host memory, which it keeps alive. CPU arrays only.
py::object numpy_view(const Array& array);

// A list or a tuple: numbers in Python's hands, on no device.
inline bool is_list(PyObject* object) noexcept {
  return PyList_Check(object) || PyTuple_Check(object);
}

// What asarray() makes of a list of numbers: Python floats are float32, next to an array of float64
// or complex128 float64. On the device of `beside`, else the default one.
Array array_from_list(py::handle list, const Array* beside, const char* op, const char* argument);

// New NumPy array with the contents; new array from anything NumPy accepts.
py::object to_numpy(const Array& array);
Array from_numpy(py::handle object, Device device);

}  // namespace gpk::bind

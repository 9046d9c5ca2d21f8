// out= of a call: the given array, and the object returned for it.
#pragma once

#include <optional>

#include "bindings/array_object.h"
#include "bindings/python.h"

namespace gpk::bind {

// nullptr for None; else a GPUArray, or InvalidArgument (kType).
const Array* output_from_python(PyObject* object, const char* op);

// call(out as std::optional<Array>) without the GIL. Returns the caller's own object if `out` was
// given, else the result.
template <class Call>
py::object call_with_out(py::handle out, const char* op, const Call& call) {
  const Array* given = output_from_python(out.ptr(), op);
  const std::optional<Array> into = given != nullptr ? std::optional(*given) : std::nullopt;
  std::optional<Array> result;
  {
    const WithoutGil released;
    result = call(into);
  }
  if (into) return py::reinterpret_borrow<py::object>(out);
  return py::reinterpret_steal<py::object>(make_array_object(std::move(*result)));
}

}  // namespace gpk::bind

// out= of a call: the array that was given, and the object that comes back.
#pragma once

#include <optional>

#include "bindings/array_object.h"
#include "bindings/python.h"

namespace gpk::bind {

// nullptr for None; else a GPUArray, or InvalidArgument (kType).
const Array* output_from_python(PyObject* object, const char* op);

// call(out as std::optional<Array>) without the GIL. Returns the caller's own object where `out` is
// one, else the result.
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

// Results of ops that return several arrays.
#pragma once

#include "bindings/op_function.h"

namespace gpk::bind {

// The caller's own object where argument `i`, an out=, was given; else the array.
inline py::object given_object(const Arguments& args, int i, Array array) {
  return py::reinterpret_steal<py::object>(args.is_none(i) ? make_array_object(std::move(array))
                                                           : Py_NewRef(args[i].ptr()));
}

inline py::object array_result(Array array) {
  return py::reinterpret_steal<py::object>(make_array_object(std::move(array)));
}

}  // namespace gpk::bind

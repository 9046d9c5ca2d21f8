// Axes and other lists of integers from Python.
#pragma once

#include <optional>

#include "bindings/python.h"
#include "core/shape.h"

namespace gpk::bind {

// Anything with __index__. Throws InvalidArgument that names op and argument.
std::int64_t int_from_python(py::handle object, const char* op, const char* argument);

// One integer or a sequence of them.
Dims ints_from_python(py::handle object, const char* op, const char* argument);

// Same; nullopt for None.
std::optional<Dims> optional_ints(py::handle object, const char* op, const char* argument);
std::optional<std::int64_t> optional_int(py::handle object, const char* op, const char* argument);

}  // namespace gpk::bind

// Annotations in the signatures that pybind11 generates: "typing.SupportsInt | None".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bindings/python.h"

namespace gpk::bind {

struct Parameter {
  std::string_view name;
  std::string_view annotation;  // empty: none
};

// The parameters of "(x: GPUArray, *, axis: int = 0) -> object", without the markers * and /, and
// without *args and **kwargs. Views into `signature`.
std::vector<Parameter> parameters_of(std::string_view signature);

// Whether pybind11 accepts an object for an annotation. kUnknown where only the conversion itself
// can tell: an int may be out of range, an __index__ may raise.
enum class Fit { kNo, kUnknown, kYes };
Fit fits(std::string_view annotation, py::handle object);

// As a user would write it: "int | None".
std::string plain(std::string_view annotation);

}  // namespace gpk::bind

// Arguments of functions called through the C-API's fast calling convention: matched to slots by
// position and name without building tuples or dictionaries.
#pragma once

#include <span>

#include "bindings/python.h"

namespace gpk::bind {

struct FastSignature {
  const char* function;
  std::span<const char* const> names;
  int num_positional;       // the first ones may be given by position, the others by keyword only
  int num_positional_only;  // these cannot be given by keyword
  int num_required;
};

// Fills `slots` (one per name; nullptr where nothing was given). Throws InvalidArgument (kType)
// with the words Python uses.
void bind_arguments(const FastSignature& signature, PyObject* const* args, Py_ssize_t num_args,
                    PyObject* keyword_names, PyObject** slots);

// Adds a function to the module. `definition` has to live as long as the process; `self` is what
// the function gets as its first argument.
void add_function(py::module_& m, PyMethodDef* definition, const py::object& self);

}  // namespace gpk::bind

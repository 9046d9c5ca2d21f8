// Argument matching for functions called through the C API's fast calling convention: by position
// and name, without building tuples or dictionaries.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bindings/python.h"

namespace gpk::bind {

class FastSignature {
 public:
  static constexpr int kMaxArguments = 20;

  // `text` in Python syntax: "(x, /, axis=None, *, out=None)". Defaults are None, True, False,
  // numbers and strings in single quotes.
  FastSignature(std::string function, std::string_view text);

  [[nodiscard]] const char* function() const noexcept { return function_.c_str(); }
  [[nodiscard]] int size() const noexcept { return static_cast<int>(parameters_.size()); }
  [[nodiscard]] const char* name(int i) const noexcept { return at(i).text.c_str(); }
  [[nodiscard]] PyObject* default_of(int i) const noexcept { return at(i).otherwise; }
  // -1: no such argument.
  [[nodiscard]] int index(std::string_view name) const noexcept;

  // Fills `slots`, one per name, with the argument or the default, borrowed. Throws InvalidArgument
  // (kType) with Python's wording.
  void bind(PyObject* const* args, Py_ssize_t num_args, PyObject* keyword_names,
            PyObject** slots) const;

 private:
  struct Parameter {
    std::string text;
    PyObject* name;       // interned
    PyObject* otherwise;  // the default; nullptr: required
  };
  [[nodiscard]] const Parameter& at(int i) const noexcept {
    return parameters_[static_cast<std::size_t>(i)];
  }
  void bind_keyword(PyObject* name, PyObject* value, PyObject** slots) const;

  std::string function_;
  std::vector<Parameter> parameters_;
  int num_positional_ = 0;       // may be given by position
  int num_positional_only_ = 0;  // cannot be given by keyword
};

// Adds a function to the module. `definition` must live as long as the process; `self` is the
// function's first argument.
void add_function(py::module_& m, PyMethodDef* definition, const py::object& self);

}  // namespace gpk::bind

#include "bindings/fast_call.h"

#include <string_view>

#include "core/error.h"
#include "core/text.h"

namespace gpk::bind {
namespace {

[[noreturn]] void refuse(const FastSignature& signature, const std::string& what) {
  throw InvalidArgument(InvalidArgument::Kind::kType, cat(signature.function, ": ", what));
}

void bind_keyword(const FastSignature& signature, PyObject* name, PyObject* value,
                  PyObject** slots) {
  Py_ssize_t length = 0;
  const char* text = PyUnicode_AsUTF8AndSize(name, &length);
  if (text == nullptr) throw py::error_already_set();
  const auto count = static_cast<int>(signature.names.size());
  for (int i = signature.num_positional_only; i < count; ++i) {
    if (std::string_view(text, static_cast<std::size_t>(length)) !=
        signature.names[static_cast<std::size_t>(i)])
      continue;
    if (slots[i] != nullptr)
      refuse(signature, cat("got multiple values for argument '", text, "'"));
    slots[i] = value;
    return;
  }
  refuse(signature, cat("got an unexpected keyword argument '", text, "'"));
}

}  // namespace

void bind_arguments(const FastSignature& signature, PyObject* const* args, Py_ssize_t num_args,
                    PyObject* keyword_names, PyObject** slots) {
  const auto count = static_cast<int>(signature.names.size());
  if (num_args > signature.num_positional) [[unlikely]]
    refuse(signature, cat("takes ", signature.num_positional, " positional arguments but ",
                          num_args, " were given"));
  for (int i = 0; i < count; ++i) slots[i] = i < num_args ? args[i] : nullptr;
  if (keyword_names != nullptr) {
    const Py_ssize_t num_keywords = PyTuple_GET_SIZE(keyword_names);
    for (Py_ssize_t k = 0; k < num_keywords; ++k)
      bind_keyword(signature, PyTuple_GET_ITEM(keyword_names, k), args[num_args + k], slots);
  }
  for (int i = 0; i < signature.num_required; ++i)
    if (slots[i] == nullptr)
      refuse(signature,
             cat("missing required argument '", signature.names[static_cast<std::size_t>(i)], "'"));
}

void add_function(py::module_& m, PyMethodDef* definition, const py::object& self) {
  const py::object name = m.attr("__name__");
  PyObject* function = PyCFunction_NewEx(definition, self.ptr(), name.ptr());
  if (function == nullptr) throw py::error_already_set();
  m.attr(definition->ml_name) = py::reinterpret_steal<py::object>(function);
}

}  // namespace gpk::bind

#include "bindings/fast_call.h"

#include "base/error.h"
#include "base/text.h"

namespace gpk::bind {
namespace {

[[noreturn]] void refuse(const FastSignature& signature, const std::string& what) {
  throw InvalidArgument(InvalidArgument::Kind::kType, cat(signature.function(), ": ", what));
}

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

// A default as a new reference.
PyObject* literal(const std::string& text) {
  if (text == "None") return Py_NewRef(Py_None);
  if (text == "True") return Py_NewRef(Py_True);
  if (text == "False") return Py_NewRef(Py_False);
  if (text.starts_with('\''))
    return PyUnicode_FromStringAndSize(text.data() + 1, static_cast<Py_ssize_t>(text.size()) - 2);
  if (text.find_first_of(".e") == std::string::npos)
    return PyLong_FromString(text.c_str(), nullptr, 10);
  return PyFloat_FromDouble(std::stod(text));
}

}  // namespace

FastSignature::FastSignature(std::string function, std::string_view text)
    : function_(std::move(function)) {
  bool by_position = true;
  text = text.substr(1, text.size() - 2);  // the parentheses
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    const std::string_view item = trimmed(text.substr(0, comma));
    text = comma == std::string_view::npos ? "" : text.substr(comma + 1);
    if (item == "/") {
      num_positional_only_ = size();
    } else if (item == "*") {
      by_position = false;
    } else {
      const std::size_t equals = item.find('=');
      std::string name(item.substr(0, equals));
      PyObject* key = PyUnicode_InternFromString(name.c_str());
      PyObject* otherwise = nullptr;
      if (equals != std::string_view::npos) {
        otherwise = literal(std::string(item.substr(equals + 1)));
        if (otherwise == nullptr) throw py::error_already_set();
      }
      parameters_.push_back({std::move(name), key, otherwise});
      num_positional_ += by_position ? 1 : 0;
    }
  }
  if (size() > kMaxArguments) throw Error(cat(function_, ": more than ", kMaxArguments, " names"));
}

int FastSignature::index(std::string_view name) const noexcept {
  for (int i = 0; i < size(); ++i)
    if (at(i).text == name) return i;
  return -1;
}

// Names at a call site are interned, so the first loop nearly always matches.
void FastSignature::bind_keyword(PyObject* name, PyObject* value, PyObject** slots) const {
  int found = -1;
  for (int i = num_positional_only_; i < size() && found < 0; ++i)
    if (at(i).name == name) found = i;
  for (int i = num_positional_only_; i < size() && found < 0; ++i)
    if (PyUnicode_CompareWithASCIIString(name, this->name(i)) == 0) found = i;
  if (found < 0) {
    const char* text = PyUnicode_AsUTF8(name);
    if (text == nullptr) throw py::error_already_set();
    refuse(*this, cat("got an unexpected keyword argument '", text, "'"));
  }
  if (slots[found] != nullptr)
    refuse(*this, cat("got multiple values for argument '", this->name(found), "'"));
  slots[found] = value;
}

void FastSignature::bind(PyObject* const* args, Py_ssize_t num_args, PyObject* keyword_names,
                         PyObject** slots) const {
  if (num_args > num_positional_) [[unlikely]]
    refuse(*this,
           cat("takes ", num_positional_, " positional arguments but ", num_args, " were given"));
  for (int i = 0; i < size(); ++i) slots[i] = i < num_args ? args[i] : nullptr;
  if (keyword_names != nullptr) {
    const Py_ssize_t num_keywords = PyTuple_GET_SIZE(keyword_names);
    for (Py_ssize_t k = 0; k < num_keywords; ++k)
      bind_keyword(PyTuple_GET_ITEM(keyword_names, k), args[num_args + k], slots);
  }
  for (int i = static_cast<int>(num_args); i < size(); ++i) {
    if (slots[i] != nullptr) continue;
    slots[i] = at(i).otherwise;
    if (slots[i] == nullptr) [[unlikely]]
      refuse(*this, cat("missing required argument '", name(i), "'"));
  }
}

void add_function(py::module_& m, PyMethodDef* definition, const py::object& self) {
  const py::object name = m.attr("__name__");
  PyObject* function = PyCFunction_NewEx(definition, self.ptr(), name.ptr());
  if (function == nullptr) throw py::error_already_set();
  m.attr(definition->ml_name) = py::reinterpret_steal<py::object>(function);
}

}  // namespace gpk::bind

#include "bindings/annotation.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "bindings/array_object.h"

namespace gpk::bind {
namespace {

// Splits at separators outside of brackets and quotes.
std::vector<std::string_view> split(std::string_view text, std::string_view separator) {
  std::vector<std::string_view> pieces;
  int depth = 0;
  char quote = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != 0) {
      if (c == '\\') ++i;
      if (c == quote) quote = 0;
    } else if (c == '\'' || c == '"') {
      quote = c;
    } else if (c == '[' || c == '(' || c == '{') {
      ++depth;
    } else if (c == ']' || c == ')' || c == '}') {
      --depth;
    } else if (depth == 0 && text.substr(i).starts_with(separator)) {
      pieces.push_back(text.substr(begin, i - begin));
      begin = i + separator.size();
    }
  }
  if (begin < text.size()) pieces.push_back(text.substr(begin));
  return pieces;
}

bool has_number_slot(PyObject* object, unaryfunc PyNumberMethods::* slot) {
  const PyNumberMethods* methods = Py_TYPE(object)->tp_as_number;
  return methods != nullptr && methods->*slot != nullptr;
}

bool is_text(PyObject* object) {
  return PyUnicode_Check(object) != 0 || PyBytes_Check(object) != 0;
}

Fit possible(bool can_be) { return can_be ? Fit::kUnknown : Fit::kNo; }
Fit certain(bool does) { return does ? Fit::kYes : Fit::kNo; }

Fit fits_bool(PyObject* object) {
  if (PyBool_Check(object) || object == Py_None) return Fit::kYes;
  const PyNumberMethods* methods = Py_TYPE(object)->tp_as_number;
  return possible(methods != nullptr && methods->nb_bool != nullptr);
}

Fit fits_text(PyObject* object) {
  if (PyBytes_Check(object)) return Fit::kYes;
  if (!PyUnicode_Check(object)) return Fit::kNo;
  if (PyUnicode_AsUTF8(object) != nullptr) return Fit::kYes;
  PyErr_Clear();  // lone surrogates, which UTF-8 cannot encode
  return Fit::kNo;
}

Fit fits_float(PyObject* object) {
  if (PyFloat_Check(object)) return Fit::kYes;
  return possible(has_number_slot(object, &PyNumberMethods::nb_float) ||
                  PyIndex_Check(object) != 0);
}

// Small ints fit every C++ type in a signature.
Fit fits_int(PyObject* object) {
  if (PyFloat_Check(object)) return Fit::kNo;
  if (PyLong_Check(object)) {
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (overflow == 0 && value >= 0 && value <= std::numeric_limits<int>::max()) return Fit::kYes;
  }
  return possible(has_number_slot(object, &PyNumberMethods::nb_int));
}

// The elements of "collections.abc.Sequence[int]"; only lists and tuples can be inspected safely.
Fit fits_sequence(std::string_view annotation, PyObject* object) {
  constexpr Py_ssize_t kMostLookedAt = 1000;
  if (!PySequence_Check(object) || is_text(object)) return Fit::kNo;
  const std::size_t bracket = annotation.find('[');
  if (bracket == std::string_view::npos) return Fit::kYes;
  if (!PyList_CheckExact(object) && !PyTuple_CheckExact(object)) return Fit::kUnknown;
  const std::string_view element = annotation.substr(bracket + 1, annotation.size() - bracket - 2);
  Fit worst = Fit::kYes;
  const Py_ssize_t count = std::min(PySequence_Fast_GET_SIZE(object), kMostLookedAt);
  for (Py_ssize_t i = 0; i < count && worst != Fit::kNo; ++i)
    worst = std::min(worst, fits(element, PySequence_Fast_GET_ITEM(object, i)));
  return worst;
}

// "pygpukit._native.runtime.TaskInfo"
Fit fits_class(std::string_view path, PyObject* object) {
  const std::size_t dot = path.rfind('.');
  if (dot == std::string_view::npos) return Fit::kUnknown;
  const py::object modules = py::module_::import("sys").attr("modules");
  const py::str home{std::string(path.substr(0, dot))};
  if (!modules.contains(home)) return Fit::kUnknown;
  const py::object type =
      py::getattr(modules[home], py::str(std::string(path.substr(dot + 1))), py::none());
  if (!PyType_Check(type.ptr())) return Fit::kUnknown;
  auto* expected = reinterpret_cast<PyTypeObject*>(type.ptr());
  if (PyType_IsSubtype(Py_TYPE(object), expected) == 0) return Fit::kNo;
  if (py::detail::get_type_info(expected) == nullptr) return Fit::kUnknown;
  // Created by __new__ alone: the right type, without a value.
  auto* instance = reinterpret_cast<py::detail::instance*>(object);
  return certain(instance->get_value_and_holder().value_ptr() != nullptr);
}

Fit fits_one(std::string_view annotation, PyObject* o) {
  const auto starts = [&](std::string_view prefix) { return annotation.starts_with(prefix); };
  if (annotation == "object") return Fit::kYes;
  if (annotation == "None") return certain(o == Py_None);
  if (annotation == "bool") return fits_bool(o);
  if (annotation == "str") return fits_text(o);
  if (annotation == "int") return certain(PyLong_Check(o) != 0);
  if (annotation == "bytes") return certain(PyBytes_Check(o) != 0);
  if (annotation == "tuple") return certain(PyTuple_Check(o) != 0);
  if (annotation == "list") return certain(PyList_Check(o) != 0);
  if (annotation == "dict") return certain(PyDict_Check(o) != 0);
  if (annotation == "GPUArray") return certain(is_array(o));
  if (annotation == "typing.SupportsInt") return fits_int(o);
  if (annotation == "typing.SupportsIndex") return possible(PyIndex_Check(o) != 0);
  if (annotation == "typing.SupportsFloat") return fits_float(o);
  if (starts("collections.abc.Sequence")) return fits_sequence(annotation, o);
  if (starts("collections.abc.Callable")) return certain(PyCallable_Check(o) != 0);
  if (starts("collections.abc.Mapping")) return possible(PyMapping_Check(o) != 0);
  if (starts("tuple[")) return possible(PySequence_Check(o) != 0 && !is_text(o));
  if (annotation == "typing_extensions.Buffer" || annotation == "collections.abc.Buffer")
    return certain(PyObject_CheckBuffer(o) != 0);
  if (starts("pygpukit.")) return fits_class(annotation, o);
  return Fit::kUnknown;
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at))
    text.replace(at, from.size(), to);
}

}  // namespace

std::vector<Parameter> parameters_of(std::string_view signature) {
  // Up to the parenthesis that closes the list: defaults may contain others, as may the result.
  const std::size_t arrow = signature.rfind(") -> ");
  if (!signature.starts_with('(') || arrow == std::string_view::npos) return {};
  std::vector<Parameter> parameters;
  for (const std::string_view piece : split(signature.substr(1, arrow - 1), ", ")) {
    if (piece.starts_with('*') || piece == "/") continue;
    const std::string_view declared = split(piece, " = ").front();
    const std::size_t colon = declared.find(": ");
    if (colon == std::string_view::npos)
      parameters.push_back({declared, {}});
    else
      parameters.push_back({declared.substr(0, colon), declared.substr(colon + 2)});
  }
  return parameters;
}

Fit fits(std::string_view annotation, py::handle object) {
  if (annotation.empty()) return Fit::kUnknown;
  Fit best = Fit::kNo;
  for (const std::string_view one : split(annotation, " | "))
    best = std::max(best, fits_one(one, object.ptr()));
  return best;
}

std::string plain(std::string_view annotation) {
  static constexpr std::pair<std::string_view, std::string_view> kShorter[] = {
      {"complex | typing.SupportsComplex | typing.SupportsFloat | typing.SupportsIndex", "complex"},
      {"typing.SupportsInt | typing.SupportsIndex", "int"},
      {"typing.SupportsFloat | typing.SupportsIndex", "float"},
      {"pygpukit._native.runtime.", ""},
      {"pygpukit._native.", ""},
      {"collections.abc.", ""},
      {"typing_extensions.", ""},
      {"typing.", ""},
  };
  std::string text(annotation);
  for (const auto& [from, to] : kShorter) replace_all(text, from, to);
  return text;
}

}  // namespace gpk::bind

#include "bindings/call_errors.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "bindings/annotation.h"
#include "bindings/array_object.h"
#include "bindings/errors.h"

// The dispatcher below is called as pybind11 3.1 calls its own: vectorcall with keyword names.
static_assert(PYBIND11_VERSION_HEX >= 0x03010000);

namespace gpk::bind {
namespace {

using Record = py::detail::function_record;
using Dispatcher = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t, PyObject*);

Dispatcher g_dispatch = nullptr;  // pybind11's, the same for all functions

struct Call {
  PyObject* const* args;
  std::size_t num_args;
  PyObject* keywords;  // names, or nullptr

  [[nodiscard]] std::size_t num_keywords() const {
    return keywords == nullptr ? 0 : static_cast<std::size_t>(PyTuple_GET_SIZE(keywords));
  }
  [[nodiscard]] std::string keyword(std::size_t i) const {
    return py::str(PyTuple_GET_ITEM(keywords, static_cast<Py_ssize_t>(i)));
  }
  [[nodiscard]] PyObject* named(std::string_view name) const {
    for (std::size_t i = 0; i < num_keywords(); ++i)
      if (keyword(i) == name) return args[num_args + i];
    return nullptr;
  }
};

// Why a call does not match one overload.
struct Mismatch {
  std::string what;      // empty: no mismatch, every argument fits
  std::string argument;  // of the wrong type, else empty
  std::string expected;
};

// --- describing the given arguments --------------------------------------------------------------

constexpr std::size_t kMaxShown = 200;

std::string_view bare_name(const char* qualified) {
  const std::string_view name = qualified;
  const std::size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? name : name.substr(dot + 1);
}

// Whether repr() would be slow or large for a message that is truncated anyway.
bool is_large(PyObject* o) {
  constexpr Py_ssize_t kMaxItems = 50;
  if (PyUnicode_Check(o)) return PyUnicode_GET_LENGTH(o) > static_cast<Py_ssize_t>(kMaxShown);
  if (PyBytes_Check(o)) return PyBytes_GET_SIZE(o) > static_cast<Py_ssize_t>(kMaxShown);
  if (PyByteArray_Check(o)) return PyByteArray_GET_SIZE(o) > static_cast<Py_ssize_t>(kMaxShown);
  if (PyList_Check(o) || PyTuple_Check(o)) return PySequence_Fast_GET_SIZE(o) > kMaxItems;
  if (PyDict_Check(o)) return PyDict_Size(o) > kMaxItems;
  if (PyAnySet_Check(o)) return PySet_Size(o) > kMaxItems;
  return false;
}

std::string describe(PyObject* object) {
  if (object == Py_None) return "None";
  const std::string_view type = bare_name(Py_TYPE(object)->tp_name);
  if (is_array(object)) {  // its elements would have to be copied from the GPU
    const Array& array = array_of(object);
    return cat("a ", type, " of shape ", to_string(array.shape()), " and dtype ",
               name(array.dtype()));
  }
  if (is_large(object)) return cat(type, " of length ", PyObject_Size(object));
  return cat(type, ' ', safe_repr(object));
}

// --- finding the mismatch ------------------------------------------------------------------------

std::string display_name(const Record& record) {
  const bool in_class = record.scope && PyType_Check(record.scope.ptr()) != 0;
  if (!in_class) return record.name;
  const std::string type(bare_name(reinterpret_cast<PyTypeObject*>(record.scope.ptr())->tp_name));
  return record.is_constructor ? type : cat(type, '.', record.name);
}

Mismatch wrong_type(const Parameter& parameter, PyObject* given, Fit fit) {
  const std::string expected =
      parameter.annotation.empty() ? "something else" : plain(parameter.annotation);
  std::string what =
      cat("argument '", parameter.name, "' is ", describe(given), ", expected ", expected);
  // The right kind: a number out of the C++ type's range.
  if (fit == Fit::kUnknown && PyLong_Check(given)) what += " within range";
  return {std::move(what), std::string(parameter.name), expected};
}

std::optional<Mismatch> wrong_keyword(const Record& record,
                                      const std::vector<Parameter>& parameters, const Call& call) {
  for (std::size_t k = 0; k < call.num_keywords(); ++k) {
    const std::string keyword = call.keyword(k);
    const auto found = std::ranges::find(parameters, keyword, &Parameter::name);
    const auto index = static_cast<std::size_t>(found - parameters.begin());
    if (found != parameters.end() && index < call.num_args)
      return Mismatch{cat("argument '", keyword, "' was given twice"), {}, {}};
    if (found == parameters.end() && !record.has_kwargs)
      return Mismatch{cat("unexpected keyword '", keyword, "'"), {}, {}};
  }
  return std::nullopt;
}

Mismatch too_many(std::size_t most, std::size_t given) {
  return {cat("takes at most ", most, most == 1 ? " argument" : " arguments", " by position (",
              given, " given)"),
          {},
          {}};
}

Mismatch mismatch(const Record& record, const Call& call) {
  const std::vector<Parameter> parameters = parameters_of(record.signature);
  const std::size_t self = record.is_method || record.is_constructor ? 1 : 0;
  if (!record.has_args && call.num_args > record.nargs_pos)
    return too_many(record.nargs_pos - self, call.num_args - self);
  if (auto found = wrong_keyword(record, parameters, call)) return *std::move(found);
  struct Given {
    const Parameter* parameter;
    PyObject* value;
    Fit fit;
  };
  std::optional<Given> worst;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& parameter = parameters[i];
    const auto* declared = i < record.args.size() ? &record.args[i] : nullptr;
    PyObject* value = i < call.num_args ? call.args[i] : call.named(parameter.name);
    if (value == nullptr) {
      if (declared == nullptr || !declared->value)
        return {cat("missing argument '", parameter.name, "'"), {}, {}};
      continue;
    }
    if (i == 0 && record.is_new_style_constructor) continue;
    Fit fit = fits(parameter.annotation, value);
    if (declared != nullptr && !declared->none && value == Py_None) fit = Fit::kNo;
    if (fit != Fit::kYes && (!worst || fit < worst->fit)) worst = Given{&parameter, value, fit};
  }
  if (!worst) return {};
  return wrong_type(*worst->parameter, worst->value, worst->fit);
}

// --- the errors ---------------------------------------------------------------------------------

[[noreturn]] void refuse(const Record& record, const std::string& what) {
  throw InvalidArgument(InvalidArgument::Kind::kType, cat(display_name(record), ": ", what));
}

// `result` is what a mismatch returns since explain_calls: NotImplemented. A function may also have
// returned it deliberately, as a user's object; then everything fits.
PyObject* explain_mismatch(const Record& record, const Call& call, PyObject* result) {
  auto owned = py::reinterpret_steal<py::object>(result);
  Mismatch first = mismatch(record, call);
  if (first.what.empty()) {
    if (std::string_view(record.signature).ends_with("-> object")) return owned.release().ptr();
    refuse(record, "these arguments are not supported");
  }
  for (const Record* next = record.next; next != nullptr; next = next->next) {
    const Mismatch other = mismatch(*next, call);
    if (other.what.empty()) return owned.release().ptr();
    if (!first.argument.empty() && other.argument == first.argument)
      first.what += cat(" or ", other.expected);
  }
  refuse(record, first.what);
}

// Rewords pybind11's own errors about results and objects it cannot convert.
void explain_failure(const Record& record) {
  PyObject* raised = PyErr_Occurred();
  if (raised != PyExc_TypeError && raised != PyExc_RuntimeError && raised != PyExc_SystemError)
    return;
  py::error_already_set error;
  // pybind11 continues where the __len__ of a sequence raises; Python notices at the next call.
  if (error.matches(PyExc_SystemError)) {
    PyObject* cause = PyException_GetCause(error.value().ptr());
    if (cause == nullptr) return error.restore();
    const auto owned = py::reinterpret_steal<py::object>(cause);
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(cause)), cause);
    return;
  }
  const std::string text = safe_repr(error.value());
  const auto says = [&](const char* words) { return text.find(words) != std::string::npos; };
  if (says("Unable to convert function return value"))
    throw Error(cat(display_name(record), ": the result cannot be converted to a Python object"));
  if (says("Unable to cast Python instance"))
    refuse(record, "an argument contains a value of a type that cannot be converted");
  if (says("called with invalid or missing `self`"))
    refuse(record, "__init__ was called without an instance of the class");
  error.restore();
}

PyObject* dispatch(PyObject* self, PyObject* const* args, Py_ssize_t nargsf, PyObject* keywords) {
  PyObject* result = g_dispatch(self, args, nargsf, keywords);
  if (result != nullptr && result != Py_NotImplemented) [[likely]] {
    if (PyErr_Occurred() == nullptr) [[likely]]
      return result;
    Py_DECREF(result);  // as above, without a next call
    return nullptr;
  }
  return guarded<>(static_cast<PyObject*>(nullptr), [&]() -> PyObject* {
    const Record& record = *py::detail::function_record_ptr_from_PyObject(self);
    if (result == nullptr) {
      explain_failure(record);
      return nullptr;
    }
    if (PyErr_Occurred() != nullptr) {
      Py_DECREF(result);
      return nullptr;
    }
    const auto count =
        static_cast<std::size_t>(PyVectorcall_NARGS(static_cast<std::size_t>(nargsf)));
    return explain_mismatch(record, {args, count, keywords}, result);
  });
}

// --- installation --------------------------------------------------------------------------------

void take_over(py::handle function) {
  if (PyInstanceMethod_Check(function.ptr()) != 0)
    function = PyInstanceMethod_GET_FUNCTION(function.ptr());
  if (PyCFunction_Check(function.ptr()) == 0) return;
  PyObject* self = PyCFunction_GET_SELF(function.ptr());
  Record* record = self == nullptr ? nullptr : py::detail::function_record_ptr_from_PyObject(self);
  // An operator returns NotImplemented, so that Python tries the other operand.
  if (record == nullptr || record->is_operator) return;
  PyMethodDef* definition = reinterpret_cast<PyCFunctionObject*>(function.ptr())->m_ml;
  if (definition->ml_flags != (METH_FASTCALL | METH_KEYWORDS)) return;
  g_dispatch = reinterpret_cast<Dispatcher>(reinterpret_cast<void (*)()>(definition->ml_meth));
  definition->ml_meth = reinterpret_cast<PyCFunction>(
      reinterpret_cast<void (*)()>(static_cast<Dispatcher>(dispatch)));
  record->is_operator = true;  // NotImplemented for a mismatch, instead of building a message
}

void take_over_class(py::handle type) {
  // A copy: a type's dictionary must not change during iteration.
  const py::dict members = py::dict(type.attr("__dict__"));
  for (const auto& [key, member] : members) {
    if (PyObject_TypeCheck(member.ptr(), &PyProperty_Type) != 0) {
      take_over(member.attr("fget"));
      take_over(member.attr("fset"));
    } else if (PyObject_TypeCheck(member.ptr(), &PyStaticMethod_Type) != 0) {
      take_over(member.attr("__func__"));
    } else {
      take_over(member);
    }
  }
}

}  // namespace

void explain_calls(const py::module_& m) {
  const py::object home = m.attr("__name__");
  for (const auto& [key, member] : py::dict(m.attr("__dict__"))) {
    if (PyType_Check(member.ptr()) == 0)
      take_over(member);
    else if (py::object(member.attr("__module__")).equal(home))
      take_over_class(member);
  }
}

}  // namespace gpk::bind

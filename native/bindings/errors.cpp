#include "bindings/errors.h"

#include "base/error.h"
#include "base/file_error.h"
#include "base/linalg_error.h"
#include "base/text.h"
#include "bindings/guard.h"

namespace gpk::bind {
namespace {

constexpr std::size_t kMaxMessageBytes = std::size_t{32} << 10;
constexpr Py_ssize_t kMaxReprChars = 200;

// Logs and paths need not be UTF-8; an error about them must still be raised.
py::object to_python(std::string_view text) {
  PyObject* decoded =
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "backslashreplace");
  if (decoded == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(decoded);
}

// Messages may quote arguments of any size.
py::object message_of(const std::exception& error) {
  return to_python(shorten(error.what(), kMaxMessageBytes));
}

py::object error_class(const char* name) {
  return py::module_::import("pygpukit.core.errors").attr(name);
}

void raise(const py::object& type, const py::object& value) {
  PyErr_SetObject(type.ptr(), value.ptr());
}

template <class... Args>
void raise_as(const char* name, Args&&... args) {
  const py::object type = error_class(name);
  raise(type, type(std::forward<Args>(args)...));
}

const char* class_of(Error::Kind kind) {
  switch (kind) {
    case Error::Kind::kValue: return "InvalidValueError";
    case Error::Kind::kType: return "InvalidTypeError";
    case Error::Kind::kIndex: return "InvalidIndexError";
    case Error::Kind::kOverflow: return "InvalidOverflowError";
    case Error::Kind::kAxis: return "AxisError";
    case Error::Kind::kMemory: return "OutOfMemory";
    case Error::Kind::kState: break;
  }
  return "OperationError";
}

void raise_out_of_memory(const OutOfMemory& error) {
  const OutOfMemory::Numbers& n = error.numbers();
  const py::object type = error_class("OutOfMemory");
  raise(type, type(message_of(error), n.asked_bytes, n.used_bytes, n.cached_bytes,
                   n.largest_free_bytes, n.limit_bytes, n.device_free_bytes, n.evicted_bytes,
                   n.account, n.account_used_bytes, n.account_limit_bytes));
}

void raise_cuda(const char* name, const CudaError& error) {
  raise_as(name, message_of(error), error.code(), error.name(), error.call(),
           py::cast(error.launches()));
}

// OSError picks its subclass by the code.
void raise_file(const FileError& error) {
  const auto type = py::reinterpret_borrow<py::object>(PyExc_OSError);
  raise(type, type(error.code(), message_of(error), to_python(error.path())));
}

// pybind11's message for an object without a value where its holder is required.
bool is_unconstructed(const py::cast_error& error) {
  return std::string_view(error.what()).starts_with("Unable to cast from non-held");
}

// Rethrows and selects the class; most derived types first.
void translate() {
  try {
    throw;
  } catch (py::error_already_set& error) {
    error.restore();
  } catch (const OutOfMemory& error) {
    raise_out_of_memory(error);
  } catch (const DeviceLostError& error) {
    raise_cuda("DeviceLostError", error);
  } catch (const CudaError& error) {
    raise_cuda("CudaError", error);
  } catch (const CompileError& error) {
    py::list flags;
    for (const std::string& flag : error.flags()) flags.append(to_python(flag));
    raise_as("CompileError", message_of(error), static_cast<int>(error.code()),
             to_python(error.log()), to_python(error.source()), flags);
  } catch (const NvrtcError& error) {
    raise_as("NvrtcError", message_of(error), static_cast<int>(error.code()),
             to_python(error.log()));
  } catch (const GpuUnavailable& error) {
    raise_as("GpuUnavailable", message_of(error));
  } catch (const CaptureError& error) {
    raise_as("CaptureError", message_of(error));
  } catch (const ExchangeError& error) {
    raise_as("ExchangeError", message_of(error));
  } catch (const FileError& error) {
    raise_file(error);
  } catch (const LinAlgError& error) {
    raise(py::module_::import("pygpukit.linalg").attr("LinAlgError"), message_of(error));
  } catch (const DeadlockError& error) {
    raise(py::module_::import("pygpukit.scheduler.errors").attr("TaskDeadlock"), message_of(error));
  } catch (const Error& error) {
    raise_as(class_of(error.kind()), message_of(error));
  } catch (const py::cast_error& error) {
    if (is_unconstructed(error)) {
      raise_as("InvalidTypeError", kUnconstructed);
    } else {
      error.set_error();
    }
  } catch (const py::builtin_exception& error) {
    error.set_error();
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_SetObject(PyExc_RuntimeError, message_of(error).ptr());
  }
}

}  // namespace

void set_python_error() noexcept {
  try {
    translate();
  } catch (py::error_already_set& error) {  // raising the error itself failed: report that instead
    error.restore();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
}

void register_errors() {
  py::register_exception_translator([](std::exception_ptr error) {
    try {
      std::rethrow_exception(std::move(error));
    } catch (const Error&) {
      set_python_error();
    } catch (const py::cast_error& thrown) {
      if (!is_unconstructed(thrown)) throw;
      set_python_error();
    }
  });
}

std::string safe_repr(py::handle object) {
  auto text = py::reinterpret_steal<py::object>(PyObject_Repr(object.ptr()));
  if (text && PyUnicode_GET_LENGTH(text.ptr()) > kMaxReprChars) {
    text = py::reinterpret_steal<py::object>(PyUnicode_Substring(text.ptr(), 0, kMaxReprChars));
    if (text) text = text + py::str("...");
  }
  if (text)  // lone surrogates have no UTF-8 encoding
    text = py::reinterpret_steal<py::object>(
        PyUnicode_AsEncodedString(text.ptr(), "utf-8", "backslashreplace"));
  if (text) return std::string(PyBytes_AS_STRING(text.ptr()));
  if (PyErr_ExceptionMatches(PyExc_Exception) == 0) throw py::error_already_set();
  PyErr_Clear();
  return cat("<", Py_TYPE(object.ptr())->tp_name, ", whose repr() raises>");
}

namespace {

bool is_numpy_array(py::handle object) {
  return std::string_view(Py_TYPE(object.ptr())->tp_name) == "numpy.ndarray";
}

}  // namespace

void bad_argument(const char* op, const char* argument, py::handle given, const char* expected) {
  if (is_numpy_array(given))  // its elements say less than where they are
    throw InvalidArgument(InvalidArgument::Kind::kType,
                          cat(op, ": ", argument, " is a numpy.ndarray of shape ",
                              std::string(py::str(given.attr("shape"))), ", expected ", expected,
                              "; from_numpy() copies it to the device"));
  throw InvalidArgument(InvalidArgument::Kind::kType,
                        cat(op, ": ", argument, " is ", safe_repr(given), ", expected ", expected));
}

}  // namespace gpk::bind

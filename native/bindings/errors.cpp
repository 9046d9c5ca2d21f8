#include "bindings/errors.h"

#include "core/device_pool.h"
#include "core/error.h"
#include "runtime/error.h"

namespace gpk::bind {
namespace {

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

const char* class_of(InvalidArgument::Kind kind) {
  switch (kind) {
    case InvalidArgument::Kind::kType: return "InvalidTypeError";
    case InvalidArgument::Kind::kIndex: return "InvalidIndexError";
    case InvalidArgument::Kind::kOverflow: return "InvalidOverflowError";
    case InvalidArgument::Kind::kAxis: return "AxisError";
    case InvalidArgument::Kind::kValue: break;
  }
  return "InvalidValueError";
}

PyObject* class_of(runtime::Error::Kind kind) {
  switch (kind) {
    case runtime::Error::Kind::kValue: return PyExc_ValueError;
    case runtime::Error::Kind::kMemory: return PyExc_MemoryError;
    case runtime::Error::Kind::kState: break;
  }
  return PyExc_RuntimeError;
}

void raise_out_of_memory(const OutOfMemory& error) {
  const OutOfMemory::Numbers& n = error.numbers();
  const py::object type = error_class("OutOfMemory");
  raise(type, type(error.what(), n.asked_bytes, n.used_bytes, n.cached_bytes, n.largest_free_bytes,
                   n.limit_bytes, n.device_free_bytes, n.evicted_bytes, n.account,
                   n.account_used_bytes, n.account_limit_bytes));
}

void raise_cuda(const char* name, const CudaError& error) {
  raise_as(name, error.what(), error.code(), error.name(), error.call(),
           py::cast(error.launches()));
}

// Rethrows and picks the class; most derived types first.
void translate() {
  try {
    throw;
  } catch (py::error_already_set& error) {
    error.restore();
  } catch (const InvalidArgument& error) {
    raise_as(class_of(error.kind()), error.what());
  } catch (const OutOfMemory& error) {
    raise_out_of_memory(error);
  } catch (const DeviceLostError& error) {
    raise_cuda("DeviceLostError", error);
  } catch (const CudaError& error) {
    raise_cuda("CudaError", error);
  } catch (const CompileError& error) {
    raise_as("CompileError", error.what(), static_cast<int>(error.code()), error.log(),
             error.source(), py::cast(error.flags()));
  } catch (const NvrtcError& error) {
    raise_as("NvrtcError", error.what(), static_cast<int>(error.code()), error.log());
  } catch (const GpuUnavailable& error) {
    raise_as("GpuUnavailable", error.what());
  } catch (const CaptureError& error) {
    raise_as("CaptureError", error.what());
  } catch (const ExchangeError& error) {
    raise_as("ExchangeError", error.what());
  } catch (const Error& error) {
    raise_as("OperationError", error.what());
  } catch (const runtime::PoolOutOfMemory& error) {
    raise_out_of_memory(as_out_of_memory(error, "memory"));
  } catch (const runtime::Error& error) {
    PyErr_SetString(class_of(error.kind()), error.what());
  } catch (const py::builtin_exception& error) {
    error.set_error();
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
}

}  // namespace

void set_python_error() noexcept {
  try {
    translate();
  } catch (py::error_already_set& error) {  // raising the error itself failed: report that
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
    } catch (const runtime::Error&) {
      set_python_error();
    }
  });
}

}  // namespace gpk::bind

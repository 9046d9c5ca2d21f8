#include "bindings/python.h"

#include <thread>

#include "bindings/park.h"

namespace gpk::bind {
namespace {

// Signals reach the interpreter's main thread, which is the one that imports the module.
const std::thread::id g_main_thread = std::this_thread::get_id();

}  // namespace

bool on_main_thread() noexcept { return std::this_thread::get_id() == g_main_thread; }

bool python_runs() noexcept { return Py_IsInitialized() != 0; }  // 0 from the start of finalisation

WithGil::WithGil() {
  // The finalising thread holds the GIL throughout.
  if (!python_runs() && !on_main_thread()) park();
  state_ = PyGILState_Ensure();
}

std::shared_ptr<void> keep_alive(py::handle object) {
  object.inc_ref();
  return {object.ptr(), [](void* kept) {
            if (!python_runs()) return;
            const WithGil gil;
            Py_DECREF(static_cast<PyObject*>(kept));
          }};
}

// Not pybind11's operator(): up to Python 3.10 that is inlined down to the function's own entry,
// with no call to wrap.
py::object call_function(py::handle function, const py::tuple& args, const py::dict& options) {
  auto result =
      py::reinterpret_steal<py::object>(PyObject_Call(function.ptr(), args.ptr(), options.ptr()));
  if (!result) throw py::error_already_set();
  return result;
}

bool has_attribute(py::handle object, const char* name) {
  if (py::reinterpret_steal<py::object>(PyObject_GetAttrString(object.ptr(), name))) return true;
  clear_if(PyExc_AttributeError);
  return false;
}

bool is_true(py::handle object) {
  const int truth = PyObject_IsTrue(object.ptr());
  if (truth < 0) throw py::error_already_set();
  return truth != 0;
}

void report_unraisable(py::error_already_set& error, const char* where) {
  if (error.matches(PyExc_KeyboardInterrupt) && on_main_thread()) {
    PyErr_SetInterrupt();
  } else {
    error.discard_as_unraisable(where);
  }
}

}  // namespace gpk::bind

#ifdef GPK_WRAP_PYTHON_CALLS
// pybind11's casters clear whatever an __index__, __float__ or __bool__ raises and report a wrong
// argument type instead. A non-Exception, such as a KeyboardInterrupt, is rethrown to the caller.
extern "C" void __wrap_PyErr_Clear();   // NOLINT(bugprone-reserved-identifier): the linker's name
extern "C" void __wrap_PyErr_Clear() {  // NOLINT(bugprone-reserved-identifier)
  if (PyErr_Occurred() != nullptr && PyErr_ExceptionMatches(PyExc_Exception) == 0)
    throw pybind11::error_already_set();
  PyErr_Restore(nullptr, nullptr, nullptr);
}
#endif

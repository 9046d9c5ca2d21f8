// Included by every binding file: GIL guards and safe handling of Python errors.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

namespace gpk::bind {

namespace py = pybind11;

// Releases the GIL for a scope. Lighter than pybind11's, which also guards its own registry.
class WithoutGil {
 public:
  WithoutGil() : state_(PyEval_SaveThread()) {}
  ~WithoutGil() { PyEval_RestoreThread(state_); }  // parks where Python has ended (park.cpp)
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* state_;
};

// Same around a call that blocks only when the GPU's queue is full: the GIL is kept while this is
// the interpreter's only thread, since nobody could take it.
class BrieflyWithoutGil {
 public:
  BrieflyWithoutGil() {
    PyThreadState* first = PyInterpreterState_ThreadHead(PyInterpreterState_Get());
    if (PyThreadState_Next(first) != nullptr) [[unlikely]]
      state_ = PyEval_SaveThread();
  }
  ~BrieflyWithoutGil() {
    if (state_ != nullptr) [[unlikely]]
      PyEval_RestoreThread(state_);
  }
  BrieflyWithoutGil(const BrieflyWithoutGil&) = delete;
  BrieflyWithoutGil& operator=(const BrieflyWithoutGil&) = delete;

 private:
  PyThreadState* state_ = nullptr;
};

// The interpreter exists and is not being finalised.
bool python_runs() noexcept;

// Takes the GIL on any thread, including ones unknown to Python. Where Python has ended, a thread
// stops here forever: code that can do without Python tests python_runs() first. None of our locks
// may be held.
class WithGil {
 public:
  WithGil();
  ~WithGil() { PyGILState_Release(state_); }
  WithGil(const WithGil&) = delete;
  WithGil& operator=(const WithGil&) = delete;

 private:
  PyGILState_STATE state_;
};

// A Python object kept by C++ code that may release it on any thread, with or without the GIL.
std::shared_ptr<void> keep_alive(py::handle object);

// function(*args, **options) from a thread that may outlive Python. Throws what it raises.
py::object call_function(py::handle function, const py::tuple& args = py::tuple(),
                         const py::dict& options = py::dict());

// Python's main thread, the one that receives signals.
bool on_main_thread() noexcept;

// --- errors -------------------------------------------------------------------------------------
// Only the error a conversion is known to end with may be cleared. Anything else, above all a
// KeyboardInterrupt, propagates.

// Clears the pending error when it is of one of these classes, else throws it.
template <class... Classes>
void clear_if(Classes*... expected) {
  if (!(PyErr_ExceptionMatches(expected) || ...)) throw py::error_already_set();
  PyErr_Clear();
}

// Like Python's hasattr(): only an AttributeError means no.
bool has_attribute(py::handle object, const char* name);

// bool(object). Throws what __bool__ raises.
bool is_true(py::handle object);

// For an error with no caller to go to: reported by sys.unraisablehook. A KeyboardInterrupt in the
// main thread is raised again there, by the next bytecode.
void report_unraisable(py::error_already_set& error, const char* where);

// repr(object) for a message: at most 200 characters, with a placeholder where __repr__ raises.
// Only non-Exceptions (KeyboardInterrupt, SystemExit) propagate.
std::string safe_repr(py::handle object);

// InvalidArgument (kType): "op: argument is <given>, expected ...".
[[noreturn]] void bad_argument(const char* op, const char* argument, py::handle given,
                               const char* expected);

}  // namespace gpk::bind

// What every binding file includes: the GIL taken and given up, errors that may be cleared.
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

// The same around a call that blocks only when the GPU's queue is full: nothing is released while
// this is the interpreter's only thread, since nobody could take it.
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

// The interpreter is there and is not being finalized.
bool python_runs() noexcept;

// Takes the GIL on any thread, also on one that Python does not know. Where Python has ended, a
// thread stops here for ever: whoever can do without Python asks python_runs() first. No lock of
// ours may be held.
class WithGil {
 public:
  WithGil();
  ~WithGil() { PyGILState_Release(state_); }
  WithGil(const WithGil&) = delete;
  WithGil& operator=(const WithGil&) = delete;

 private:
  PyGILState_STATE state_;
};

// A Python object kept by C++ code that may release it on any thread, also without the GIL.
std::shared_ptr<void> keep_alive(py::handle object);

// function(*args, **options) from a thread that Python may end under. Throws what it raises.
py::object call_function(py::handle function, const py::tuple& args = py::tuple(),
                         const py::dict& options = py::dict());

// Python's main thread, the one that signals interrupt.
bool on_main_thread() noexcept;

// --- errors -------------------------------------------------------------------------------------
// Only the error that a conversion is known to end with may be cleared. Anything else, a
// KeyboardInterrupt above all, goes on to the caller.

// Clears the pending error when it is of one of these classes, else throws it.
template <class... Classes>
void clear_if(Classes*... expected) {
  if (!(PyErr_ExceptionMatches(expected) || ...)) throw py::error_already_set();
  PyErr_Clear();
}

// hasattr() as Python's own: only an AttributeError means no.
bool has_attribute(py::handle object, const char* name);

// bool(object). Throws what __bool__ raises.
bool is_true(py::handle object);

// For an error that has nobody to go to: reported by sys.unraisablehook. A KeyboardInterrupt in the
// main thread is raised there again, by the next bytecode.
void report_unraisable(py::error_already_set& error, const char* where);

// repr(object) for a message: at most 200 characters, and a stand-in where __repr__ raises. Only
// what is no Exception (KeyboardInterrupt, SystemExit) gets through.
std::string safe_repr(py::handle object);

// InvalidArgument (kType): "op: argument is <given>, expected ...".
[[noreturn]] void bad_argument(const char* op, const char* argument, py::handle given,
                               const char* expected);

}  // namespace gpk::bind

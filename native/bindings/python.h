// What every binding file includes, and a GIL release that costs two calls.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

namespace gpk::bind {

namespace py = pybind11;

// Releases the GIL for a scope. Lighter than pybind11's, which also guards its own registry.
class WithoutGil {
 public:
  WithoutGil() : state_(PyEval_SaveThread()) {}
  ~WithoutGil() { PyEval_RestoreThread(state_); }
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

// A Python object kept by C++ code that may let go of it on any thread, also without the GIL.
std::shared_ptr<void> keep_alive(py::handle object);

// repr(object) for a message: at most 200 characters, and a stand-in where __repr__ raises. Only
// what is no Exception (KeyboardInterrupt, SystemExit) gets through.
std::string safe_repr(py::handle object);

}  // namespace gpk::bind

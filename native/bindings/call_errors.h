// Errors for calls whose arguments do not match a bound function. pybind11 dumps the C++ signatures
// and the repr of every argument; ours names the argument that is wrong:
//   Stream.wait_event: argument 'event' is str 'abc', expected CudaEvent
#pragma once

#include "bindings/python.h"

namespace gpk::bind {

// Takes over the errors of all functions and classes in the module. Call it once the module is
// complete; a call that succeeds costs one extra C call.
void explain_calls(const py::module_& m);

}  // namespace gpk::bind

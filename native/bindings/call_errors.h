// Calls whose arguments do not match a bound function. pybind11 answers with a dump of C++
// signatures and the repr of everything that was given; ours says which argument is wrong:
//   Stream.wait_event: argument 'event' is str 'abc', expected CudaEvent
#pragma once

#include "bindings/python.h"

namespace gpk::bind {

// Takes over the errors of all functions and classes in the module. To be called when it is
// complete; a call that succeeds costs one more C call.
void explain_calls(const py::module_& m);

}  // namespace gpk::bind

// Gaps in pybind11: objects that were never constructed, and pickling.
#pragma once

#include "bindings/python.h"

namespace gpk::bind {

// Call when all classes of a module are defined. From then on using an object that was never
// constructed (X.__new__(X), a subclass that does not call super().__init__()) throws
// InvalidArgument (kType), and pickling where no pickling was defined is a TypeError.
void guard_classes(const py::module_& m);

inline constexpr const char* kUnconstructed =
    "pygpukit: the object was created by __new__ and never initialised; call its class, and in a "
    "subclass super().__init__()";

}  // namespace gpk::bind

// The number protocol of GPUArray: operators, comparisons, conversions to Python numbers.
#pragma once

#include "bindings/python.h"

namespace gpk::bind {

// Slots for PyType_FromSpec, terminated by {0, nullptr}.
const PyType_Slot* array_operator_slots();

}  // namespace gpk::bind

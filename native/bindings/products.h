// Shared by the GEMM bindings.
#pragma once

#include "bindings/arguments.h"
#include "bindings/python.h"
#include "core/array.h"

namespace gpk::bind {

// A GPUArray or a list of numbers, operand `number` of an op; InvalidArgument for anything else.
const Array& product_operand(const Arguments& args, int number);

// a @ b of two GPUArrays: a new reference.
PyObject* multiply_arrays(PyObject* a, PyObject* b);

}  // namespace gpk::bind

// Shared by the GEMM bindings.
#pragma once

#include "bindings/python.h"
#include "core/array.h"

namespace gpk::bind {

// A GPUArray, operand `number` of an op; InvalidArgument for anything else.
const Array& product_operand(PyObject* object, const char* op, int number);

// a @ b of two GPUArrays: a new reference.
PyObject* multiply_arrays(PyObject* a, PyObject* b);

}  // namespace gpk::bind

// The type of elementwise functions of one or two operands: a function of the module that can have
// methods, which pygpukit.core.ufunc_methods attaches (add.reduce, add.outer, ...). A call goes
// straight to the op, as that of a plain function does.
#pragma once

#include "bindings/op_function.h"

namespace gpk::bind {

void bind_ufunc_type(py::module_& m);

// Replaces a function that add_op added to the module.
void add_ufunc(py::module_& m, const OpFunction& function, int num_operands);

}  // namespace gpk::bind

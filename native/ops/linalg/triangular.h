// Triangular systems of any order, in place of the right-hand sides.
#pragma once

#include "core/array.h"

namespace gpk::ops::linalg {

// Stacks of one dtype and batch: t X = b (conjugate: conj(t) X = b). Recursive: halves are solved
// by triangular_leaf, the rest is GEMM.
void solve_lower(const Array& t, const Array& b, bool unit, bool conjugate, const char* op);
void solve_upper(const Array& t, const Array& b, bool unit, bool conjugate, const char* op);

}  // namespace gpk::ops::linalg

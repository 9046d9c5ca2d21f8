// Square matrices to real bidiagonal form, by Householder reflectors in panels.
#pragma once

#include <vector>

#include "core/array.h"
#include "jit/builtin.h"
#include "ops/linalg/qr.h"

namespace gpk::ops::linalg {

// A = Q_u B Q_v^H with B upper bidiagonal.
struct Bidiagonal {
  // Real [batch, 2, 2 n], of the tridiagonal matrix that [0, B^T; B, 0] is in the order of rows
  // v_0, u_0, v_1, u_1, ...: zeros; B's elements column by column, then 0.
  Array bands;
  std::vector<WyPanel> u, v;
};
// A stack scaled to elements of about 1. Without `vectors` no u and v.
Bidiagonal bidiagonal(const Array& a, bool vectors, const char* op);

void enumerate_bidiagonal(std::vector<jit::KernelSpec>& specs);

}  // namespace gpk::ops::linalg

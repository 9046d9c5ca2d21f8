// Hermitian matrices to real tridiagonal form, by Householder reflectors in panels.
#pragma once

#include <vector>

#include "core/array.h"
#include "jit/builtin.h"
#include "ops/linalg/qr.h"

namespace gpk::ops::linalg {

// H = Q T Q^H.
struct Tridiagonal {
  Array bands;  // real [batch, 2, n]: the diagonal of T; the elements below it, then 0
  std::vector<WyPanel> q;
};
// A stack of order two or more, scaled to elements of about 1. Without `vectors` no q.
Tridiagonal tridiagonal(const Array& h, bool vectors, const char* op);

void enumerate_tridiagonal(std::vector<jit::KernelSpec>& specs);

}  // namespace gpk::ops::linalg

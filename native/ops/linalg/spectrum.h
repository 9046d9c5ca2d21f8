// Spectra of Hermitian matrices of any order.
#pragma once

#include <cstdint>
#include <optional>

#include "core/array.h"
#include "core/dtype.h"

namespace gpk::ops::linalg {

// How many matrices of a stack to work on at a time: workspaces are several times their size.
std::int64_t matrices_at_a_time(std::int64_t n, DType dtype);

// a /= scale, powers of two [batch, 1, 1]. Status 1 where an element is not finite; such matrices
// become 0: iterations and scans see finite numbers only.
Array scale_in_place(const Array& a, const Array& status, const char* op);

struct Spectrum {
  Array w;                 // [batch, n], ascending, real
  std::optional<Array> v;  // [batch, n, n], columns
};
// Both triangles of a stack of order 1 or more, overwritten. Nothing waits; status as above.
Spectrum hermitian_spectrum(const Array& h, bool vectors, const Array& status, const char* op);

}  // namespace gpk::ops::linalg

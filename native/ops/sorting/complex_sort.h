// Sorts complex numbers by stable sorts of their parts.
#pragma once

#include "ops/sorting/row_sort.h"

namespace gpk::ops::sorting {

// sort_rows() for complex keys.
void sort_complex_rows(const RowSort& sort, const char* op);

}  // namespace gpk::ops::sorting

// Householder QR in panels, and what is made of it.
#pragma once

#include <vector>

#include "core/array.h"

namespace gpk::ops::linalg {

// A panel: H_0 H_1 ... = I - v t v^H on rows `first` and below.
struct WyPanel {
  Array v;  // unit lower trapezoid
  Array t;
  std::int64_t first;
};

// In place: R on and above the diagonal, anything below it.
std::vector<WyPanel> factor_qr(const Array& a, const char* op);

// c = Q c, in place; rows(c) are those of the factored matrix.
void apply_q(const std::vector<WyPanel>& panels, const Array& c, const char* op);

// The first `cols` columns of Q.
Array form_q(const std::vector<WyPanel>& panels, const Array& a, std::int64_t num_cols,
             const char* op);

}  // namespace gpk::ops::linalg

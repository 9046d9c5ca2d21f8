#include "ops/linalg/spectrum.h"

#include <algorithm>

#include "core/promote.h"
#include "core/view.h"
#include "ops/elementwise/copy.h"
#include "ops/elementwise/elementwise.h"
#include "ops/linalg/divide.h"
#include "ops/linalg/leaves.h"
#include "ops/linalg/plan.h"
#include "ops/linalg/qr.h"
#include "ops/linalg/stack.h"
#include "ops/linalg/tridiagonal.h"

namespace gpk::ops::linalg {
namespace {

Spectrum spectrum_by_division(const Array& h, bool vectors, const Array& status, const char* op) {
  const Tridiagonal reduced = tridiagonal(h, vectors, op);
  const TridiagonalSpectrum found = divide_and_conquer(reduced.bands, status, op);
  if (!vectors) return {found.w, std::nullopt};
  const Array v = copy_as(found.v, h.dtype(), op);
  apply_q(reduced.q, v, op);
  return {found.w, v};
}

// Scaled to a largest element of about 1.
Spectrum scaled_spectrum(const Array& h, bool vectors, const Array& status, const char* op) {
  const std::int64_t batch = h.shape()[0];
  const std::int64_t n = rows(h);
  if (n <= eigh_leaf_order(h.dtype())) {
    const EighLeaf leaf = eigh_leaf(h, status, false, false, op);
    return {leaf.w, leaf.v};
  }
  const std::int64_t count = matrices_at_a_time(n, h.dtype());
  if (batch <= count) return spectrum_by_division(h, vectors, status, op);
  Spectrum result{Array::empty({batch, n}, real_part_of(h.dtype()), h.device(), op), std::nullopt};
  if (vectors) result.v = Array::empty(h.shape(), h.dtype(), h.device(), op);
  for (std::int64_t first = 0; first < batch; first += count) {
    const auto part = [&](const Array& all) {
      return slice_axis(all, 0, first, std::min(count, batch - first), 1);
    };
    const Spectrum found = spectrum_by_division(part(h), vectors, part(status), op);
    copy_into(part(result.w), found.w, op);
    if (vectors) copy_into(part(*result.v), *found.v, op);
  }
  return result;
}

}  // namespace

std::int64_t matrices_at_a_time(std::int64_t n, DType dtype) {
  constexpr std::int64_t kBytes = std::int64_t{1} << 28;
  const std::int64_t bytes = n * n * static_cast<std::int64_t>(itemsize(dtype));
  return std::max<std::int64_t>(kBytes / bytes, 1);
}

Array scale_in_place(const Array& a, const Array& status, const char* op) {
  const Array scale = power_of_two_scale(a, status, op);
  divide(a, scale, &a);
  const Array good = equal(reshape(status, {a.shape()[0], 1, 1}, op), Scalar(std::int64_t{0}));
  where(good, a, Scalar(0.0), &a);
  return scale;
}

Spectrum hermitian_spectrum(const Array& h, bool vectors, const Array& status, const char* op) {
  const Array scale = scale_in_place(h, status, op);
  const Spectrum result = scaled_spectrum(h, vectors, status, op);
  multiply(result.w, squeeze(scale, {2}, op), &result.w);
  return result;
}

}  // namespace gpk::ops::linalg

#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "core/promote.h"
#include "core/view.h"
#include "ops/cpu_backend.h"
#include "ops/creation/triangle.h"
#include "ops/elementwise/copy.h"
#include "ops/elementwise/elementwise.h"
#include "ops/elementwise/fill.h"
#include "ops/linalg/check.h"
#include "ops/linalg/linalg.h"
#include "ops/linalg/spectrum.h"
#include "ops/linalg/stack.h"

namespace gpk::ops {
namespace {

using namespace linalg;

// Both triangles, from one of them; the diagonal is real.
Array hermitian(const Array& a, bool upper, const char* op) {
  const Array half = upper ? triu(a, 0) : tril(a, 0);
  const Array strict = upper ? triu(a, 1) : tril(a, -1);
  const Array h = add(half, adjoint(strict, op));
  if (is_complex(h.dtype()))
    fill(complex_part(core::diagonal(h, 0, 1, 2, op), true), Scalar(0.0), op);
  return h;
}

}  // namespace

EighResult eigh(const Array& x, bool upper, bool vectors, const LinalgCall& call) {
  const char* const op = call.op;
  check_square(x, "x", op);
  const DType dtype = compute_dtype(x, "x", op);
  const Dims w_shape = joined(batch_of(x), {rows_of(x)});
  const Array status = new_status(batch_of(x), x.device(), op);
  const auto done = [&](EighResult result) {
    finish(status, {&result.w}, call, "has eigenvalues that did not converge");
    if (result.v && !call.check) finish(status, {&*result.v}, call, "");
    return result;
  };
  if (on_reference(x, call) || x.size() == 0) {
    EighResult result{Array::empty(w_shape, real_part_of(dtype), x.device(), op), std::nullopt};
    if (vectors) result.v = Array::empty(x.shape(), dtype, x.device(), op);
    CpuCall reference{"linalg_eigh", {cast(x, dtype, op)}, {result.w, status}, {}};
    if (vectors) reference.outs.push_back(*result.v);
    reference.options.emplace_back("upper", Scalar(upper));
    if (x.size() > 0) run_on_cpu(std::move(reference));
    return done(std::move(result));
  }
  const Array h = hermitian(copy_stack(x, dtype, op), upper, op);
  const Array flat = reshape(status, {h.shape()[0]}, op);
  const Spectrum spectrum = hermitian_spectrum(h, vectors, flat, op);
  EighResult result{reshape(spectrum.w, w_shape, op), std::nullopt};
  if (vectors) result.v = reshape(*spectrum.v, x.shape(), op);
  return done(std::move(result));
}

EigResult eig(const Array& x, bool vectors, const LinalgCall& call) {
  const char* const op = call.op;
  check_square(x, "x", op);
  const DType dtype = compute_dtype(x, "x", op);
  if (x.device().is_cuda())
    throw Error(cat(op, ": no GPU algorithm for general matrices; x is on ", to_string(x.device()),
                    ", expected the CPU"));
  const DType wide =
      real_part_of(dtype) == DType::kFloat32 ? DType::kComplex64 : DType::kComplex128;
  EigResult result{Array::empty(joined(batch_of(x), {rows_of(x)}), wide, x.device(), op),
                   std::nullopt};
  if (vectors) result.v = Array::empty(x.shape(), wide, x.device(), op);
  const Array status = new_status(batch_of(x), x.device(), op);
  CpuCall reference{"linalg_eig", {cast(x, dtype, op)}, {result.w, status}, {}};
  if (vectors) reference.outs.push_back(*result.v);
  if (x.size() > 0) run_on_cpu(std::move(reference));
  finish(status, {&result.w}, call, "has eigenvalues that did not converge");
  return result;
}

}  // namespace gpk::ops

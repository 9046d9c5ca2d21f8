#include "ops/matmul/linear.h"

#include "base/error.h"
#include "base/text.h"
#include "core/view.h"
#include "ops/matmul/desc.h"
#include "ops/matmul/layer.h"
#include "ops/matmul/result.h"
#include "ops/matmul/swiglu.h"

namespace gpk::ops {
namespace {

void check_weights(const Array& x, const Array& w, const LinearOptions& options, const char* op) {
  gemm::check_layer_dtype(x, "x", op);
  gemm::check_like(w, "w", x, "x", op);
  if (x.ndim() == 0)
    throw InvalidArgument(cat(op, ": x has shape (), expected at least one dimension"));
  if (w.ndim() != 2)
    throw InvalidArgument(
        cat(op, ": w has shape ", to_string(w.shape()), ", expected two dimensions"));
  if (w.shape()[1] != x.shape()[x.ndim() - 1])
    throw InvalidArgument(cat(op, ": dimension mismatch: x has shape ", to_string(x.shape()),
                              ", w has shape ", to_string(w.shape()),
                              ", their last dimensions differ"));
  if (options.swiglu && w.shape()[0] % 2 != 0)
    throw InvalidArgument(cat(op, ": w has shape ", to_string(w.shape()),
                              ", swiglu needs an even number of rows: gate, then up"));
  if (!options.bias) return;
  gemm::check_like(*options.bias, "bias", x, "x", op);
  if (options.bias->ndim() != 1 || options.bias->size() != w.shape()[0])
    throw InvalidArgument(cat(op, ": bias has shape ", to_string(options.bias->shape()),
                              ", w has shape ", to_string(w.shape()), ", expected (", w.shape()[0],
                              ",)"));
}

Dims with_last(const Dims& shape, std::int64_t last) {
  Dims changed = shape;
  changed[changed.size() - 1] = last;
  return changed;
}

// One GEMM for both halves of w, then one pass over the two halves of its result.
Array linear_swiglu(const Array& x, const Array& w, const LinearOptions& options, const char* op) {
  const std::int64_t n = w.shape()[0] / 2;
  const Dims shape = with_last(x.shape(), n);
  std::optional<Array> residual;
  if (options.residual) residual = gemm::check_residual(*options.residual, shape, x, op);
  const Array* read_late = residual ? &*residual : nullptr;
  if (residual && options.out && same_place(*options.out, *residual)) read_late = nullptr;
  return gemm::fill_result(options.out, shape, x.dtype(), x.device(),
                           {&x, &w, options.bias ? &*options.bias : nullptr, read_late}, op,
                           [&](const Array& result) {
                             MatmulOptions sums;
                             sums.use_tf32 = options.use_tf32;
                             sums.batch_invariant = options.batch_invariant;
                             sums.few_rows = options.few_rows;
                             sums.dtype = gemm::accumulator(x.dtype());
                             const Array both = matmul(x, transpose(w, op), sums, op);
                             gemm::run_swiglu(both, options.bias, residual, result, op);
                           });
}

}  // namespace

Array linear(const Array& x, const Array& w, const LinearOptions& options, const char* op) {
  check_weights(x, w, options, op);
  if (options.swiglu) return linear_swiglu(x, w, options, op);
  MatmulOptions fused;
  fused.out = options.out;
  fused.use_tf32 = options.use_tf32;
  fused.batch_invariant = options.batch_invariant;
  fused.few_rows = options.few_rows;
  fused.bias = options.bias;
  fused.activation = options.activation;
  if (options.residual)
    fused.residual =
        gemm::check_residual(*options.residual, with_last(x.shape(), w.shape()[0]), x, op);
  return matmul(x, transpose(w, op), fused, op);
}

}  // namespace gpk::ops

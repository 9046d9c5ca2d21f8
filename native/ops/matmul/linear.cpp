#include "ops/matmul/linear.h"

#include "base/error.h"
#include "base/text.h"
#include "core/context.h"
#include "core/view.h"
#include "ops/chain/recorder.h"
#include "ops/matmul/engine_gemv.h"
#include "ops/matmul/layer.h"
#include "ops/matmul/result.h"
#include "ops/matmul/swiglu.h"
#include "ops/nn/norm.h"

namespace gpk::ops {

Array gemm::normalised(const Array& x, const LinearNorm& norm, bool few_rows) {
  const NormOptions options{norm.weight, norm.bias, norm.eps, norm.offset, few_rows};
  return norm.centred ? layernorm(x, options, std::nullopt) : rmsnorm(x, options, std::nullopt);
}

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
  if (options.few_rows && x.size() > kMaxFewRows * w.shape()[1])
    throw InvalidArgument(cat(op, ": x has shape ", to_string(x.shape()), ", few_rows takes up to ",
                              kMaxFewRows, " rows"));
  if (options.norm &&
      (options.norm->weight.ndim() != 1 || options.norm->weight.size() != w.shape()[1]))
    throw InvalidArgument(cat(op, ": norm has shape ", to_string(options.norm->weight.shape()),
                              ", w has shape ", to_string(w.shape()), ", expected (", w.shape()[1],
                              ",)"));
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
                             sums.tf32x3 = options.tf32x3;
                             sums.float64_int8 = options.float64_int8;
                             sums.batch_invariant = options.batch_invariant;
                             sums.dtype = gemm::accumulator(x.dtype());
                             const Array both = matmul(x, transpose(w, op), sums, op);
                             gemm::run_swiglu(both, options.bias, residual, result, op);
                           });
}

// GEMM and epilogue of few rows in one launch, with the gate where `gated`.
gemm::GemmCall few_rows_call(const Array& x, const Array& w, const Array& result, bool gated,
                             const char* op) {
  gemm::GemmCall call{x, transpose(slice_axis(w, 0, 0, result.shape()[1], 1), op), result};
  call.batch_invariant = call.few_rows = true;
  call.gated = gated;
  return call;
}

// x normalised by the GEMM's launch where that takes it, else before it.
void run_with_norm(gemm::GemmCall call, const std::optional<LinearNorm>& norm,
                   const gemm::GemmMachine& machine, const char* op) {
  chain::Recorder* const recorder = chain::Recorder::current();
  const bool same_dtype = norm && norm->weight.dtype() == call.a.dtype() &&
                          (!norm->bias || norm->bias->dtype() == call.a.dtype());
  if (recorder != nullptr && same_dtype) {
    recorder->norm_next({contiguous(norm->weight, op),
                         norm->bias ? std::optional(contiguous(*norm->bias, op)) : std::nullopt,
                         static_cast<float>(norm->eps), static_cast<float>(norm->offset),
                         norm->centred});
  } else if (norm) {
    call.norm = gemm::InputNorm{contiguous(norm->weight, op), static_cast<float>(norm->eps),
                                static_cast<float>(norm->offset)};
    if (!same_dtype || norm->centred || norm->bias || !takes_few_rows(make_desc(call), machine)) {
      call.norm.reset();
      call.a = gemm::normalised(call.a, *norm, true);
    }
  }
  run_gemm(call, op);
}

// `residual` has the result's shape. False: not for these kernels, whatever the number of rows.
bool run_few_rows(const Array& x, const Array& w, const LinearOptions& options,
                  const std::optional<Array>& residual, const Array& result, const char* op) {
  if (!x.device().is_cuda() || x.ndim() != 2 || (options.swiglu && options.bias)) return false;
  const gemm::GemmMachine machine = gemm::gemm_machine_of(Context::get(x.device().index));
  gemm::GemmCall call = few_rows_call(x, w, result, options.swiglu, op);
  call.epilogue.bias = options.bias;
  call.epilogue.activation = options.activation;
  call.epilogue.residual = residual;
  if (takes_few_rows(make_desc(call), machine)) {
    run_with_norm(call, options.norm, machine, op);
    return true;
  }
  if (!options.swiglu) return false;
  // More rows than the gate takes: the same sums, and a pass over both halves.
  const Array both =
      Array::empty({x.shape()[0], w.shape()[0]}, gemm::accumulator(x.dtype()), x.device(), op);
  const gemm::GemmCall halves = few_rows_call(x, w, both, false, op);
  if (!takes_few_rows(make_desc(halves), machine)) return false;
  run_with_norm(halves, options.norm, machine, op);
  gemm::run_swiglu(both, std::nullopt, residual, result, op);
  return true;
}

// Up to kMaxFewRows rows, whose results agree with those of other calls of that kind.
Array linear_few_rows(const Array& x, const Array& w, const LinearOptions& options,
                      const char* op) {
  LinearOptions rest = options;
  rest.few_rows = false;
  rest.batch_invariant = true;
  const Dims shape = with_last(x.shape(), options.swiglu ? w.shape()[0] / 2 : w.shape()[0]);
  std::optional<Array> residual;
  if (options.residual) residual = gemm::check_residual(*options.residual, shape, x, op);
  const Array* read_late = residual ? &*residual : nullptr;
  if (residual && options.out && same_place(*options.out, *residual)) read_late = nullptr;
  return gemm::fill_result(options.out, shape, x.dtype(), x.device(),
                           {&x, &w, options.bias ? &*options.bias : nullptr, read_late}, op,
                           [&](const Array& result) {
                             if (run_few_rows(x, w, options, residual, result, op)) return;
                             rest.out = result;
                             linear(x, w, rest, op);
                           });
}

}  // namespace

Array linear(const Array& x, const Array& w, const LinearOptions& options, const char* op) {
  check_weights(x, w, options, op);
  if (options.quantize_input)
    throw InvalidArgument(cat(op,
                              ": quantize_input is True, w is an array; expected int8 or fp8 "
                              "packed weights"));
  if (options.few_rows) return linear_few_rows(x, w, options, op);
  if (options.norm) {
    LinearOptions rest = options;
    rest.norm.reset();
    return linear(gemm::normalised(x, *options.norm, false), w, rest, op);
  }
  if (options.swiglu) return linear_swiglu(x, w, options, op);
  MatmulOptions fused;
  fused.out = options.out;
  fused.use_tf32 = options.use_tf32;
  fused.tf32x3 = options.tf32x3;
  fused.float64_int8 = options.float64_int8;
  fused.batch_invariant = options.batch_invariant;
  fused.bias = options.bias;
  fused.activation = options.activation;
  if (options.residual)
    fused.residual =
        gemm::check_residual(*options.residual, with_last(x.shape(), w.shape()[0]), x, op);
  return matmul(x, transpose(w, op), fused, op);
}

}  // namespace gpk::ops

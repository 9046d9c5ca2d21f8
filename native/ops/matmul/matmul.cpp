#include "ops/matmul/matmul.h"

#include "base/error.h"
#include "base/text.h"
#include "core/promote.h"
#include "core/view.h"
#include "ops/checks.h"
#include "ops/cpu_backend.h"
#include "ops/elementwise/copy.h"
#include "ops/matmul/gemm_call.h"
#include "ops/matmul/precision.h"
#include "ops/matmul/result.h"
#include "ops/matmul/unfused_epilogue.h"

namespace gpk::ops {
namespace {

std::string both_shapes(const Array& x1, const Array& x2) {
  return cat("x1 has shape ", to_string(x1.shape()), ", x2 has shape ", to_string(x2.shape()));
}

void check_rank(const Array& x1, const Array& x2, const char* op) {
  for (const int i : {0, 1}) {
    if ((i == 0 ? x1 : x2).ndim() > 0) continue;
    throw InvalidArgument(
        cat(op, ": Input operand ", i,
            " does not have enough dimensions (has 0, requires 1): ", both_shapes(x1, x2)));
  }
}

void check_core(std::int64_t size1, std::int64_t size2, int dimension, const Array& x1,
                const Array& x2, const char* op) {
  if (size1 != size2)
    throw InvalidArgument(cat(op, ": Input operand 1 has a mismatch in its core dimension ",
                              dimension, " (dimension mismatch: size ", size2,
                              " is different from ", size1, "): ", both_shapes(x1, x2)));
}

Dims leading(const Dims& shape, int dropped) {
  return Dims(shape.span().first(static_cast<std::size_t>(shape.size() - dropped)));
}

Dims joined(const Dims& first, std::initializer_list<std::int64_t> last) {
  Dims all = Dims::filled(first.size() + static_cast<int>(last.size()), 0);
  std::copy(last.begin(), last.end(), std::copy(first.begin(), first.end(), all.data()));
  return all;
}

// The common leading dimensions; the message has the whole shapes.
Dims broadcast_batch(const Dims& batch1, const Dims& batch2, const Array& x1, const Array& x2,
                     const char* op) {
  try {
    return broadcast_shapes(batch1, batch2, op);
  } catch (const InvalidArgument&) {
    throw InvalidArgument(
        cat(op, ": operands could not be broadcast together: ", both_shapes(x1, x2)));
  }
}

Array with_batch(const Array& array, const Dims& batch, const char* op) {
  const int rank = array.ndim();
  return broadcast_to(array, joined(batch, {array.shape()[rank - 2], array.shape()[rank - 1]}), op);
}

void allow_precisions(gemm::GemmCall& call, std::optional<bool> use_tf32,
                      std::optional<bool> float64_int8, bool tf32x3) {
  if (call.a.dtype() == DType::kFloat32) {
    call.tf32 = gemm::tf32_allowed(use_tf32);
    call.tf32x3 = gemm::tf32x3_allowed(use_tf32, tf32x3);
  } else if (call.a.dtype() == DType::kFloat64) {
    call.float64_int8 = gemm::float64_int8_allowed(float64_int8);
  }
}

void check_precision(bool wanted, const char* precision, DType operand, DType expected,
                     const char* op) {
  if (wanted && operand != expected)
    throw InvalidArgument(InvalidArgument::Kind::kType,
                          cat(op, ": precision is '", precision, "', operands are ", name(operand),
                              ", expected ", name(expected)));
}

void check_tf32(std::optional<bool> use_tf32, DType dtype, const char* op) {
  if (use_tf32.value_or(false) && dtype != DType::kFloat32)
    throw Error(cat(op, ": use_tf32=True needs float32 operands, got ", name(dtype)));
}

}  // namespace

DType gemm::check_operands(const Array& x1, const Array& x2, const char* op) {
  for (const Array* x : {&x1, &x2}) {
    if (is_storage_only(x->dtype()))
      throw InvalidArgument(InvalidArgument::Kind::kType,
                            cat(op, ": ", x == &x1 ? "x1" : "x2", " has dtype ", name(x->dtype()),
                                ", a storage type; cast it first"));
  }
  if (!(x1.device() == x2.device()))
    throw InvalidArgument(
        cat(op, ": x1 is on ", to_string(x1.device()), ", x2 on ", to_string(x2.device())));
  return promote_types(x1.dtype(), x2.dtype(), op);
}

Array gemm::multiply_stacks(const Array& a, const Array& b, const char* op) {
  const Array c = Array::empty(
      joined(leading(a.shape(), 2), {a.shape()[a.ndim() - 2], b.shape()[b.ndim() - 1]}), a.dtype(),
      a.device(), op);
  if (c.size() == 0) return c;
  gemm::GemmCall call{a, b, c};
  allow_precisions(call, {}, {}, false);
  run_gemm(call, op);
  return c;
}

namespace {

// What the checks find out.
struct Checked {
  Dims batch;
  Dims shape;  // of the result
  bool row = false, column = false;
  DType operand = DType::kFloat32;  // what the operands are cast to
  DType result = DType::kFloat32;
};

// The dtype of accumulators, which are kept as they are.
bool is_sum_of(DType operand, DType result) {
  if (result == DType::kInt32) return operand == DType::kInt8;
  return result == DType::kFloat32 && (operand == DType::kFloat16 || operand == DType::kBFloat16);
}

void resolve_dtypes(Checked& checked, DType common, std::optional<DType> dtype, const char* op) {
  checked.operand = common;
  checked.result = dtype.value_or(common);
  if (checked.result == common) return;
  if (is_storage_only(checked.result) || !can_cast_same_kind(common, checked.result))
    throw InvalidArgument(InvalidArgument::Kind::kType,
                          cat(op, ": dtype is ", name(checked.result), ", which operands of ",
                              name(common), " cannot be cast to"));
  if (!is_sum_of(common, checked.result)) checked.operand = checked.result;
}

void check_part(const Array& part, const char* argument, const Array& x1, DType dtype,
                const char* op) {
  if (part.dtype() != dtype)
    throw InvalidArgument(InvalidArgument::Kind::kType,
                          cat(op, ": ", argument, " has dtype ", name(part.dtype()),
                              ", the result has ", name(dtype)));
  check_device(part, argument, x1.device(), "the operands", op);
}

void check_parts(const Checked& checked, const Array& x1, std::int64_t n,
                 const MatmulOptions& options, const char* op) {
  gemm::check_epilogue(checked.result, options, op);
  if (options.bias) {
    check_part(*options.bias, "bias", x1, checked.result, op);
    if (options.bias->ndim() != 1 || options.bias->size() != n)
      throw InvalidArgument(
          cat(op, ": bias has shape ", to_string(options.bias->shape()), ", expected (", n, ",)"));
  }
  if (!options.residual) return;
  check_part(*options.residual, "residual", x1, checked.result, op);
  try {
    broadcast_to(*options.residual, checked.shape, op);
  } catch (const InvalidArgument&) {
    throw InvalidArgument(cat(op, ": residual has shape ", to_string(options.residual->shape()),
                              ", the result has shape ", to_string(checked.shape)));
  }
}

Checked check_matmul(const Array& x1, const Array& x2, const MatmulOptions& options,
                     const char* op) {
  check_rank(x1, x2, op);
  Checked checked;
  resolve_dtypes(checked, gemm::check_operands(x1, x2, op), options.dtype, op);
  checked.row = x1.ndim() == 1;
  checked.column = x2.ndim() == 1;
  check_core(x1.shape()[x1.ndim() - 1], x2.shape()[checked.column ? 0 : x2.ndim() - 2],
             checked.column ? 0 : x2.ndim() - 2, x1, x2, op);
  check_tf32(options.use_tf32, checked.operand, op);
  check_precision(options.tf32x3, "3xtf32", checked.operand, DType::kFloat32, op);
  check_precision(options.float64_int8.value_or(false), "float64_int8", checked.operand,
                  DType::kFloat64, op);
  checked.batch = broadcast_batch(leading(x1.shape(), checked.row ? 1 : 2),
                                  leading(x2.shape(), checked.column ? 1 : 2), x1, x2, op);
  const std::int64_t m = checked.row ? 1 : x1.shape()[x1.ndim() - 2];
  const std::int64_t n = checked.column ? 1 : x2.shape()[x2.ndim() - 1];
  checked.shape = checked.row && checked.column ? checked.batch
                  : checked.row                 ? joined(checked.batch, {n})
                  : checked.column              ? joined(checked.batch, {m})
                                                : joined(checked.batch, {m, n});
  check_parts(checked, x1, n, options, op);
  return checked;
}

// The result's shape to that of a stack of matrices.
Array as_stack(const Checked& checked, const Array& array, const char* op) {
  const int rank = checked.batch.size();
  const Array with_row = checked.row ? expand_dims(array, {rank}, op) : array;
  return checked.column ? expand_dims(with_row, {rank + 1}, op) : with_row;
}

gemm::GemmCall make_call(const Checked& checked, const Array& x1, const Array& x2,
                         const Array& result, const MatmulOptions& options, bool with_epilogue,
                         const char* op) {
  const Array a = cast(x1, checked.operand, op);
  const Array b = cast(x2, checked.operand, op);
  gemm::GemmCall call{with_batch(checked.row ? expand_dims(a, {0}, op) : a, checked.batch, op),
                      with_batch(checked.column ? expand_dims(b, {1}, op) : b, checked.batch, op),
                      as_stack(checked, result, op)};
  allow_precisions(call, options.use_tf32, options.float64_int8, options.tf32x3);
  call.batch_invariant = options.batch_invariant;
  if (!with_epilogue) return call;
  gemm::Epilogue& epilogue = call.epilogue;
  epilogue.alpha = static_cast<float>(options.alpha);
  epilogue.bias = options.bias;
  epilogue.activation = options.activation;
  if (options.residual && options.beta != 0.0) {
    epilogue.beta = static_cast<float>(options.beta);
    epilogue.residual = as_stack(checked, broadcast_to(*options.residual, checked.shape, op), op);
  }
  return call;
}

// The hot path: matrices of one dtype, no options.
Array multiply_matrices(const Array& x1, const Array& x2, std::optional<bool> use_tf32) {
  gemm::GemmCall call{
      x1, x2, Array::empty({x1.shape()[0], x2.shape()[1]}, x1.dtype(), x1.device(), "matmul")};
  if (call.c.size() == 0) return call.c;
  allow_precisions(call, use_tf32, {}, false);
  run_gemm(call, "matmul");
  return call.c;
}

}  // namespace

Array matmul(const Array& x1, const Array& x2, const std::optional<Array>& out,
             std::optional<bool> use_tf32) {
  if (!out && x1.ndim() == 2 && x2.ndim() == 2 && x1.shape()[1] == x2.shape()[0] &&
      x1.dtype() == x2.dtype() && !is_storage_only(x1.dtype()) && x1.device() == x2.device()) {
    check_tf32(use_tf32, x1.dtype(), "matmul");
    return multiply_matrices(x1, x2, use_tf32);
  }
  MatmulOptions options;
  options.out = out;
  options.use_tf32 = use_tf32;
  return matmul(x1, x2, options);
}

Array matmul(const Array& x1, const Array& x2, const MatmulOptions& options, const char* op) {
  const Checked checked = check_matmul(x1, x2, options, op);
  const bool fused = gemm::has_epilogue(checked.result, options);
  // A residual in the result's own place is read before it is overwritten.
  const Array* residual = options.residual ? &*options.residual : nullptr;
  if (residual != nullptr && options.out && same_place(*options.out, *residual)) residual = nullptr;
  return gemm::fill_result(
      options.out, checked.shape, checked.result, x1.device(),
      {&x1, &x2, options.bias ? &*options.bias : nullptr, residual}, op, [&](const Array& result) {
        if (fused) {
          gemm::run_gemm(make_call(checked, x1, x2, result, options, true, op), op);
          return;
        }
        const Array sums = Array::empty(checked.shape, checked.result, x1.device(), op);
        gemm::run_gemm(make_call(checked, x1, x2, sums, options, false, op), op);
        gemm::apply_unfused(sums, options, result);
      });
}

namespace {

// The summed axis last, the others broadcast.
Array summed_last(const Array& array, int axis, const Dims& batch, const char* op) {
  Dims order = Dims::filled(array.ndim(), axis);
  for (int i = 0, at = 0; i < array.ndim(); ++i)
    if (i != axis) order[at++] = i;
  const Array moved = permute(array, order, op);
  return broadcast_to(moved, joined(batch, {array.shape()[axis]}), op);
}

Dims without(const Dims& shape, int axis) {
  Dims rest = Dims::filled(shape.size() - 1, 0);
  for (int i = 0, at = 0; i < shape.size(); ++i)
    if (i != axis) rest[at++] = shape[i];
  return rest;
}

}  // namespace

Array vecdot(const Array& x1, const Array& x2, std::int64_t axis, const std::optional<Array>& out) {
  constexpr const char* op = "vecdot";
  check_rank(x1, x2, op);
  const DType dtype = gemm::check_operands(x1, x2, op);
  const int axis1 = normalize_axis(axis, x1.ndim(), op);
  const int axis2 = normalize_axis(axis, x2.ndim(), op);
  check_core(x1.shape()[axis1], x2.shape()[axis2], axis2, x1, x2, op);
  const Dims batch =
      broadcast_batch(without(x1.shape(), axis1), without(x2.shape(), axis2), x1, x2, op);
  return gemm::fill_result(
      out, batch, dtype, x1.device(), {&x1, &x2}, op, [&](const Array& result) {
        const Array a = summed_last(cast(x1, dtype, op), axis1, batch, op);
        const Array b = summed_last(cast(x2, dtype, op), axis2, batch, op);
        if (!result.device().is_cuda()) {
          run_on_cpu({op, {a, b}, {result}});
          return;
        }
        const int rank = batch.size();
        gemm::GemmCall call{expand_dims(a, {rank}, op), expand_dims(b, {rank + 1}, op),
                            expand_dims(result, {rank, rank + 1}, op)};
        call.conjugate = is_complex(dtype);
        run_gemm(call, op);
      });
}

}  // namespace gpk::ops

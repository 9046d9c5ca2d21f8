#include "ops/matmul/scaled.h"

#include "core/error.h"
#include "core/promote.h"
#include "core/text.h"
#include "core/view.h"
#include "ops/elementwise/copy.h"
#include "ops/elementwise/elementwise.h"
#include "ops/matmul/product.h"
#include "ops/matmul/result.h"
#include "ops/reduction/reduce.h"

namespace gpk::ops {
namespace {

constexpr const char* kOp = "scaled_matmul";

bool is_fp8(DType dtype) { return dtype == DType::kFloat8E4M3FN || dtype == DType::kFloat8E5M2; }

void bad_type(const std::string& message) {
  throw InvalidArgument(InvalidArgument::Kind::kType, message);
}

void check_operand_pair(const Array& a, const Array& b) {
  const bool fits = (is_fp8(a.dtype()) && is_fp8(b.dtype())) ||
                    (a.dtype() == DType::kInt8 && b.dtype() == DType::kInt8);
  if (!fits)
    bad_type(cat(kOp, ": a has dtype ", name(a.dtype()), ", b has ", name(b.dtype()),
                 ", expected float8_e4m3fn or float8_e5m2 for both, or int8 for both"));
  if (!(a.device() == b.device()))
    throw InvalidArgument(
        cat(kOp, ": a is on ", to_string(a.device()), ", b on ", to_string(b.device())));
  if (a.ndim() < 2 || b.ndim() != 2)
    throw InvalidArgument(cat(kOp, ": a has shape ", to_string(a.shape()), ", b has shape ",
                              to_string(b.shape()), ", expected (..., m, k) and (k, n)"));
  if (a.shape()[a.ndim() - 1] != b.shape()[0])
    throw InvalidArgument(cat(kOp, ": dimension mismatch: a has shape ", to_string(a.shape()),
                              ", b has shape ", to_string(b.shape())));
}

DType result_dtype(std::optional<DType> asked) {
  const DType dtype = asked.value_or(DType::kFloat32);
  if (dtype != DType::kFloat32 && dtype != DType::kFloat16 && dtype != DType::kBFloat16)
    bad_type(cat(kOp, ": dtype is ", name(dtype), ", expected float32, float16 or bfloat16"));
  return dtype;
}

// A scale array as 1-D: one element, or `count` in the order of `shape` or of `shape` and a 1.
Array check_scale(const Array& scale, const char* argument, const Dims& shape, const Dims& other,
                  const Array& a) {
  if (scale.dtype() != DType::kFloat32)
    bad_type(cat(kOp, ": ", argument, " has dtype ", name(scale.dtype()), ", expected float32"));
  if (!(scale.device() == a.device()))
    throw InvalidArgument(cat(kOp, ": ", argument, " is on ", to_string(scale.device()),
                              ", the operands on ", to_string(a.device())));
  const bool one = scale.size() == 1 && scale.ndim() <= 2;
  if (!one && !(scale.shape() == shape) && !(scale.shape() == other))
    throw InvalidArgument(cat(kOp, ": ", argument, " has shape ", to_string(scale.shape()),
                              ", expected one element, ", to_string(shape), " or ",
                              to_string(other)));
  return reshape(scale, {-1}, kOp);
}

Dims joined(const Dims& first, std::int64_t last) {
  Dims all = Dims::filled(first.size() + 1, last);
  std::copy(first.begin(), first.end(), all.data());
  return all;
}

void check_bias(const Array& bias, std::int64_t n, DType dtype, const Array& a) {
  if (bias.dtype() != dtype)
    bad_type(cat(kOp, ": bias has dtype ", name(bias.dtype()), ", the result has ", name(dtype)));
  if (!(bias.device() == a.device()))
    throw InvalidArgument(cat(kOp, ": bias is on ", to_string(bias.device()), ", the operands on ",
                              to_string(a.device())));
  if (bias.ndim() != 1 || bias.size() != n)
    throw InvalidArgument(
        cat(kOp, ": bias has shape ", to_string(bias.shape()), ", expected (", n, ",)"));
}

// int8: sums in int32, then scales and bias one after the other, in float32.
void run_int8(const Product& product) {
  const Epilogue& epilogue = product.epilogue;
  Product sums{product.a, product.b,
               Array::empty(product.c.shape(), DType::kInt32, product.c.device(), kOp)};
  run_product(sums, kOp);
  const Array values = copy_as(sums.c, DType::kFloat32, kOp);
  if (epilogue.alpha != 1.0f) multiply(values, Scalar(double{epilogue.alpha}), &values);
  if (epilogue.scale_a) multiply(values, expand_dims(*epilogue.scale_a, {1}, kOp), &values);
  if (epilogue.scale_b) multiply(values, *epilogue.scale_b, &values);
  if (epilogue.bias) add(values, *epilogue.bias, &values);
  copy_into(product.c, values, kOp);
}

}  // namespace

Array scaled_matmul(const Array& a, const Array& b, const Scale& scale_a, const Scale& scale_b,
                    const ScaledOptions& options) {
  check_operand_pair(a, b);
  const DType dtype = result_dtype(options.dtype);
  const std::int64_t k = b.shape()[0];
  const std::int64_t n = b.shape()[1];
  const Dims rows(a.shape().span().first(static_cast<std::size_t>(a.ndim() - 1)));
  Epilogue epilogue;
  double alpha = 1.0;
  if (const auto* array = std::get_if<Array>(&scale_a)) {
    epilogue.scale_a = check_scale(*array, "scale_a", rows, joined(rows, 1), a);
  } else {
    alpha *= std::get<double>(scale_a);
  }
  if (const auto* array = std::get_if<Array>(&scale_b)) {
    epilogue.scale_b = check_scale(*array, "scale_b", {n}, {1, n}, a);
  } else {
    alpha *= std::get<double>(scale_b);
  }
  epilogue.alpha = static_cast<float>(alpha);
  if (options.bias) check_bias(*options.bias, n, dtype, a);
  epilogue.bias = options.bias;
  const auto input = [](const std::optional<Array>& array) { return array ? &*array : nullptr; };
  return fill_result(
      options.out, joined(rows, n), dtype, a.device(),
      {&a, &b, input(epilogue.scale_a), input(epilogue.scale_b), input(epilogue.bias)}, kOp,
      [&](const Array& result) {
        const std::int64_t m = result.size() / n;
        const auto view = try_reshape(result, {m, n});
        const Array c = view ? *view : Array::empty({m, n}, dtype, a.device(), kOp);
        Product product{reshape(a, {m, k}, kOp), b, c};
        product.epilogue = epilogue;
        product.fast_accum = options.fast_accum && a.dtype() != DType::kInt8;
        if (a.dtype() == DType::kInt8) {
          run_int8(product);
        } else {
          run_product(product, kOp);
        }
        if (!view) copy_into(result, reshape(c, result.shape(), kOp), kOp);
      });
}

Quantized quantize_e4m3(const Array& x, bool transposed, const char* op) {
  constexpr double kMaxE4M3 = 448.0;
  const Array largest = reduce(OpId::max, abs(x));
  const Array scale = multiply(largest, Scalar(1.0 / kMaxE4M3));
  const Array safe = where(equal(scale, Scalar(0.0)), Scalar(1.0), scale);
  const Array scaled = divide(x, safe);
  if (!transposed) return {copy_as(scaled, DType::kFloat8E4M3FN, op), safe};
  const Array memory =
      Array::empty({x.shape()[1], x.shape()[0]}, DType::kFloat8E4M3FN, x.device(), op);
  const Array values = transpose(memory, op);
  copy_into(values, scaled, op);
  return {values, safe};
}

Array matmul_fp8(const Array& a, const Array& b, const std::optional<Array>& out, const char* op) {
  for (const Array* x : {&a, &b}) {
    const char* argument = x == &a ? "a" : "b";
    if (x->dtype() != DType::kFloat32)
      bad_type(cat(op, ": ", argument, " has dtype ", name(x->dtype()), ", expected float32"));
    if (x->ndim() != 2)
      throw InvalidArgument(
          cat(op, ": requires 2D arrays, ", argument, " has shape ", to_string(x->shape())));
  }
  if (a.shape()[1] != b.shape()[0])
    throw InvalidArgument(cat(op, ": dimension mismatch: a has shape ", to_string(a.shape()),
                              ", b has shape ", to_string(b.shape())));
  ScaledOptions options;
  options.out = out;
  if (a.size() == 0 || b.size() == 0) {  // nothing to find a scale in
    const Array empty_a = Array::empty(a.shape(), DType::kFloat8E4M3FN, a.device(), op);
    const Array empty_b = Array::empty(b.shape(), DType::kFloat8E4M3FN, b.device(), op);
    return scaled_matmul(empty_a, empty_b, 1.0, 1.0, options);
  }
  const Quantized left = quantize_e4m3(a, false, op);
  const Quantized right = quantize_e4m3(b, true, op);  // K contiguous in both
  return scaled_matmul(left.values, right.values, left.scale, right.scale, options);
}

}  // namespace gpk::ops

#include "ops/matmul/unfused_epilogue.h"

#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "core/promote.h"
#include "ops/elementwise/copy.h"
#include "ops/elementwise/elementwise.h"

namespace gpk::ops::gemm {
namespace {

bool is_exact(double x) { return static_cast<double>(static_cast<float>(x)) == x || x != x; }

bool is_whole(double x) { return std::nearbyint(x) == x && std::fabs(x) < 0x1p63; }

// A number of the kind that keeps the dtype.
Scalar factor(double x, DType dtype) {
  if (is_float(dtype) || is_complex(dtype)) return x;
  return static_cast<std::int64_t>(x);
}

void activate(Activation activation, const Array& x) {
  switch (activation) {
    case Activation::kRelu: relu(x, &x); break;
    case Activation::kGelu: gelu(x, &x); break;
    case Activation::kSilu: silu(x, &x); break;
    case Activation::kGeluErf: gelu_erf(x, &x); break;
    case Activation::kNone: break;
  }
}

}  // namespace

bool has_epilogue(DType result, const MatmulOptions& options) {
  switch (result) {
    case DType::kFloat16:
    case DType::kBFloat16:
    case DType::kFloat32: return true;
    case DType::kFloat64: return is_exact(options.alpha) && is_exact(options.beta);
    default:
      return options.alpha == 1.0 && !options.bias && options.activation == Activation::kNone &&
             !options.residual;
  }
}

void check_epilogue(DType result, const MatmulOptions& options, const char* op) {
  if (options.activation != Activation::kNone && !is_float(result))
    throw InvalidArgument(InvalidArgument::Kind::kType,
                          cat(op, ": activation ", name(options.activation),
                              " is for floating-point results, this one has dtype ", name(result)));
  if (is_float(result) || is_complex(result)) return;
  const auto check = [&](const char* argument, double value) {
    if (!is_whole(value))
      throw InvalidArgument(InvalidArgument::Kind::kType,
                            cat(op, ": ", argument, " is ", value, ", expected a whole number: ",
                                "the result has dtype ", name(result)));
    if (value != 1.0) to_bytes(factor(value, result), result, op);  // that it fits
  };
  check("alpha", options.alpha);
  if (options.residual) check("beta", options.beta);
}

void apply_unfused(const Array& sums, const MatmulOptions& options, const Array& result) {
  const DType dtype = sums.dtype();
  if (options.alpha != 1.0) multiply(sums, factor(options.alpha, dtype), &sums);
  if (options.bias) add(sums, *options.bias, &sums);
  activate(options.activation, sums);
  if (!options.residual || options.beta == 0.0) {
    copy_into(result, sums, "matmul");
  } else if (options.beta == 1.0) {
    add(sums, *options.residual, &result);
  } else {
    add(sums, multiply(*options.residual, factor(options.beta, dtype)), &result);
  }
}

}  // namespace gpk::ops::gemm

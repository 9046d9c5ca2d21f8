#include "ops/matmul/scaled.h"

#include "base/ceil_div.h"
#include "base/error.h"
#include "base/text.h"
#include "core/promote.h"
#include "core/view.h"
#include "ops/checks.h"
#include "ops/elementwise/copy.h"
#include "ops/elementwise/elementwise.h"
#include "ops/matmul/formats.h"
#include "ops/matmul/result.h"
#include "ops/reduction/reduce.h"

namespace gpk::ops {
namespace {

constexpr const char* kOp = "scaled_matmul";

using plan::is_fp8;
using plan::ScaleLayout;

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

Dims joined(const Dims& first, std::int64_t last) {
  Dims all = Dims::filled(first.size() + 1, last);
  std::copy(first.begin(), first.end(), all.data());
  return all;
}

// The operand that a scale belongs to: `outer` rows of a or columns of b, by k.
struct Side {
  const char* argument;
  ScaleLayout vector_layout;
  Dims vector, vector_with_1;  // shapes of one scale per row (column)
  std::int64_t outer, k;
  bool k_first;  // b is [k, n]: so are its blocks

  [[nodiscard]] Dims blocks(const Dims& others, std::int64_t count_k) const {
    return k_first ? Dims{count_k, others[0]} : joined(others, count_k);
  }
};

Side side_of_a(const Array& a, const Dims& rows) {
  const std::int64_t k = a.shape()[a.ndim() - 1];
  return {"scale_a", ScaleLayout::kRow, rows, joined(rows, 1), rows[rows.size() - 1], k, false};
}
Side side_of_b(const Array& b) {
  const std::int64_t n = b.shape()[1];
  return {"scale_b", ScaleLayout::kColumn, {n}, {1, n}, n, b.shape()[0], true};
}

// What a scale array of this shape means; kNone: nothing.
gemm::Quantization layout_of(const Dims& shape, bool one, const Side& side) {
  gemm::Quantization q;
  if (one) {
    q.layout = ScaleLayout::kTensor;
  } else if (shape == side.vector || shape == side.vector_with_1) {
    q.layout = side.vector_layout;
  } else if (side.k_first &&
             shape == side.blocks(Dims{ceil_div(side.outer, 128)}, ceil_div(side.k, 128))) {
    q.layout = ScaleLayout::kBlocks128x128;
  } else {
    for (const std::uint8_t block :
         {std::uint8_t{128}, std::uint8_t{64}, std::uint8_t{32}, std::uint8_t{16}}) {
      if (!(shape == side.blocks(side.vector, ceil_div(side.k, block)))) continue;
      q.layout = ScaleLayout::kBlocksOfK;
      q.block = block;
      break;
    }
  }
  return q;
}

gemm::Quantization check_scale(const Array& scale, const Side& side, const Array& a) {
  check_dtype(scale, side.argument, DType::kFloat32, kOp);
  check_device(scale, side.argument, a.device(), "the operands", kOp);
  gemm::Quantization q = layout_of(scale.shape(), scale.size() == 1 && scale.ndim() <= 2, side);
  if (q.layout == ScaleLayout::kNone)
    throw InvalidArgument(cat(kOp, ": ", side.argument, " has shape ", to_string(scale.shape()),
                              ", expected one element, ", to_string(side.vector), ", ",
                              to_string(side.vector_with_1), " or, per block, ",
                              to_string(side.blocks(side.vector, ceil_div(side.k, 128)))));
  if (q.layout <= ScaleLayout::kColumn) {
    q.scales = reshape(scale, {-1}, kOp);
  } else {  // [rows, blocks of k] of either operand
    q.scales =
        side.k_first ? transpose(scale, kOp) : reshape(scale, {-1, ceil_div(side.k, 128)}, kOp);
  }
  return q;
}

// With one block of k, scales per row of a have the shape of those per block too: b's blocks
// decide.
void read_as_blocks(gemm::Quantization& quant_a, const gemm::Quantization& quant_b,
                    const Array& a) {
  const std::int64_t k = a.shape()[a.ndim() - 1];
  if (!quant_a.scales || quant_b.layout != ScaleLayout::kBlocks128x128 || k == 0 || k > 128) return;
  if (quant_a.scales->size() != a.size() / k) return;
  quant_a.layout = ScaleLayout::kBlocksOfK;
  quant_a.block = 128;
  quant_a.scales = reshape(*quant_a.scales, {-1, 1}, kOp);
}

// Integer accumulators have no epilogue: what could be one is applied to them afterwards.
bool is_unfused(const Array& a) { return a.dtype() == DType::kInt8; }

void check_engines(const Array& a, const Array& b, const gemm::Quantization& quant_a,
                   const gemm::Quantization& quant_b, DType result) {
  gemm::MatmulDesc desc;
  desc.a = format_of(a, quant_a);
  desc.b = format_of(b, quant_b);
  desc.dtype_c = result;
  desc.dtype_acc = gemm::accumulator(a.dtype());
  check_formats(is_unfused(a) ? raw_desc(desc) : desc, kOp);
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

// int8: int32 accumulators, then scales and bias one after the other, in float32.
void run_unfused(const gemm::GemmCall& call) {
  gemm::GemmCall sums{call.a, call.b,
                      Array::empty(call.c.shape(), DType::kInt32, call.c.device(), kOp)};
  run_gemm(sums, kOp);
  const Array values = copy_as(sums.c, DType::kFloat32, kOp);
  const gemm::Epilogue& epilogue = call.epilogue;
  if (epilogue.alpha != 1.0f) multiply(values, Scalar(double{epilogue.alpha}), &values);
  if (call.quant_a.scales) multiply(values, expand_dims(*call.quant_a.scales, {1}, kOp), &values);
  if (call.quant_b.scales) multiply(values, *call.quant_b.scales, &values);
  if (epilogue.bias) add(values, *epilogue.bias, &values);
  copy_into(call.c, values, kOp);
}

struct Quantized {
  Array values;  // e4m3
  Array scale;   // float32, one element: x is about values * scale
};

// By the largest magnitude, which becomes 448; of zeros the scale is 1. x is float32, not empty.
// `transposed`: x is a matrix, and the values are column-major.
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

}  // namespace

Array scaled_matmul(const Array& a, const Array& b, const Scale& scale_a, const Scale& scale_b,
                    const ScaledOptions& options) {
  check_operand_pair(a, b);
  const DType dtype = result_dtype(options.dtype);
  const std::int64_t k = b.shape()[0];
  const std::int64_t n = b.shape()[1];
  const Dims rows(a.shape().span().first(static_cast<std::size_t>(a.ndim() - 1)));
  gemm::Quantization quant_a, quant_b;
  double alpha = 1.0;
  if (const auto* array = std::get_if<Array>(&scale_a)) {
    quant_a = check_scale(*array, side_of_a(a, rows), a);
  } else {
    alpha *= std::get<double>(scale_a);
  }
  if (const auto* array = std::get_if<Array>(&scale_b)) {
    quant_b = check_scale(*array, side_of_b(b), a);
  } else {
    alpha *= std::get<double>(scale_b);
  }
  read_as_blocks(quant_a, quant_b, a);
  check_engines(a, b, quant_a, quant_b, dtype);
  if (options.bias) check_bias(*options.bias, n, dtype, a);
  const auto input = [](const std::optional<Array>& array) { return array ? &*array : nullptr; };
  return gemm::fill_result(
      options.out, joined(rows, n), dtype, a.device(),
      {&a, &b, input(quant_a.scales), input(quant_b.scales), input(options.bias)}, kOp,
      [&](const Array& result) {
        const std::int64_t m = result.size() / n;
        const auto view = try_reshape(result, {m, n});
        const Array c = view ? *view : Array::empty({m, n}, dtype, a.device(), kOp);
        gemm::GemmCall call{reshape(a, {m, k}, kOp), b, c};
        call.quant_a = quant_a;
        call.quant_b = quant_b;
        call.epilogue.alpha = static_cast<float>(alpha);
        call.epilogue.bias = options.bias;
        call.fast_accum = options.fast_accum && is_fp8(a.dtype());
        if (is_unfused(a)) {
          run_unfused(call);
        } else {
          run_gemm(call, kOp);
        }
        if (!view) copy_into(result, reshape(c, result.shape(), kOp), kOp);
      });
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

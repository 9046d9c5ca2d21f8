// linear() of packed weights: one GEMM with a fused epilogue, by the engines packed and dequantize.
#include "base/error.h"
#include "base/text.h"
#include "core/view.h"
#include "ops/elementwise/copy.h"
#include "ops/matmul/layer.h"
#include "ops/matmul/linear.h"
#include "ops/matmul/packed_operand.h"
#include "ops/matmul/result.h"
#include "ops/matmul/scaled.h"
#include "ops/matmul/scaled_operands.h"
#include "ops/matmul/swiglu.h"
#include "ops/matmul/unfused_epilogue.h"
#include "ops/nn/norm.h"
#include "ops/quantize/quantize.h"
#include "ops/quantize/rows.h"

namespace gpk::ops {
namespace {

void check_packed_linear(const Array& x, const PackedWeight& w, const LinearOptions& options,
                         const char* op) {
  if (x.dtype() != DType::kFloat16 && x.dtype() != DType::kBFloat16 && x.dtype() != DType::kFloat32)
    throw InvalidArgument(InvalidArgument::Kind::kType,
                          cat(op, ": x has dtype ", name(x.dtype()),
                              ", packed weights take float16, bfloat16 or float32"));
  if (w.shape.size() != 2)
    throw InvalidArgument(
        cat(op, ": w has shape ", to_string(w.shape), ", expected two dimensions"));
  if (w.device() != x.device())
    throw InvalidArgument(
        cat(op, ": w is on ", to_string(w.device()), ", x on ", to_string(x.device())));
  if (x.ndim() == 0 || x.shape()[x.ndim() - 1] != w.k())
    throw InvalidArgument(cat(op, ": dimension mismatch: x has shape ", to_string(x.shape()),
                              ", w has shape ", to_string(w.shape),
                              ", their last dimensions differ"));
  if (options.swiglu && w.n() % 2 != 0)
    throw InvalidArgument(cat(op, ": w has shape ", to_string(w.shape),
                              ", swiglu needs an even number of rows: gate, then up"));
  if (options.few_rows && x.size() > kMaxFewRows * w.k())
    throw InvalidArgument(cat(op, ": x has shape ", to_string(x.shape()), ", few_rows takes up to ",
                              kMaxFewRows, " rows"));
  if (options.norm && (options.norm->weight.ndim() != 1 || options.norm->weight.size() != w.k()))
    throw InvalidArgument(cat(op, ": norm has shape ", to_string(options.norm->weight.shape()),
                              ", w has shape ", to_string(w.shape), ", expected (", w.k(), ",)"));
  if (!options.bias) return;
  gemm::check_like(*options.bias, "bias", x, "x", op);
  if (options.bias->ndim() != 1 || options.bias->size() != w.n())
    throw InvalidArgument(cat(op, ": bias has shape ", to_string(options.bias->shape()),
                              ", w has shape ", to_string(w.shape), ", expected (", w.n(), ",)"));
}

// x and c are matrices.
void run_packed(const Array& x, const PackedWeight& w, const Array& c, const LinearOptions& options,
                gemm::Epilogue epilogue, const char* op) {
  gemm::GemmCall call{x, x, c};
  gemm::set_packed_operand(call, w);
  call.batch_invariant = options.batch_invariant || options.few_rows;
  call.few_rows = options.few_rows;
  call.epilogue = std::move(epilogue);
  run_gemm(call, op);
}

// Formats that SM120 multiplies with each other.
bool is_block_format(QuantFormat format) {
  return format == QuantFormat::kMxfp8 || format == QuantFormat::kMxfp4 ||
         format == QuantFormat::kNvfp4;
}

void check_quantize_input(const PackedWeight& w, const LinearOptions& options, const char* op) {
  const bool eight_bits =
      w.layout.format == QuantFormat::kInt8 || w.layout.format == QuantFormat::kFp8;
  const bool by_row = eight_bits && (w.layout.group == 0 || w.layout.blocks);
  if ((!by_row && !is_block_format(w.layout.format)) || w.layout.zero_points)
    throw InvalidArgument(cat(op, ": quantize_input is True, w is ", to_string(w.layout),
                              "; expected int8 or fp8 with a scale per row, fp8 in blocks of "
                              "128x128, mxfp8, mxfp4 or nvfp4"));
  if (options.few_rows || options.batch_invariant)
    throw InvalidArgument(
        cat(op, ": quantize_input goes neither with few_rows nor with batch_invariant"));
}

// The 8-bit elements of a packed weight as a matrix.
Array elements_of(const PackedWeight& w) {
  const DType dtype = w.layout.format == QuantFormat::kInt8 ? DType::kInt8 : DType::kFloat8E4M3FN;
  return {{w.n(), w.k()},
          {w.values.strides()[0], 1},
          dtype,
          w.values.buffer(),
          w.values.offset_elems()};
}

// Sums of products of both in w's block format, in float32.
Array multiply_scaled(const Array& rows, const PackedWeight& w, const char* op) {
  const Array sums = Array::empty({rows.shape()[0], w.n()}, DType::kFloat32, rows.device(), op);
  gemm::GemmCall call{rows, rows, sums};
  gemm::set_packed_operand(call, w);
  gemm::set_scaled_rows(call, quantize_rows(rows, w.layout, op));
  run_gemm(call, op);
  return sums;
}

// Sums of products of w with rows that are quantised like it, scaled, in float32.
Array multiply_quantized(const Array& rows, const PackedWeight& w, const char* op) {
  if (is_block_format(w.layout.format)) return multiply_scaled(rows, w, op);
  if (w.layout.blocks) {
    const PackedWeight x = quantize(rows, {QuantFormat::kFp8, 128, false, false}, op);
    return scaled_matmul(elements_of(x), transpose(elements_of(w), op), *x.scales,
                         transpose(*w.scales, op));
  }
  const PackedWeight x = quantize(rows, w.layout, op);
  const auto scales = [&](const PackedWeight& of) { return squeeze(*of.scales, {1}, op); };
  return scaled_matmul(elements_of(x), transpose(elements_of(w), op), scales(x), scales(w));
}

Dims shape_with_last(const Dims& shape, std::int64_t last) {
  Dims changed = shape;
  changed[changed.size() - 1] = last;
  return changed;
}

}  // namespace

Array linear(const Array& x, const PackedWeight& w, const LinearOptions& options, const char* op) {
  check_packed_linear(x, w, options, op);
  if (options.quantize_input) check_quantize_input(w, options, op);
  if (options.norm) {
    LinearOptions rest = options;
    rest.norm.reset();
    return linear(gemm::normalised(x, *options.norm, options.few_rows), w, rest, op);
  }
  const std::int64_t n = options.swiglu ? w.n() / 2 : w.n();
  const Dims shape = shape_with_last(x.shape(), n);
  std::optional<Array> residual;
  if (options.residual) residual = gemm::check_residual(*options.residual, shape, x, op);
  const Array* read_late = residual ? &*residual : nullptr;
  if (residual && options.out && same_place(*options.out, *residual)) read_late = nullptr;
  return gemm::fill_result(
      options.out, shape, x.dtype(), x.device(),
      {&x, &w.values, options.bias ? &*options.bias : nullptr, read_late}, op,
      [&](const Array& result) {
        const std::int64_t m = result.size() / n;
        const Array rows = reshape(x, {m, w.k()}, op);
        if (options.quantize_input && !options.swiglu) {
          MatmulOptions rest;
          rest.bias = options.bias;
          rest.activation = options.activation;
          rest.residual = residual;
          const Array sums = multiply_quantized(rows, w, op);
          gemm::apply_unfused(reshape(sums, shape, op), rest, result);
          return;
        }
        if (options.swiglu) {
          Array both = options.quantize_input
                           ? multiply_quantized(rows, w, op)
                           : Array::empty({m, w.n()}, DType::kFloat32, x.device(), op);
          if (!options.quantize_input) run_packed(rows, w, both, options, {}, op);
          const Array pair = reshape(both, shape_with_last(x.shape(), w.n()), op);
          gemm::run_swiglu(pair, options.bias, residual, result, op);
          return;
        }
        gemm::Epilogue epilogue;
        epilogue.bias = options.bias;
        epilogue.activation = options.activation;
        if (residual) epilogue.residual = reshape(*residual, {m, n}, op);
        const auto view = try_reshape(result, {m, n});
        const Array c = view ? *view : Array::empty({m, n}, x.dtype(), x.device(), op);
        run_packed(rows, w, c, options, std::move(epilogue), op);
        if (!view) copy_into(result, reshape(c, result.shape(), op), op);
      });
}

}  // namespace gpk::ops

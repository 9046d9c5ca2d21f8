#include "ops/matmul/block_scaled.h"

#include "core/view.h"
#include "ops/elementwise/copy.h"
#include "ops/quantize/quantize.h"

namespace gpk::ops::gemm {

using plan::ScaleLayout;

bool is_block_scaled(const plan::OperandFormat& format) {
  if (format.dtype != DType::kFloat8E4M3FN || format.packing != plan::Packing::kNone) return false;
  if (format.zero_points || format.scale_dtype != DType::kFloat32) return false;
  return format.scales == ScaleLayout::kBlocks128x128 ||
         (format.scales == ScaleLayout::kBlocksOfK && format.scale_block == 128);
}

PackedWeight block_scaled_rows(const Array& values, const Quantization& quant, const char* op) {
  const PackedLayout layout{QuantFormat::kFp8, 128, false,
                            quant.layout == ScaleLayout::kBlocks128x128};
  const std::int64_t rows = values.shape()[0];
  const std::int64_t k = values.shape()[1];
  Array bytes(values.shape(), values.strides(), DType::kUInt8, values.buffer(),
              values.offset_elems());
  if (layout.row_bytes(k) != k || !bytes.is_contiguous() || bytes.offset_elems() % 16 != 0) {
    const Array padded =
        Array::empty({rows, layout.row_bytes(k)}, DType::kUInt8, values.device(), op);
    copy_into(slice_axis(padded, 1, 0, k, 1), bytes, op);
    bytes = padded;
  }
  return {layout, {rows, k}, DType::kFloat32, bytes, contiguous(*quant.scales, op)};
}

GemmCall block_scaled_as_float(const GemmCall& call, const char* op) {
  const auto numbers = [&](const Array& values, const Quantization& quant) {
    return dequantize(block_scaled_rows(values, quant, op), DType::kFloat32, std::nullopt, op);
  };
  const auto widened = [&](std::optional<Array>& array) {
    if (array && array->dtype() != DType::kFloat32) array = copy_as(*array, DType::kFloat32, op);
  };
  GemmCall dense = call;
  dense.a = numbers(call.a, call.quant_a);
  dense.b = transpose(numbers(transpose(call.b, op), call.quant_b), op);
  dense.quant_a = dense.quant_b = {};
  dense.fast_accum = false;
  if (call.c.dtype() != DType::kFloat32)
    dense.c = Array::empty(call.c.shape(), DType::kFloat32, call.c.device(), op);
  widened(dense.epilogue.bias);
  widened(dense.epilogue.residual);
  return dense;
}

}  // namespace gpk::ops::gemm

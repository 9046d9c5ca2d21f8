#include "ops/matmul/scaled_operands.h"

#include "core/view.h"
#include "ops/matmul/packed_operand.h"
#include "ops/quantize/quantize.h"

namespace gpk::ops::gemm {

using plan::ScaleLayout;

std::optional<PackedLayout> scaled_layout(const MatmulDesc& desc) {
  if (desc.a != desc.b || desc.groups.kind != GroupKind::kNone) return std::nullopt;
  for (const QuantFormat format : {QuantFormat::kMxfp8, QuantFormat::kMxfp4, QuantFormat::kNvfp4}) {
    const PackedLayout layout = make_layout(format, std::nullopt, false, false, "matmul");
    if (operand_format(layout) == desc.b) return layout;
  }
  return std::nullopt;
}

Array transposed_view(const Array& x) {
  return {{x.shape()[1], x.shape()[0]},
          {x.strides()[1], x.strides()[0]},
          x.dtype(),
          x.buffer(),
          x.offset_elems()};
}

void set_scaled_rows(GemmCall& call, const PackedWeight& rows) {
  GemmCall as_b{call.a, call.b, call.c};
  set_packed_operand(as_b, rows);
  call.a = transposed_view(as_b.b);
  call.quant_a = as_b.quant_b;
}

PackedWeight scaled_rows(const Array& rows, const Quantization& quant, const PackedLayout& layout) {
  const std::int64_t per_byte = layout.is_nibble() ? 2 : 1;
  const std::int64_t n = rows.shape()[0];
  const std::int64_t k = rows.shape()[1];
  return {layout,
          {n, k},
          DType::kBFloat16,
          Array({n, layout.row_bytes(k)}, {rows.strides()[0] / per_byte, 1}, DType::kUInt8,
                rows.buffer(), rows.offset_elems() / per_byte),
          quant.scales,
          {},
          quant.tensor_scale};
}

void set_epilogue_scales(GemmCall& call, const GemmCall& scaled) {
  call.quant_a = call.quant_b = {};
  if (!scaled.quant_a.tensor_scale) return;
  call.quant_a.layout = ScaleLayout::kRow;
  call.quant_a.scales = scaled.quant_a.tensor_scale;
  call.quant_b.layout = ScaleLayout::kTensor;
  call.quant_b.scales = scaled.quant_b.tensor_scale;
}

GemmCall scaled_as_dense(const GemmCall& call, DType dtype, const char* op) {
  const PackedLayout layout = *scaled_layout(format_desc(call));
  const auto numbers = [&](const Array& rows, const Quantization& quant) {
    PackedWeight packed = scaled_rows(rows, quant, layout);
    packed.tensor_scale.reset();
    return dequantize(packed, dtype, std::nullopt, op);
  };
  GemmCall dense = call;
  dense.a = numbers(call.a, call.quant_a);
  dense.b = transpose(numbers(transposed_view(call.b), call.quant_b), op);
  set_epilogue_scales(dense, call);
  return dense;
}

}  // namespace gpk::ops::gemm

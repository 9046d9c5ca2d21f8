#include "ops/matmul/packed_operand.h"

#include "core/view.h"

namespace gpk::ops::gemm {

namespace {

// Two of every four elements are stored: row after row is twice as long in elements.
void set_sparse_operand(GemmCall& call, const PackedWeight& weight) {
  const Array& values = weight.values;
  call.b = Array({weight.k(), weight.n()}, {1, values.strides()[0] * 2}, weight.dtype,
                 values.buffer(), values.offset_elems());
  call.quant_b.packing = plan::Packing::kSparse24;
  call.quant_b.metadata = weight.metadata;
}

PackedWeight sparse_operand(const GemmCall& call, const PackedLayout& layout) {
  const std::int64_t k = call.b.shape()[0];
  const std::int64_t n = call.b.shape()[1];
  PackedWeight weight{layout,
                      {n, k},
                      call.b.dtype(),
                      Array({n, layout.row_bytes(k) / 2}, {call.b.strides()[1] / 2, 1},
                            call.b.dtype(), call.b.buffer(), call.b.offset_elems())};
  weight.metadata = call.quant_b.metadata;
  return weight;
}

}  // namespace

void set_packed_operand(GemmCall& call, const PackedWeight& weight) {
  if (weight.layout.is_sparse()) return set_sparse_operand(call, weight);
  const plan::OperandFormat format = operand_format(weight.layout);
  const std::int64_t per_byte = weight.layout.is_nibble() ? 2 : 1;
  const Array& values = weight.values;
  call.b = Array({weight.k(), weight.n()}, {1, values.strides()[0] * per_byte}, format.dtype,
                 values.buffer(), values.offset_elems() * per_byte);
  call.quant_b.packing = format.packing;
  call.quant_b.layout = format.scales;
  call.quant_b.block = format.scale_block;
  const bool per_row = format.scales == plan::ScaleLayout::kColumn;
  call.quant_b.scales = per_row ? squeeze(*weight.scales, {1}, "linear") : *weight.scales;
  call.quant_b.zero_points = weight.zero_points;
  call.quant_b.tensor_scale = weight.tensor_scale;
}

PackedWeight packed_operand(const GemmCall& call) {
  const PackedLayout layout = *packed_layout(format_of(call.b, call.quant_b));
  if (layout.is_sparse()) return sparse_operand(call, layout);
  const std::int64_t per_byte = layout.is_nibble() ? 2 : 1;
  const std::int64_t k = call.b.shape()[0];
  const std::int64_t n = call.b.shape()[1];
  const Array& scales = *call.quant_b.scales;
  return {layout,
          {n, k},
          call.a.dtype(),
          Array({n, layout.row_bytes(k)}, {call.b.strides()[1] / per_byte, 1}, DType::kUInt8,
                call.b.buffer(), call.b.offset_elems() / per_byte),
          layout.group == 0 ? expand_dims(scales, {1}, "linear") : scales,
          call.quant_b.zero_points,
          call.quant_b.tensor_scale};
}

std::optional<PackedLayout> packed_layout(const plan::OperandFormat& b) {
  for (int i = 0; i < kNumQuantFormats; ++i) {
    const auto format = static_cast<QuantFormat>(i);
    for (const bool zero_points : {false, true}) {
      const bool blocks = b.scales == plan::ScaleLayout::kBlocks128x128;
      const PackedLayout layout{format, blocks ? 128 : b.scale_block, zero_points, blocks};
      if (operand_format(layout, b.dtype) == b) return layout;
    }
  }
  return std::nullopt;
}

bool is_bundled(const PackedLayout& layout) {
  switch (layout.format) {
    case QuantFormat::kInt8: return layout.group == 0 && !layout.zero_points;
    case QuantFormat::kInt4: return layout.group == 128;
    case QuantFormat::kFp8:
    case QuantFormat::kNvfp4:
    case QuantFormat::kMxfp4:
    case QuantFormat::kNf4: return true;
    default: return false;
  }
}

}  // namespace gpk::ops::gemm

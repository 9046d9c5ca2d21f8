#include "ops/quantize/packed_weight.h"

#include "base/ceil_div.h"
#include "base/error.h"
#include "base/round_up.h"
#include "base/text.h"
#include "core/view.h"
#include "ops/checks.h"

namespace gpk::ops {
namespace {

using plan::Packing;
using plan::ScaleLayout;

// What a format is by itself; -1: the caller chooses the group.
struct FormatRow {
  const char* name;
  int code, scale_code;
  DType element, scale;
  Packing packing;
  std::int64_t group;
};

constexpr FormatRow kFormats[kNumQuantFormats] = {
    {"int8", kernels::kCodeInt8, kernels::kScaleFloat, DType::kInt8, DType::kFloat32,
     Packing::kNone, -1},
    {"int4", kernels::kCodeInt4, kernels::kScaleFloat, DType::kInt4, DType::kFloat32,
     Packing::kInt4Pairs, -1},
    {"fp8", kernels::kCodeE4M3, kernels::kScaleFloat, DType::kFloat8E4M3FN, DType::kFloat32,
     Packing::kNone, 0},
    {"fp8_e5m2", kernels::kCodeE5M2, kernels::kScaleFloat, DType::kFloat8E5M2, DType::kFloat32,
     Packing::kNone, 0},
    {"nvfp4", kernels::kCodeE2M1, kernels::kScaleE4M3, DType::kFloat4E2M1FN, DType::kFloat8E4M3FN,
     Packing::kNvf4Pairs, 16},
    {"mxfp4", kernels::kCodeE2M1, kernels::kScaleE8M0, DType::kFloat4E2M1FN, DType::kUInt8,
     Packing::kNvf4Pairs, 32},
    {"mxfp8", kernels::kCodeE4M3, kernels::kScaleE8M0, DType::kFloat8E4M3FN, DType::kUInt8,
     Packing::kNone, 32},
    {"nf4", kernels::kCodeNf4, kernels::kScaleFloat, DType::kUInt4, DType::kFloat32,
     Packing::kNf4Pairs, 64},
    {"2:4", kernels::kCodeSparse, kernels::kScaleFloat, DType::kBFloat16, DType::kFloat32,
     Packing::kSparse24, 0},
};

const FormatRow& row_of(QuantFormat format) { return kFormats[static_cast<int>(format)]; }

bool is_integer(QuantFormat format) {
  return format == QuantFormat::kInt8 || format == QuantFormat::kInt4;
}

std::int64_t scale_rows_of(const PackedLayout& layout, std::int64_t rows) {
  return ceil_div(rows, layout.scale_rows());
}

void check_part(const Array& part, const char* argument, DType dtype, const Dims& shape,
                Device device, const char* op) {
  check_dtype(part, argument, dtype, op);
  check_shape(part, argument, shape, op);
  check_device(part, argument, device, "the values", op);
  if (!part.is_contiguous())
    throw InvalidArgument(cat(op, ": ", argument, " is strided, expected a contiguous array"));
}

}  // namespace

const char* name(QuantFormat format) { return row_of(format).name; }

QuantFormat quant_format_named(std::string_view name, const char* op) {
  std::string all;
  for (int i = 0; i < kNumQuantFormats; ++i) {
    if (name == kFormats[i].name) return static_cast<QuantFormat>(i);
    all += cat(i == 0 ? "" : i + 1 == kNumQuantFormats ? " or " : ", ", "'", kFormats[i].name, "'");
  }
  throw InvalidArgument(cat(op, ": format is '", name, "', expected ", all));
}

int PackedLayout::code() const {
  if (!zero_points) return row_of(format).code;
  return format == QuantFormat::kInt4 ? kernels::kCodeUint4 : kernels::kCodeUint8;
}
int PackedLayout::scale_code() const { return row_of(format).scale_code; }
DType PackedLayout::scale_dtype() const { return row_of(format).scale; }

std::int64_t PackedLayout::row_bytes(std::int64_t k) const {
  if (is_sparse()) return round_up(round_up(k, 4), 16);  // two of four, two bytes each
  return round_up(is_nibble() ? ceil_div(k, 2) : k, 16);
}
std::int64_t PackedLayout::num_groups(std::int64_t k) const {
  return group == 0 ? 1 : ceil_div(k, group);
}

PackedLayout make_layout(QuantFormat format, std::optional<std::int64_t> group, bool zero_points,
                         bool blocks, const char* op) {
  const FormatRow& row = row_of(format);
  PackedLayout layout{format, 0, zero_points, blocks};
  if (zero_points && !is_integer(format))
    throw InvalidArgument(
        cat(op, ": zero_point is True, ", row.name, " has none; expected int4 or int8"));
  const bool fp8 = format == QuantFormat::kFp8 || format == QuantFormat::kFp8E5M2;
  if (blocks && format != QuantFormat::kFp8)
    throw InvalidArgument(
        cat(op, ": block is True, ", row.name, " has no blocks of 128 x 128; expected fp8"));
  if (is_integer(format)) {
    layout.group = group.value_or(format == QuantFormat::kInt4 ? 128 : 0);
    if (layout.group != 0 && layout.group != 32 && layout.group != 64 && layout.group != 128)
      throw InvalidArgument(cat(op, ": group is ", layout.group, ", ", row.name,
                                " takes 32, 64, 128 or 0 (a scale per row)"));
    return layout;
  }
  if (layout.is_sparse() && group.value_or(0) != 0)
    throw InvalidArgument(cat(op, ": group is ", *group, ", 2:4 has no scales, so no groups"));
  layout.group = blocks ? 128 : row.group;
  if (fp8 && !blocks && group == 128) {
    layout.group = 128;
    return layout;
  }
  if (group && *group != layout.group)
    throw InvalidArgument(cat(op, ": group is ", *group, ", that of ", row.name, " is ",
                              layout.group, fp8 && !blocks ? " (a scale per row) or 128" : ""));
  return layout;
}

std::string to_string(const PackedLayout& layout) {
  std::string text = name(layout.format);
  if (layout.is_sparse()) return text;
  if (layout.blocks) {
    text += ", blocks of 128x128";
  } else if (layout.group == 0) {
    text += ", per row";
  } else {
    text += cat(", group ", layout.group);
  }
  return layout.zero_points ? text + ", zero points" : text;
}

std::array<std::pair<const char*, const Array*>, 5> PackedWeight::parts() const {
  const auto given = [](const std::optional<Array>& x) { return x ? &*x : nullptr; };
  return {{{"values", &values},
           {"scales", given(scales)},
           {"zero_points", given(zero_points)},
           {"tensor_scale", given(tensor_scale)},
           {"metadata", given(metadata)}}};
}

std::int64_t PackedWeight::num_bytes() const {
  std::int64_t bytes = 0;
  for (const auto& [part, array] : parts())
    if (array != nullptr)
      bytes += static_cast<std::int64_t>(bytes_for(array->dtype(), array->size()));
  return bytes;
}

namespace {

void check_given(const std::optional<Array>& part, const char* argument, bool has,
                 const PackedWeight& w, const char* op) {
  if (part.has_value() == has) return;
  const std::string given = part ? cat("has shape ", to_string(part->shape())) : "is None";
  throw InvalidArgument(cat(op, ": ", argument, " ", given, ", expected ",
                            has ? "an array" : "None", " for ", to_string(w.layout)));
}

void check_shape(const PackedWeight& w, const char* op) {
  bool fits = w.shape.size() == 2 || w.shape.size() == 3;
  for (const std::int64_t size : w.shape) fits = fits && size > 0;
  if (!fits)
    throw InvalidArgument(cat(op, ": shape is ", to_string(w.shape),
                              ", expected (n, k) or (experts, n, k), each 1 or more"));
}

Dims metadata_shape(std::int64_t n, std::int64_t k) {
  return {ceil_div(n, 16), ceil_div(k, 64), 32};
}

void check_sparse(const PackedWeight& w, const char* op) {
  if (w.dtype != DType::kFloat16 && w.dtype != DType::kBFloat16)
    throw InvalidArgument(
        InvalidArgument::Kind::kType,
        cat(op, ": dtype is ", name(w.dtype), ", expected float16 or bfloat16 for 2:4"));
  if (w.shape.size() != 2)
    throw InvalidArgument(
        cat(op, ": shape is ", to_string(w.shape), ", 2:4 is for matrices of two dimensions"));
  check_part(w.values, "values", w.dtype, {w.n(), w.layout.row_bytes(w.k()) / 2}, w.device(), op);
  check_part(*w.metadata, "metadata", DType::kUInt32, metadata_shape(w.n(), w.k()), w.device(), op);
}

}  // namespace

void check_packed(const PackedWeight& w, const char* op) {
  check_shape(w, op);
  if (w.dtype != DType::kFloat16 && w.dtype != DType::kBFloat16 && w.dtype != DType::kFloat32)
    throw InvalidArgument(
        InvalidArgument::Kind::kType,
        cat(op, ": dtype is ", name(w.dtype), ", expected float16, bfloat16 or float32"));
  if (w.shape.size() == 3 && w.layout.blocks)
    throw InvalidArgument(cat(op, ": shape is ", to_string(w.shape),
                              ", blocks of 128 x 128 are for matrices of two dimensions"));
  check_given(w.scales, "scales", !w.layout.is_sparse(), w, op);
  check_given(w.metadata, "metadata", w.layout.is_sparse(), w, op);
  check_given(w.zero_points, "zero_points", w.layout.zero_points, w, op);
  check_given(w.tensor_scale, "tensor_scale", w.layout.format == QuantFormat::kNvfp4, w, op);
  if (w.layout.is_sparse()) return check_sparse(w, op);
  const std::int64_t rows = w.shape.size() == 3 ? w.shape[0] * w.shape[1] : w.shape[0];
  const Dims scales{scale_rows_of(w.layout, rows), w.layout.num_groups(w.k())};
  check_part(w.values, "values", DType::kUInt8, {rows, w.layout.row_bytes(w.k())}, w.device(), op);
  check_part(*w.scales, "scales", w.layout.scale_dtype(), scales, w.device(), op);
  if (w.zero_points)
    check_part(*w.zero_points, "zero_points", DType::kUInt8, scales, w.device(), op);
  if (w.tensor_scale)
    check_part(*w.tensor_scale, "tensor_scale", DType::kFloat32, {1}, w.device(), op);
}

PackedWeight empty_packed(const PackedLayout& layout, const Dims& shape, DType dtype, Device device,
                          const char* op) {
  const std::int64_t k = shape[shape.size() - 1];
  std::int64_t rows = 1;
  for (int d = 0; d + 1 < shape.size(); ++d) rows *= shape[d];
  if (layout.is_sparse()) {
    PackedWeight w{layout, shape, dtype,
                   Array::empty({rows, layout.row_bytes(k) / 2}, dtype, device, op)};
    w.metadata = Array::empty(metadata_shape(rows, k), DType::kUInt32, device, op);
    return w;
  }
  const Dims scales{scale_rows_of(layout, rows), layout.num_groups(k)};
  PackedWeight w{layout, shape, dtype,
                 Array::empty({rows, layout.row_bytes(k)}, DType::kUInt8, device, op),
                 Array::empty(scales, layout.scale_dtype(), device, op)};
  if (layout.zero_points) w.zero_points = Array::empty(scales, DType::kUInt8, device, op);
  if (layout.format == QuantFormat::kNvfp4)
    w.tensor_scale = Array::empty({1}, DType::kFloat32, device, op);
  return w;
}

PackedWeight matrix_of(const PackedWeight& stack, std::int64_t index) {
  const auto rows = [&](const Array& x) {
    return slice_axis(x, 0, index * stack.n(), stack.n(), 1);
  };
  PackedWeight w = stack;
  w.shape = {stack.n(), stack.k()};
  w.values = rows(stack.values);
  w.scales = rows(*stack.scales);
  if (stack.zero_points) w.zero_points = rows(*stack.zero_points);
  return w;
}

plan::OperandFormat operand_format(const PackedLayout& layout, DType weights) {
  const FormatRow& row = row_of(layout.format);
  plan::OperandFormat format;
  format.dtype = row.element;
  if (layout.zero_points) format.dtype = layout.is_nibble() ? DType::kUInt4 : DType::kUInt8;
  format.packing = row.packing;
  if (layout.is_sparse()) {
    format.dtype = weights;
    return format;
  }
  format.scale_dtype = row.scale;
  format.zero_points = layout.zero_points;
  if (layout.blocks) {
    format.scales = ScaleLayout::kBlocks128x128;
  } else if (layout.group == 0) {
    format.scales = ScaleLayout::kColumn;
  } else {
    format.scales = ScaleLayout::kBlocksOfK;
    format.scale_block = static_cast<std::uint8_t>(layout.group);
  }
  return format;
}

std::string to_string(const PackedWeight& w) {
  return cat("PackedWeight(", to_string(w.layout), ", shape=", to_string(w.shape),
             ", dtype=", name(w.dtype), ", nbytes=", w.num_bytes(),
             ", device=", to_string(w.device()), ")");
}

}  // namespace gpk::ops

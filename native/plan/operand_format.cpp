#include "plan/operand_format.h"

#include "base/text.h"

namespace gpk::plan {
namespace {

std::string layout_text(const OperandFormat& format) {
  switch (format.scales) {
    case ScaleLayout::kTensor: return "tensor";
    case ScaleLayout::kRow: return "row";
    case ScaleLayout::kColumn: return "column";
    case ScaleLayout::kBlocksOfK: return cat(int{format.scale_block}, " of k");
    case ScaleLayout::kBlocks128x128: return "block of 128x128";
    case ScaleLayout::kNone: break;
  }
  return {};
}

}  // namespace

OperandFormat transposed(OperandFormat format) noexcept {
  if (format.scales == ScaleLayout::kRow) {
    format.scales = ScaleLayout::kColumn;
  } else if (format.scales == ScaleLayout::kColumn) {
    format.scales = ScaleLayout::kRow;
  }
  return format;
}

std::string scale_text(const OperandFormat& format) {
  std::string text;
  if (format.scales != ScaleLayout::kNone)
    text = cat(format.scale_dtype == DType::kUInt8 ? "e8m0" : name(format.scale_dtype),
               " scale per ", layout_text(format));
  if (format.zero_points) text += text.empty() ? "zero point" : " and zero point";
  return text;
}

std::string to_string(const OperandFormat& format) {
  std::string text = format.packing == Packing::kNf4Pairs ? "nf4" : name(format.dtype);
  if (format.packing == Packing::kSparse24) {
    text += " 2:4 sparse";
  } else if (format.packing != Packing::kNone) {
    text += " in pairs";
  }
  const std::string scales = scale_text(format);
  return scales.empty() ? text : cat(text, " with ", scales);
}

}  // namespace gpk::plan

#include "ops/matmul/formats.h"

#include <map>

#include "base/error.h"
#include "base/text.h"
#include "core/promote.h"

namespace gpk::ops::gemm {
namespace {

using plan::OperandFormat;
using plan::ScaleLayout;

bool is_taken(const MatmulDesc& desc) {
#define GPK_ENGINE(name) \
  if (takes_##name(desc)) return true;
#include "ops/matmul/engines.def"
#undef GPK_ENGINE
  return false;
}

// Both operands in this format, A's rows as B's columns; any result.
bool is_taken(const OperandFormat& a) {
  MatmulDesc desc;
  desc.a = a;
  desc.b = plan::transposed(a);
  desc.dtype_acc = accumulator(a.dtype);
  for (const DType c : {a.dtype, DType::kFloat32, DType::kInt32}) {
    desc.dtype_c = c;
    if (is_taken(desc)) return true;
  }
  return false;
}

// "int8, int16 without scales; float32 without scales, with float32 scale per tensor, ...".
std::string available_formats(bool of_b) {
  std::map<std::string, std::string> dtypes_by_scales;
  for (const DTypeInfo& row : gpk::detail::kDTypes) {
    std::string scales;
    for (const ScaleLayout layout : {ScaleLayout::kNone, ScaleLayout::kTensor, ScaleLayout::kRow,
                                     ScaleLayout::kBlocksOfK, ScaleLayout::kBlocks128x128}) {
      OperandFormat format{.dtype = row.dtype, .scales = layout};
      if (layout == ScaleLayout::kBlocksOfK) format.scale_block = 128;
      if (!is_taken(format)) continue;
      const std::string text = scale_text(of_b ? plan::transposed(format) : format);
      scales += cat(scales.empty() ? "" : " or ", text.empty() ? "without scales" : text);
    }
    if (scales.empty()) continue;
    std::string& dtypes = dtypes_by_scales[scales];
    dtypes += cat(dtypes.empty() ? "" : ", ", row.name);
  }
  std::string all;
  for (const auto& [scales, dtypes] : dtypes_by_scales)
    all += cat(all.empty() ? "" : "; ", dtypes, " ", scales);
  return all;
}

std::string available_groups(MatmulDesc desc) {
  std::string all;
  for (const GroupKind kind : {GroupKind::kSizes, GroupKind::kOffsets, GroupKind::kExpertIds}) {
    desc.groups.kind = kind;
    if (is_taken(desc)) all += cat(all.empty() ? "" : ", ", to_string(desc.groups));
  }
  return all.empty() ? "none" : all;
}

[[noreturn]] void refuse(const std::string& text) {
  throw InvalidArgument(InvalidArgument::Kind::kType, text);
}

[[noreturn]] void refuse_formats(const MatmulDesc& desc, const char* op) {
  if (!is_taken(desc.a))
    refuse(cat(op, ": a is ", to_string(desc.a),
               ", which no engine takes; available: ", available_formats(false)));
  if (!is_taken(plan::transposed(desc.b)))
    refuse(cat(op, ": b is ", to_string(desc.b),
               ", which no engine takes; available: ", available_formats(true)));
  MatmulDesc ungrouped = desc;
  ungrouped.groups = {};
  if (desc.groups.kind != GroupKind::kNone && is_taken(ungrouped))
    refuse(cat(op, ": rows of ", to_string(desc.a), " grouped by ", to_string(desc.groups),
               ", which no engine takes; available: ", available_groups(desc)));
  refuse(cat(op, ": a is ", to_string(desc.a), ", b is ", to_string(desc.b), ", the result ",
             name(desc.dtype_c), "; no engine takes them together"));
}

}  // namespace

bool is_dense(const MatmulDesc& desc) {
  if (desc.groups.kind != GroupKind::kNone) return false;
  if (!desc.a.scales_in_epilogue() || !desc.b.scales_in_epilogue()) return false;
  return (desc.a.is_plain() && desc.b.is_plain()) || is_float(desc.dtype_acc);
}

bool takes_result(const MatmulDesc& desc) {
  if (plan::is_fp8(desc.a.dtype))
    return desc.dtype_c == DType::kFloat32 || desc.dtype_c == DType::kFloat16 ||
           desc.dtype_c == DType::kBFloat16;
  return desc.dtype_c == desc.a.dtype || desc.dtype_c == accumulator(desc.a.dtype);
}

bool takes_tensor_cores(const MatmulDesc& d) {
  if (!is_dense(d) || !takes_result(d)) return false;
  if (plan::is_fp8(d.a.dtype)) return plan::is_fp8(d.b.dtype);
  if (d.a.dtype != d.b.dtype) return false;
  switch (d.a.dtype) {
    case DType::kFloat16:
    case DType::kBFloat16: return true;
    case DType::kFloat32: return d.tf32;
    case DType::kInt8: return d.dtype_c == DType::kInt32;
    default: return false;
  }
}

std::vector<MatmulEngine> engines_taking(const MatmulDesc& desc) {
  std::vector<MatmulEngine> engines;
#define GPK_ENGINE(name) \
  if (takes_##name(desc)) engines.push_back(MatmulEngine::name);
#include "ops/matmul/engines.def"
#undef GPK_ENGINE
  return engines;
}

void check_formats(const MatmulDesc& desc, const char* op) {
  if (!is_taken(desc)) [[unlikely]]
    refuse_formats(desc, op);
}

}  // namespace gpk::ops::gemm

#include "ops/elementwise/rules.h"

#include "base/error.h"
#include "base/text.h"
#include "core/promote.h"

namespace gpk::ops::elementwise {
namespace {

[[noreturn]] void refuse(const char* op, DType dtype, const char* expected) {
  throw InvalidArgument(InvalidArgument::Kind::kType,
                        cat(op, ": not defined for dtype ", name(dtype), ", expected ", expected));
}

DType not_complex(DType dtype, const char* op) {
  if (is_complex(dtype)) refuse(op, dtype, "a real dtype");
  return dtype;
}

DType int8_for_bool(DType dtype) { return dtype == DType::kBool ? DType::kInt8 : dtype; }

}  // namespace

Types resolve_types(Rule rule, DType common, const char* op) {
  if (is_storage_only(common))
    throw InvalidArgument(
        InvalidArgument::Kind::kType,
        cat(op, ": ", name(common), " is a storage type; cast it first with astype"));
  DType type = common;
  switch (rule) {
    case Rule::kArithmetic:
    case Rule::kSelect: break;
    case Rule::kNoBool:
      if (common == DType::kBool) refuse(op, common, "a numeric dtype");
      break;
    case Rule::kInt8: type = int8_for_bool(common); break;
    case Rule::kRealInt8: type = int8_for_bool(not_complex(common, op)); break;
    case Rule::kReal: type = not_complex(common, op); break;
    case Rule::kDivide:
      if (!is_float(common) && !is_complex(common)) type = DType::kFloat64;
      break;
    case Rule::kFloat: type = float_for(common); break;
    case Rule::kRealFloat: type = float_for(not_complex(common, op)); break;
    case Rule::kBits:
    case Rule::kInteger:
    case Rule::kWhole:
      if (!is_integer(common) && (common != DType::kBool || rule == Rule::kWhole))
        refuse(op, common, "an integer dtype");
      if (rule == Rule::kInteger) type = int8_for_bool(common);
      break;
    case Rule::kRealTest: not_complex(common, op); [[fallthrough]];
    case Rule::kTest: return {common, DType::kBool};
    case Rule::kPart: return {common, real_part_of(common)};
  }
  return {type, type};
}

DType compute_dtype(DType dtype) noexcept {
  switch (dtype) {
    case DType::kInt8:
    case DType::kInt16: return DType::kInt32;
    case DType::kUInt8:
    case DType::kUInt16: return DType::kUInt32;
    case DType::kFloat16:
    case DType::kBFloat16:
    case DType::kFloat8E4M3FN:
    case DType::kFloat8E5M2: return DType::kFloat32;
    default: return dtype;
  }
}

DType any_compute_dtype(DType dtype) noexcept {
  switch (info(dtype).kind) {
    case DTypeClass::kSigned: return DType::kInt64;
    case DTypeClass::kUnsigned: return DType::kUInt64;
    default: return compute_dtype(dtype);
  }
}

}  // namespace gpk::ops::elementwise

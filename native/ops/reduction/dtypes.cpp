#include "ops/reduction/dtypes.h"

#include "base/error.h"
#include "base/text.h"
#include "core/promote.h"
#include "ops/elementwise/elementwise.h"
#include "ops/reduction/variants.h"

namespace gpk::ops::reduction {

void check_dtypes(const char* op, const Array& x, std::optional<DType> asked) {
  using Kind = InvalidArgument::Kind;
  if (is_storage_only(x.dtype()))
    throw InvalidArgument(
        Kind::kType, cat(op, ": x has dtype ", name(x.dtype()), ", a storage type; cast it first"));
  if (asked && is_storage_only(*asked))
    throw InvalidArgument(Kind::kType, cat(op, ": dtype is ", name(*asked), ", a storage type"));
}

DType fold_dtype(DType in, std::optional<DType> asked) {
  if (asked || class_of(in) != ResultClass::kInteger) return asked.value_or(in);
  return info(in).kind == DTypeClass::kUnsigned ? DType::kUInt64 : DType::kInt64;
}

bool reads_directly(DType in, DType result) {
  const ResultClass from = class_of(in);
  const ResultClass to = class_of(result);
  return from == to || (from == ResultClass::kInteger && to == ResultClass::kReal);
}

Array before_cast(const Array& x, DType result, bool product) {
  if (class_of(result) != ResultClass::kInteger || class_of(x.dtype()) == ResultClass::kInteger)
    return x;
  return where(isnan(x), Scalar(product), x);
}

}  // namespace gpk::ops::reduction

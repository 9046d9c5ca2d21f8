#include "core/promote.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "core/kind_rank.h"

namespace gpk::inline core {
namespace {

DType signed_of_bits(int bits) {
  if (bits <= 8) return DType::kInt8;
  if (bits <= 16) return DType::kInt16;
  return bits <= 32 ? DType::kInt32 : DType::kInt64;
}

DType promote_integers(DType a, DType b) {
  const DTypeInfo& x = info(a);
  const DTypeInfo& y = info(b);
  if (x.kind == y.kind) return x.bits >= y.bits ? a : b;
  const DTypeInfo& s = x.kind == DTypeClass::kSigned ? x : y;
  const DTypeInfo& u = x.kind == DTypeClass::kSigned ? y : x;
  if (s.bits > u.bits) return s.dtype;
  return u.bits == 64 ? DType::kFloat64 : signed_of_bits(u.bits * 2);
}

DType promote_floats(DType a, DType b) {
  if (a == b) return a;
  if (info(a).bits == 16 && info(b).bits == 16) return DType::kFloat32;
  return info(a).bits >= info(b).bits ? a : b;
}

// The smallest float that holds the integers of `integer` and the values of `real`.
DType promote_with_float(DType integer, DType real) {
  if (info(integer).bits == 8) return real;
  return promote_floats(real, info(integer).bits == 16 ? DType::kFloat32 : DType::kFloat64);
}

DType complex_of(DType real) {
  return real == DType::kFloat64 ? DType::kComplex128 : DType::kComplex64;
}

}  // namespace

std::optional<DType> promote_types(DType a, DType b) noexcept {
  if (a == b) return a;
  if (is_storage_only(a) || is_storage_only(b)) return std::nullopt;
  if (kind_rank(a) > kind_rank(b)) std::swap(a, b);
  if (kind_rank(a) == 0) return b;
  switch (kind_rank(b)) {
    case 1: return promote_integers(a, b);
    case 2: return kind_rank(a) == 1 ? promote_with_float(a, b) : promote_floats(a, b);
    default: {
      if (kind_rank(a) == 3) return DType::kComplex128;  // the two differ
      const DType part = real_part_of(b);
      return complex_of(kind_rank(a) == 1 ? promote_with_float(a, part) : promote_floats(a, part));
    }
  }
}

DType promote_types(DType a, DType b, const char* op) {
  if (const auto found = promote_types(a, b)) return *found;
  throw InvalidArgument(InvalidArgument::Kind::kType,
                        cat(op, ": no common dtype of ", name(a), " and ", name(b),
                            "; cast one of them with astype"));
}

DType default_dtype(const Scalar& scalar) noexcept {
  static constexpr DType kDefaults[] = {DType::kBool, DType::kInt64, DType::kUInt64,
                                        DType::kFloat32, DType::kComplex64};
  return kDefaults[scalar.index()];
}

DType promote_scalar(DType array, const Scalar& scalar, const char* op) {
  const int kind = kind_rank(default_dtype(scalar));
  if (kind <= kind_rank(array)) return array;
  if (is_storage_only(array))
    throw InvalidArgument(InvalidArgument::Kind::kType,
                          cat(op, ": scalar ", to_string(scalar), " with an array of ", name(array),
                              "; cast it with astype"));
  if (kind == 1) return DType::kInt64;  // of a bool array
  if (kind == 2) return DType::kFloat64;
  return is_float(array) ? complex_of(array) : DType::kComplex128;
}

bool can_cast_same_kind(DType from, DType to) noexcept {
  if (from == to) return true;
  const int a = kind_rank(from);
  const int b = kind_rank(to);
  if (a == 1 && b == 1)  // not from signed to unsigned
    return info(from).kind == DTypeClass::kUnsigned || info(to).kind == DTypeClass::kSigned;
  return a <= b;
}

bool can_cast_safely(DType from, DType to) noexcept {
  if (from == to) return true;
  if (is_storage_only(from) || is_storage_only(to)) return false;
  return promote_types(from, to) == to;
}

DType float_for(DType dtype) noexcept {
  if (kind_rank(dtype) >= 2) return dtype;
  const int bits = info(dtype).bits;
  if (bits <= 8) return DType::kFloat16;
  return bits == 16 ? DType::kFloat32 : DType::kFloat64;
}

}  // namespace gpk::inline core

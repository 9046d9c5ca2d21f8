// Type promotion of two dtypes, or of a dtype and a Python number. The rules are NumPy's (NEP 50)
// and the array API standard's; bfloat16 behaves like float16.
#pragma once

#include <optional>

#include "core/dtype.h"
#include "core/scalar.h"

namespace gpk::inline core {

// The smallest dtype that holds both. nullopt when there is none: a storage type (float8, 4-bit
// types) promotes only with itself.
std::optional<DType> promote_types(DType a, DType b) noexcept;

// Same, or InvalidArgument (kType) that names `op` and both dtypes.
DType promote_types(DType a, DType b, const char* op);

// A Python number is weak: the array's dtype wins unless the number's kind is higher.
DType promote_scalar(DType array, const Scalar& scalar, const char* op);

// The dtype of a Python number on its own: bool, int64, float32, complex64.
DType default_dtype(const Scalar& scalar) noexcept;

// Casts that may lose precision but do not go down in kind: bool < integer < float < complex.
bool can_cast_same_kind(DType from, DType to) noexcept;

// Lossless casts.
bool can_cast_safely(DType from, DType to) noexcept;

constexpr bool is_storage_only(DType dtype) { return info(dtype).cuda_name == nullptr; }
constexpr bool is_integer(DType dtype) {
  return info(dtype).kind == DTypeClass::kSigned || info(dtype).kind == DTypeClass::kUnsigned;
}
constexpr bool is_float(DType dtype) { return info(dtype).kind == DTypeClass::kFloat; }
constexpr bool is_complex(DType dtype) { return info(dtype).kind == DTypeClass::kComplex; }

// The floating dtype of sqrt and the like for integers, as in NumPy: float16 for 8 bits, float32
// for 16, else float64. Floating and complex dtypes are unchanged.
DType float_for(DType dtype) noexcept;

// float32 for complex64 and so on; real dtypes are unchanged.
constexpr DType real_part_of(DType dtype) {
  if (dtype == DType::kComplex64) return DType::kFloat32;
  return dtype == DType::kComplex128 ? DType::kFloat64 : dtype;
}

}  // namespace gpk::inline core

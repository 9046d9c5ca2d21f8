// Which dtype two dtypes, or a dtype and a Python number, have in common. The rules are NumPy's
// (NEP 50) and the array API standard's; bfloat16 behaves as float16 does.
#pragma once

#include <optional>

#include "core/dtype.h"
#include "core/scalar.h"

namespace gpk::inline core {

// Smallest dtype that holds both. nullopt when there is none: a storage type (float8, 4-bit types)
// goes with itself only.
std::optional<DType> promote_types(DType a, DType b) noexcept;

// The same, or InvalidArgument (kType) that names `op` and both dtypes.
DType promote_types(DType a, DType b, const char* op);

// A Python number is weak: it takes the array's dtype unless its kind is above it.
DType promote_scalar(DType array, const Scalar& scalar, const char* op);

// The dtype of a Python number on its own: bool, int64, float32, complex64.
DType default_dtype(const Scalar& scalar) noexcept;

// Casts that may lose precision but stay within or go up in kind: bool < integer < float < complex.
bool can_cast_same_kind(DType from, DType to) noexcept;

// Casts that lose nothing.
bool can_cast_safely(DType from, DType to) noexcept;

constexpr bool is_storage_only(DType dtype) { return info(dtype).cuda_name == nullptr; }
constexpr bool is_integer(DType dtype) {
  return info(dtype).kind == DTypeClass::kSigned || info(dtype).kind == DTypeClass::kUnsigned;
}
constexpr bool is_float(DType dtype) { return info(dtype).kind == DTypeClass::kFloat; }
constexpr bool is_complex(DType dtype) { return info(dtype).kind == DTypeClass::kComplex; }

// The floating dtype integers turn into for sqrt and its like, by NumPy: 8 bits float16, 16 bits
// float32, more float64. Floating and complex dtypes stay.
DType float_for(DType dtype) noexcept;

// float32 for complex64 and so on; real dtypes stay.
constexpr DType real_part_of(DType dtype) {
  if (dtype == DType::kComplex64) return DType::kFloat32;
  return dtype == DType::kComplex128 ? DType::kFloat64 : dtype;
}

}  // namespace gpk::inline core

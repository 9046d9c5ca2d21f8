// Element types. The set is closed; everything else about a type is a row of one table.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "kernels/args/dtype.h"

namespace gpk::inline core {

inline constexpr int kNumDTypes = 20;

enum class DTypeClass : std::uint8_t { kBool, kSigned, kUnsigned, kFloat, kComplex };

struct DTypeInfo {
  DType dtype;
  const char* name;       // public name, also the NumPy / ml_dtypes name
  const char* cuda_name;  // spelling in our kernels; nullptr: storage only, no arithmetic kernels
  std::uint8_t bits;      // of one element
  DTypeClass kind;
};

namespace detail {
inline constexpr std::array<DTypeInfo, kNumDTypes> kDTypes{{
    {DType::kBool, "bool", "bool", 8, DTypeClass::kBool},
    {DType::kInt8, "int8", "signed char", 8, DTypeClass::kSigned},
    {DType::kInt16, "int16", "short", 16, DTypeClass::kSigned},
    {DType::kInt32, "int32", "int", 32, DTypeClass::kSigned},
    {DType::kInt64, "int64", "long long", 64, DTypeClass::kSigned},
    {DType::kUInt8, "uint8", "unsigned char", 8, DTypeClass::kUnsigned},
    {DType::kUInt16, "uint16", "unsigned short", 16, DTypeClass::kUnsigned},
    {DType::kUInt32, "uint32", "unsigned int", 32, DTypeClass::kUnsigned},
    {DType::kUInt64, "uint64", "unsigned long long", 64, DTypeClass::kUnsigned},
    {DType::kFloat16, "float16", "gpk::float16", 16, DTypeClass::kFloat},
    {DType::kBFloat16, "bfloat16", "gpk::bfloat16", 16, DTypeClass::kFloat},
    {DType::kFloat32, "float32", "float", 32, DTypeClass::kFloat},
    {DType::kFloat64, "float64", "double", 64, DTypeClass::kFloat},
    {DType::kComplex64, "complex64", "gpk::complex64", 64, DTypeClass::kComplex},
    {DType::kComplex128, "complex128", "gpk::complex128", 128, DTypeClass::kComplex},
    {DType::kFloat8E4M3FN, "float8_e4m3fn", nullptr, 8, DTypeClass::kFloat},
    {DType::kFloat8E5M2, "float8_e5m2", nullptr, 8, DTypeClass::kFloat},
    {DType::kInt4, "int4", nullptr, 4, DTypeClass::kSigned},
    {DType::kUInt4, "uint4", nullptr, 4, DTypeClass::kUnsigned},
    {DType::kFloat4E2M1FN, "float4_e2m1fn", nullptr, 4, DTypeClass::kFloat},
}};
}  // namespace detail

constexpr const DTypeInfo& info(DType dtype) {
  return detail::kDTypes[static_cast<std::size_t>(dtype)];
}
constexpr const char* name(DType dtype) { return info(dtype).name; }

// Bytes of one element; packed 4-bit types report 1 (two values share a byte).
constexpr std::size_t itemsize(DType dtype) { return (info(dtype).bits + 7u) / 8u; }

// Bytes that hold `num_elems` (up to 2**59) contiguous elements, two 4-bit values per byte.
constexpr std::size_t bytes_for(DType dtype, std::int64_t num_elems) {
  const auto count = static_cast<std::size_t>(num_elems);
  return info(dtype).bits == 4 ? count / 2 + count % 2 : count * itemsize(dtype);
}

std::optional<DType> dtype_from_name(std::string_view name) noexcept;

}  // namespace gpk::inline core

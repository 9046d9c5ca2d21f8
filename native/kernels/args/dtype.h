// The element types, numbered as in host code and kernels.
#pragma once

namespace gpk {

enum class DType : unsigned char {
  kBool,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUInt8,
  kUInt16,
  kUInt32,
  kUInt64,
  kFloat16,
  kBFloat16,
  kFloat32,
  kFloat64,
  kComplex64,
  kComplex128,
  kFloat8E4M3FN,
  kFloat8E5M2,
  kInt4,
  kUInt4,
  kFloat4E2M1FN,
};

}  // namespace gpk

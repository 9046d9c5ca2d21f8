// What float32 and float64 operands may be computed in.
#pragma once

#include <optional>
#include <string_view>

namespace gpk::ops {

// kTf32x3: split in two TF32 numbers, three products, which keeps the accuracy of float32.
// kFloat64Int8: float64 in eight int8 slices; float32 as kFloat32.
enum class MatmulPrecision { kFloat32, kTf32, kTf32x3, kFloat64Int8 };
// "float32", "tf32", "3xtf32", "float64_int8".
const char* name(MatmulPrecision precision);
// Throws InvalidArgument that lists the names.
MatmulPrecision matmul_precision_named(std::string_view name, const char* op);

// The precision of GEMMs where a call does not say. At first: PYGPUKIT_ALLOW_TF32 (kTf32),
// else kFloat32. For all threads.
MatmulPrecision matmul_precision();
void set_matmul_precision(MatmulPrecision precision);

namespace gemm {

// The answers for one call. PYGPUKIT_NO_TF32 wins over everything.
bool tf32_allowed(std::optional<bool> use_tf32);
bool tf32x3_allowed(std::optional<bool> use_tf32, bool wanted);
bool float64_int8_allowed(std::optional<bool> wanted);

}  // namespace gemm

}  // namespace gpk::ops

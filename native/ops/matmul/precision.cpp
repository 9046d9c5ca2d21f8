#include "ops/matmul/precision.h"

#include <atomic>

#include "base/error.h"
#include "base/text.h"
#include "core/config.h"

namespace gpk::ops {
namespace {

constexpr int kUnset = -1;
std::atomic<int> chosen{kUnset};

constexpr const char* kNames[] = {"float32", "tf32", "3xtf32", "float64_int8"};

}  // namespace

const char* name(MatmulPrecision precision) { return kNames[static_cast<int>(precision)]; }

MatmulPrecision matmul_precision_named(std::string_view name, const char* op) {
  for (int i = 0; i < 4; ++i)
    if (name == kNames[i]) return static_cast<MatmulPrecision>(i);
  throw InvalidArgument(cat(op, ": precision is '", name,
                            "', expected 'float32', 'tf32', '3xtf32' or 'float64_int8'"));
}

MatmulPrecision matmul_precision() {
  const int value = chosen.load(std::memory_order_relaxed);
  if (value != kUnset) [[likely]]
    return static_cast<MatmulPrecision>(value);
  const MatmulPrecision first =
      Config::get().allow_tf32 ? MatmulPrecision::kTf32 : MatmulPrecision::kFloat32;
  int expected = kUnset;
  chosen.compare_exchange_strong(expected, static_cast<int>(first), std::memory_order_relaxed);
  return expected == kUnset ? first : static_cast<MatmulPrecision>(expected);
}

void set_matmul_precision(MatmulPrecision precision) {
  chosen.store(static_cast<int>(precision), std::memory_order_relaxed);
}

bool gemm::tf32_allowed(std::optional<bool> use_tf32) {
  const bool wanted = use_tf32 ? *use_tf32 : matmul_precision() == MatmulPrecision::kTf32;
  return wanted && !Config::get().no_tf32;
}

bool gemm::tf32x3_allowed(std::optional<bool> use_tf32, bool wanted) {
  if (!use_tf32) wanted = wanted || matmul_precision() == MatmulPrecision::kTf32x3;
  return wanted && !Config::get().no_tf32;
}

bool gemm::float64_int8_allowed(std::optional<bool> wanted) {
  return wanted.value_or(matmul_precision() == MatmulPrecision::kFloat64Int8);
}

}  // namespace gpk::ops

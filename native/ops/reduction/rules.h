// Which dtypes a reduction gives, and which arguments it has: both follow from its rule.
#pragma once

#include <cstdint>

namespace gpk::ops::reduction {

enum class ReduceRule : std::uint8_t {
  kFold,      // bool and integers give int64 or uint64, others are kept; dtype= sets another
  kMean,      // bool and integers give float64; dtype= sets another floating one
  kVariance,  // the same, complex gives the real dtype; takes a correction
  kExtreme,   // kept; of nothing it is an error
  kIndex,     // int64; one axis, and of nothing an error
  kCount,     // int64
  kTest,      // bool
};

enum class Elements : std::uint8_t { kEvery, kNotNan };

// Of the function in pygpukit.
constexpr const char* function_signature(ReduceRule rule) {
  switch (rule) {
    case ReduceRule::kFold:
    case ReduceRule::kMean: return "(x, /, axis=None, *, dtype=None, keepdims=False, out=None)";
    case ReduceRule::kVariance:
      return "(x, /, axis=None, *, correction=0.0, keepdims=False, dtype=None, out=None)";
    default: return "(x, /, axis=None, *, keepdims=False, out=None)";
  }
}
inline constexpr const char* kScanFunction = "(x, /, axis=None, dtype=None, out=None)";

// Of the method of GPUArray, which is NumPy's.
constexpr const char* method_signature(ReduceRule rule) {
  switch (rule) {
    case ReduceRule::kFold:
    case ReduceRule::kMean: return "(axis=None, dtype=None, out=None, keepdims=False)";
    case ReduceRule::kVariance: return "(axis=None, dtype=None, out=None, ddof=0, keepdims=False)";
    default: return "(axis=None, out=None, keepdims=False)";
  }
}
inline constexpr const char* kScanMethod = "(axis=None, dtype=None, out=None)";

}  // namespace gpk::ops::reduction

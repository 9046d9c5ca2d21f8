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

// Of the function in pygpukit: NumPy's, with the array API standard's `correction`.
constexpr const char* function_signature(ReduceRule rule) {
  switch (rule) {
    case ReduceRule::kFold:
      return "(x, /, axis=None, dtype=None, out=None, keepdims=False, initial=None, where=None)";
    case ReduceRule::kMean:
      return "(x, /, axis=None, dtype=None, out=None, keepdims=False, *, where=None)";
    case ReduceRule::kVariance:
      return "(x, /, axis=None, dtype=None, out=None, ddof=0.0, keepdims=False, *, where=None, "
             "correction=None)";
    case ReduceRule::kExtreme:
      return "(x, /, axis=None, out=None, keepdims=False, initial=None, where=None)";
    case ReduceRule::kTest: return "(x, /, axis=None, out=None, keepdims=False, *, where=None)";
    case ReduceRule::kIndex: return "(x, /, axis=None, out=None, *, keepdims=False)";
    case ReduceRule::kCount: return "(x, /, axis=None, *, keepdims=False, out=None)";
  }
  return "";
}
inline constexpr const char* kScanFunction = "(x, /, axis=None, dtype=None, out=None)";

// Of the method of GPUArray.
constexpr const char* method_signature(ReduceRule rule) {
  switch (rule) {
    case ReduceRule::kFold:
      return "(axis=None, dtype=None, out=None, keepdims=False, initial=None, where=None)";
    case ReduceRule::kMean:
      return "(axis=None, dtype=None, out=None, keepdims=False, *, where=None)";
    case ReduceRule::kVariance:
      return "(axis=None, dtype=None, out=None, ddof=0.0, keepdims=False, *, where=None, "
             "correction=None)";
    case ReduceRule::kExtreme:
      return "(axis=None, out=None, keepdims=False, initial=None, where=None)";
    case ReduceRule::kTest: return "(axis=None, out=None, keepdims=False, *, where=None)";
    case ReduceRule::kIndex: return "(axis=None, out=None, *, keepdims=False)";
    case ReduceRule::kCount: return "(axis=None, *, keepdims=False, out=None)";
  }
  return "";
}
inline constexpr const char* kScanMethod = "(axis=None, dtype=None, out=None)";

}  // namespace gpk::ops::reduction

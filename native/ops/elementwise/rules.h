// Which dtypes an elementwise op takes, computes in and gives. NumPy's rules.
#pragma once

#include "core/dtype.h"

namespace gpk::ops::elementwise {

enum class Rule : std::uint8_t {
  kArithmetic,  // any dtype, kept
  kNoBool,      // any but bool, kept
  kInt8,        // kept; bool computes and gives int8
  kRealInt8,    // the same, not complex
  kReal,        // kept, not complex
  kDivide,      // floating dtypes kept, others float64
  kFloat,       // floating and complex kept, integers to the float that NumPy pairs with them
  kRealFloat,   // the same, not complex
  kBits,        // integers and bool, kept
  kInteger,     // integers, kept; bool as int8
  kWhole,       // integers, kept; no bool
  kTest,        // any dtype, gives bool
  kRealTest,    // the same, not complex
  kPart,        // kept; complex gives the real dtype
  kSelect,      // the first operand is a condition; the others as kArithmetic
};

struct Types {
  DType common;  // all operands are converted to it (and computed in its compute type)
  DType result;
};

// For operands of which `common` is the promoted dtype. Throws InvalidArgument (kType).
Types resolve_types(Rule rule, DType common, const char* op);

// The dtype whose compute type dtypes share: int32 for int8, float32 for float16 and so on.
DType compute_dtype(DType dtype) noexcept;

// What the kernels of the bundle compute in: the same, but all integers in 64 bits, which wrap
// alike when they are stored.
DType any_compute_dtype(DType dtype) noexcept;

}  // namespace gpk::ops::elementwise

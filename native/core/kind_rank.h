// The order of kinds in the promotion lattice.
#pragma once

#include "core/dtype.h"

namespace gpk::inline core {

// bool 0, integers 1, floating point 2, complex 3.
constexpr int kind_rank(DType dtype) {
  switch (info(dtype).kind) {
    case DTypeClass::kBool: return 0;
    case DTypeClass::kSigned:
    case DTypeClass::kUnsigned: return 1;
    case DTypeClass::kFloat: return 2;
    case DTypeClass::kComplex: return 3;
  }
  return 3;
}

}  // namespace gpk::inline core

// Run-time element types: the values of gpk::DType as integers.
#pragma once

#include "args/dtype.h"

namespace gpk {

template <DType kDType>
constexpr int kCode = static_cast<int>(kDType);

}  // namespace gpk

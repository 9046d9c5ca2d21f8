// Elementwise ops with NumPy's where= and dtype=.
#pragma once

#include "ops/elementwise/elementwise.h"

namespace gpk::ops {

struct ElementwiseOptions {
  const Array* where = nullptr;  // bool: elements of `out` where it is false keep their values
  std::optional<DType> dtype;    // of the computation and of the result
};

// As without options. `where` broadcasts with the operands; without `out` what it leaves out is
// computed too. Operands are cast to `dtype` within their kind.
Array run_elementwise(OpId id, std::span<const Operand> operands, const Array* out,
                      const ElementwiseOptions& options);

}  // namespace gpk::ops

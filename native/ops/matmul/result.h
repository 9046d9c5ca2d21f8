// The array a result goes to: a new one, or the caller's.
#pragma once

#include <initializer_list>
#include <optional>

#include "core/array.h"
#include "core/view.h"
#include "ops/elementwise/copy.h"
#include "ops/output.h"

namespace gpk::ops::gemm {

// Runs `fill(result)` on an array of that shape and dtype that is not empty: `out` itself where its
// dtype fits and it does not overlap `inputs` (nullptr: none), else a new one, cast into `out`
// afterwards.
template <class Fill>
Array fill_result(const std::optional<Array>& out, const Dims& shape, DType dtype, Device device,
                  std::initializer_list<const Array*> inputs, const char* op, const Fill& fill) {
  if (out) check_out(*out, shape, dtype, device, op);
  bool in_place = out && out->dtype() == dtype;
  for (const Array* input : inputs)
    if (in_place && input != nullptr) in_place = !may_overlap(*out, *input);
  const Array result = in_place ? *out : Array::empty(shape, dtype, device, op);
  if (result.size() > 0) {
    fill(result);
    if (out && !in_place) copy_into(*out, result, op);
  }
  return out ? *out : result;
}

}  // namespace gpk::ops::gemm

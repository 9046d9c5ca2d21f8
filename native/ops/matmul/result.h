// Where a product goes: a new array, or the caller's.
#pragma once

#include <optional>

#include "core/array.h"
#include "core/view.h"
#include "ops/elementwise/copy.h"
#include "ops/output.h"

namespace gpk::ops {

// Runs `fill(result)` on an array of that shape and dtype that is not empty: `out` itself where its
// dtype fits and it lies apart from the inputs, else a new one, cast into `out` afterwards.
template <class Fill>
Array fill_result(const std::optional<Array>& out, const Dims& shape, DType dtype,
                  const Array& input1, const Array& input2, const char* op, const Fill& fill) {
  if (out) check_out(*out, shape, dtype, input1.device(), op);
  const bool in_place =
      out && out->dtype() == dtype && !may_overlap(*out, input1) && !may_overlap(*out, input2);
  const Array result = in_place ? *out : Array::empty(shape, dtype, input1.device(), op);
  if (result.size() > 0) {
    fill(result);
    if (out && !in_place) copy_into(*out, result, op);
  }
  return out ? *out : result;
}

}  // namespace gpk::ops

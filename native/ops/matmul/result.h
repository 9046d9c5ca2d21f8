// Where a product goes: a new array, or the caller's.
#pragma once

#include <initializer_list>
#include <optional>

#include "core/array.h"
#include "core/error.h"
#include "core/promote.h"
#include "core/text.h"
#include "core/view.h"
#include "ops/elementwise/copy.h"

namespace gpk::ops {

inline void check_out(const Array& out, const Dims& shape, DType dtype, Device device,
                      const char* op) {
  if (!(out.shape() == shape))
    throw InvalidArgument(
        cat(op, ": out has shape ", to_string(out.shape()), ", the result has ", to_string(shape)));
  if (!can_cast_same_kind(dtype, out.dtype()))
    throw InvalidArgument(InvalidArgument::Kind::kType,
                          cat(op, ": out has dtype ", name(out.dtype()), ", the result is ",
                              name(dtype), ", which does not cast to it"));
  if (!(out.device() == device))
    throw InvalidArgument(
        cat(op, ": out is on ", to_string(out.device()), ", the operands on ", to_string(device)));
}

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

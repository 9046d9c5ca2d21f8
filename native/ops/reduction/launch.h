// From a checked reduction to a kernel on the current stream.
#pragma once

#include "core/array.h"
#include "kernels/args/reduction.h"
#include "ops/reduction/variants.h"

namespace gpk::ops::reduction {

using kernels::FinishMode;

struct ReduceWork {
  const char* op;
  Functor functor;
  FinishMode mode;
  bool skip_nan;
  bool ordered;  // indices count the reduced axes
  double correction;
};

// `x` reduced along the axes whose bit is set, into `out`: the other axes, any strides, a dtype of
// the result's class, no memory shared with `x`.
void launch_reduce(const ReduceWork& work, const Array& x, std::uint32_t axes, const Array& out);

}  // namespace gpk::ops::reduction

#include "ops/matmul/layer.h"

#include "base/error.h"
#include "base/text.h"
#include "core/promote.h"
#include "core/view.h"
#include "ops/checks.h"

namespace gpk::ops::gemm {

void check_layer_dtype(const Array& x, const char* argument, const char* op) {
  if (is_float(x.dtype()) && !is_storage_only(x.dtype())) return;
  throw InvalidArgument(InvalidArgument::Kind::kType,
                        cat(op, ": ", argument, " has dtype ", name(x.dtype()),
                            ", expected float16, bfloat16, float32 or float64"));
}

void check_like(const Array& array, const char* argument, const Array& other,
                const char* other_argument, const char* op) {
  if (array.dtype() != other.dtype())
    throw InvalidArgument(
        InvalidArgument::Kind::kType,
        cat(op, ": ", argument, " has dtype ", name(array.dtype()), ", ", other_argument, " has ",
            name(other.dtype()), "; they must have the same dtype"));
  check_device(array, argument, other.device(), other_argument, op);
}

Array check_residual(const Array& residual, const Dims& shape, const Array& x, const char* op) {
  check_like(residual, "residual", x, "x", op);
  try {
    return broadcast_to(residual, shape, op);
  } catch (const InvalidArgument&) {
    throw InvalidArgument(cat(op, ": residual has shape ", to_string(residual.shape()),
                              ", the result has shape ", to_string(shape)));
  }
}

}  // namespace gpk::ops::gemm

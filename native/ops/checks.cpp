#include "ops/checks.h"

#include "base/error.h"
#include "base/text.h"

namespace gpk::ops {

using Kind = InvalidArgument::Kind;

void check_device(const Array& array, std::string_view argument, Device device,
                  std::string_view owner, const char* op) {
  if (array.device() != device)
    throw InvalidArgument(cat(op, ": ", argument, " is on ", to_string(array.device()), ", ", owner,
                              " on ", to_string(device)));
}

void check_dtype(const Array& array, std::string_view argument, DType dtype, const char* op) {
  if (array.dtype() != dtype)
    throw InvalidArgument(Kind::kType, cat(op, ": ", argument, " has dtype ", name(array.dtype()),
                                           ", expected ", name(dtype)));
}

void check_same_dtype(const Array& array, std::string_view argument, const Array& other,
                      std::string_view other_argument, const char* op) {
  if (array.dtype() != other.dtype())
    throw InvalidArgument(Kind::kType, cat(op, ": ", argument, " has dtype ", name(array.dtype()),
                                           ", ", other_argument, " has ", name(other.dtype())));
}

void check_shape(const Array& array, std::string_view argument, const Dims& shape, const char* op) {
  if (array.shape() != shape)
    throw InvalidArgument(cat(op, ": ", argument, " has shape ", to_string(array.shape()),
                              ", expected ", to_string(shape)));
}

void check_operand(const Array& array, std::string_view argument, const Dims& shape, const Array& x,
                   const char* op) {
  check_shape(array, argument, shape, op);
  check_same_dtype(array, argument, x, "x", op);
  check_device(array, argument, x.device(), "x", op);
}

}  // namespace gpk::ops

#include "ops/output.h"

#include <cstdlib>

#include "base/error.h"
#include "base/text.h"
#include "core/promote.h"
#include "ops/checks.h"

namespace gpk::ops {
namespace {

// Whether elements may share memory: from the smallest stride to the largest, each axis must step
// over all that the smaller ones span. True of every slice and permutation of an array.
bool shares_elements(const Array& array) {
  if (array.is_contiguous()) return false;
  std::int64_t span = 0;
  std::int64_t last = -1;
  for (int seen = 0; seen < array.ndim(); ++seen) {
    std::int64_t next =
        INT64_MAX;  // the next larger stride, and the sizes of the axes that have it
    std::int64_t size = 1;
    for (int i = 0; i < array.ndim(); ++i) {
      const std::int64_t stride = std::abs(array.strides()[i]);
      if (array.shape()[i] <= 1 || stride <= last || stride > next) continue;
      if (stride == next) return true;
      next = stride;
      size = array.shape()[i];
    }
    if (next == INT64_MAX) return false;
    if (next <= span) return true;
    span += next * (size - 1);
    last = next;
  }
  return false;
}

}  // namespace

void check_writable(const Array& array, const char* op, const char* argument) {
  if (array.buffer()->read_only()) throw InvalidArgument(cat(op, ": ", argument, " is read-only"));
  if (shares_elements(array))
    throw InvalidArgument(
        cat(op, ": ", argument, " is a broadcast view whose elements share memory"));
}

void check_out_memory(const Array& out, DType dtype, Device device, const char* op) {
  const bool storage = is_storage_only(out.dtype()) && out.dtype() != dtype;
  if (storage || !can_cast_same_kind(dtype, out.dtype()))
    throw InvalidArgument(InvalidArgument::Kind::kType,
                          cat(op, ": out has dtype ", name(out.dtype()), ", which the result's ",
                              name(dtype), " cannot be cast to"));
  check_device(out, "out", device, "the operands", op);
  check_writable(out, op, "out");
}

void check_out(const Array& out, const Dims& shape, DType dtype, Device device, const char* op) {
  if (!(out.shape() == shape))
    throw InvalidArgument(cat(op, ": out has shape ", to_string(out.shape()),
                              ", the result has shape ", to_string(shape)));
  check_out_memory(out, dtype, device, op);
}

}  // namespace gpk::ops

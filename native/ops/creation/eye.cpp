#include "ops/creation/eye.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "core/promote.h"
#include "core/view.h"
#include "ops/elementwise/copy.h"
#include "ops/elementwise/fill.h"

namespace gpk::ops {

Array eye(std::int64_t rows, std::int64_t cols, std::int64_t k, DType dtype, Device device) {
  Array out = full({rows, cols}, Scalar(std::int64_t{0}), dtype, device, "eye");
  const Array line = diagonal(out, std::clamp(k, -rows, cols), 0, 1, "eye");
  if (line.size() == 0) return out;
  const DType source = is_storage_only(dtype) ? DType::kBool : dtype;
  copy_into(line, full({}, Scalar(true), source, device, "eye"), "eye");
  return out;
}

Array diagflat(const Array& x, std::int64_t k, const char* op) {
  constexpr std::int64_t kMax = std::int64_t{1} << 31;  // far beyond what memory can hold
  if (k > kMax || k < -kMax || x.size() > kMax)
    throw InvalidArgument(cat(op, ": ", x.size(), " elements on diagonal ", k, " are too many"));
  const std::int64_t side = x.size() + std::abs(k);
  Array out = full({side, side}, Scalar(std::int64_t{0}), x.dtype(), x.device(), op);
  copy_into(diagonal(out, k, 0, 1, op), reshape(x, {-1}, op), op);
  return out;
}

}  // namespace gpk::ops

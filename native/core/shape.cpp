#include "core/shape.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace gpk::inline core {

Dims::Dims(std::span<const std::int64_t> values) : size_(static_cast<int>(values.size())) {
  if (values.size() > static_cast<std::size_t>(kMaxRank))
    throw InvalidArgument(
        cat("shape: ", values.size(), " dimensions given, at most ", kMaxRank, " are supported"));
  if (size_ > kInline) heap_ = std::make_unique<std::int64_t[]>(values.size());
  std::copy(values.begin(), values.end(), data());
}

Dims Dims::filled(int rank, std::int64_t fill) {
  std::int64_t values[kMaxRank];
  std::fill_n(values, std::min(rank, kMaxRank), fill);
  return Dims(std::span<const std::int64_t>(values, static_cast<std::size_t>(rank)));
}

std::int64_t num_elements(const Dims& shape, const char* op) {
  std::int64_t count = 1;
  bool has_zero = false;
  for (const std::int64_t size : shape) {
    if (size < 0)
      throw InvalidArgument(cat(op, ": shape ", to_string(shape), " has a negative size"));
    if (size == 0) {
      has_zero = true;
    } else if (__builtin_mul_overflow(count, size, &count)) {
      throw InvalidArgument(
          cat(op, ": shape ", to_string(shape), " has more than 2**63 - 1 elements"));
    }
  }
  return has_zero ? 0 : count;
}

Dims contiguous_strides(const Dims& shape) {
  Dims strides = Dims::filled(shape.size(), 1);
  std::int64_t step = 1;
  for (int axis = shape.size() - 1; axis >= 0; --axis) {
    strides[axis] = step;
    step *= std::max<std::int64_t>(shape[axis], 1);
  }
  return strides;
}

std::string to_string(const Dims& dims) {
  return cat('(', join(dims, ", "), dims.size() == 1 ? ",)" : ")");
}

}  // namespace gpk::inline core

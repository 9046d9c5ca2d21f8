#include "core/result_type.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "core/kind_rank.h"

namespace gpk::inline core {
DType result_type(std::span<const DType> dtypes, std::span<const Scalar> numbers, const char* op) {
  const auto below = [](DType a, DType b) { return kind_rank(a) < kind_rank(b); };
  const auto weaker = [&](const Scalar& a, const Scalar& b) {
    return below(default_dtype(a), default_dtype(b));
  };
  const auto strongest = std::max_element(numbers.begin(), numbers.end(), weaker);
  if (dtypes.empty()) {
    if (numbers.empty())
      throw InvalidArgument(cat(op, ": at least one array or dtype is needed, got none"));
    return default_dtype(*strongest);
  }
  // int16 and uint16 with float32 give float32; folding from the left would go through int32.
  std::vector<DType> order(dtypes.begin(), dtypes.end());
  std::stable_sort(order.begin(), order.end(), [&](DType a, DType b) { return below(b, a); });
  DType result = order.front();
  for (const DType dtype : order) result = promote_types(result, dtype, op);
  return numbers.empty() ? result : promote_scalar(result, *strongest, op);
}

}  // namespace gpk::inline core

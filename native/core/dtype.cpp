#include "core/dtype.h"

namespace gpk::inline core {

std::optional<DType> dtype_from_name(std::string_view name) noexcept {
  for (const DTypeInfo& row : detail::kDTypes)
    if (name == row.name) return row.dtype;
  return std::nullopt;
}

}  // namespace gpk::inline core

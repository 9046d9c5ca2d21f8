// Matrices that linear algebra has no result for.
#pragma once

#include "base/error.h"

namespace gpk::inline base {

// Not square, singular, not positive definite, or an iteration that does not converge. Python: a
// numpy.linalg.LinAlgError, which is a ValueError.
class LinAlgError : public Error {
 public:
  explicit LinAlgError(const std::string& message) : Error(Kind::kValue, message) {}
};

}  // namespace gpk::inline base

#include "plan/explain.h"

#include <cmath>

namespace gpk::plan {

std::string us_text(double us) { return cat(std::round(us * 100.0) / 100.0); }

}  // namespace gpk::plan

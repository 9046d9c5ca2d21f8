#include "plan/candidates.h"

namespace gpk::plan {

const char* name(Reason reason) {
  switch (reason) {
    case Reason::kMeasured: return "measured";
    case Reason::kPolicy: return "policy";
    case Reason::kForced: return "forced";
    default: return "model";
  }
}

}  // namespace gpk::plan

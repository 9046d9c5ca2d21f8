// The real clock, for objects that keep a reference to theirs.
#pragma once

#include "base/clock.h"

namespace gpk::device {

inline const SteadyClock& steady_clock() {
  static const SteadyClock clock;
  return clock;
}

}  // namespace gpk::device

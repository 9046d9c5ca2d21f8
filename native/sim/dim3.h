#pragma once

namespace gpk::sim {

struct Dim3 {
  unsigned x = 1, y = 1, z = 1;
  friend bool operator==(const Dim3&, const Dim3&) = default;
};

}  // namespace gpk::sim

// The GPU as a plain value: everything plans know about it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace gpk::inline core {
class Context;
}

namespace gpk::plan {

struct Machine {
  int sm = 90;  // compute capability
  int sms = 132;
  std::size_t shared_bytes = 232448;  // per block, opt-in
  std::size_t l2_bytes = std::size_t{50} << 20;
  bool jit = true;  // NVRTC is available: kernels outside the bundle can be compiled
  friend bool operator==(const Machine&, const Machine&) = default;
};

Machine machine_of(const Context& context);

// One GPU of each architecture that plans distinguish.
const std::vector<Machine>& typical_machines();

std::string to_string(const Machine& machine);

}  // namespace gpk::plan

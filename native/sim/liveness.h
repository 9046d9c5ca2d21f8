// Where the registers of a function live.
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>
#include <vector>

#include "sim/ast.h"

namespace gpk::sim {

// Instructions first .. last: every one that mentions the register, or at which a lane may still
// read a value written before it. Registers whose ranges do not overlap may share storage.
struct LiveRange {
  static constexpr std::size_t kNever = SIZE_MAX;
  std::size_t first = kNever, last = 0;
  bool used() const { return first != kNever; }
};

// Index of the instruction after a label seen from a scope; SIZE_MAX: there is none.
using LabelAt = std::function<std::size_t(std::string_view, int)>;

// One range per register. Liveness over the control-flow graph, lane by lane: a lane that does
// not take a path writes nothing there. The range is the hull of the places where it is live.
std::vector<LiveRange> live_ranges(const ast::Function& function, const LabelAt& label_at);

}  // namespace gpk::sim

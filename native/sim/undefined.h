// Registers whose value comes from memory that nothing wrote. Reading such memory is no
// fault: pipelines load a stage that never comes, compilers load ahead of a select, structs have
// padding. What depends on the value is.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "sim/machine.h"

namespace gpk::sim {

struct Undefined {
  struct Value {
    std::uint32_t lanes = 0;
    const Op* load = nullptr;
    std::string text;
  };
  std::unordered_map<const std::byte*, Value> registers;  // by the address of their cell
  const Op* last = nullptr;                               // executed
  std::uint32_t lanes = 0;                                // that executed it
};

// A load of a lane gave `cell` no defined value.
void mark_undefined(Warp& warp, const Op& load, Cell cell, std::uint32_t lanes,
                    const std::string& text);

// Before an operation runs: results of undefined operands are undefined; stores, addresses,
// branches and what other threads see must not depend on them (a finding, at the load).
void track_undefined(Warp& warp, const Op& op, std::uint32_t mask);

}  // namespace gpk::sim

// What one warp of a grid did, instruction by instruction.
#pragma once

#include <cstdint>

#include "sim/machine.h"

namespace gpk::sim {

struct Tracer {
  Trace trace;
  std::size_t max_steps = 0;
  // The instruction that runs; its results are read when the next one begins.
  const Instruction* running = nullptr;
  std::uint32_t location = 0;
  const std::byte* regs = nullptr;
};

// Before an operation of the traced warp runs.
void trace_op(Warp& warp, const Op& op, std::uint32_t mask);

// Fills in the texts of the instructions that were traced.
Trace finish_trace(Tracer& tracer, const Program& program);

}  // namespace gpk::sim

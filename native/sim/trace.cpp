#include "sim/trace.h"

#include <algorithm>
#include <unordered_map>

namespace gpk::sim {
namespace {

std::size_t cell_bytes(const RegisterWrite& write) {
  if (write.type == Type::kPred) return sizeof(std::uint32_t);
  return std::size_t{std::max(2u, bytes_of(write.type))} * kLanes;
}

void end_step(Tracer& tracer) {
  if (tracer.running == nullptr) return;
  auto& values = tracer.trace.steps.back().values;
  for (const RegisterWrite& write : tracer.running->writes) {
    const std::byte* at = tracer.regs + write.cell;
    values.insert(values.end(), at, at + cell_bytes(write));
  }
  tracer.running = nullptr;
}

}  // namespace

void trace_op(Warp& warp, const Op& op, std::uint32_t mask) {
  Tracer& tracer = *warp.tracer;
  if (tracer.running != nullptr && tracer.location == op.location && tracer.regs == warp.regs) {
    tracer.trace.steps.back().mask |= mask;  // another operation of the same instruction
    return;
  }
  end_step(tracer);
  if (tracer.trace.steps.size() >= tracer.max_steps) {
    tracer.trace.complete = false;
    warp.tracer = nullptr;
    return;
  }
  tracer.trace.steps.push_back({op.location, mask, {}});
  tracer.running = &warp.grid->program->instructions[op.location];
  tracer.location = op.location;
  tracer.regs = warp.regs;
}

Trace finish_trace(Tracer& tracer, const Program& program) {
  Trace trace = std::move(tracer.trace);
  std::unordered_map<std::uint32_t, std::uint32_t> places;
  for (TraceStep& step : trace.steps) {
    const auto [it, added] =
        places.try_emplace(step.instruction, static_cast<std::uint32_t>(trace.instructions.size()));
    if (added) {
      const Instruction& source = program.instructions[step.instruction];
      const Location& location = program.locations[step.instruction];
      TraceInstruction one;
      one.text = source.text;
      one.ptx_line = location.ptx_line;
      one.source_line = location.source_line;
      if (const auto file = program.files.find(location.file); file != program.files.end())
        one.source_file = file->second;
      for (const RegisterWrite& write : source.writes)
        one.registers.emplace_back(write.name, name_of(write.type));
      trace.instructions.push_back(std::move(one));
    }
    step.instruction = it->second;
  }
  return trace;
}

}  // namespace gpk::sim

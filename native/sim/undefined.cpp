#include "sim/undefined.h"

#include <bit>
#include <cstring>

#include "sim/warp_ops.h"

namespace gpk::sim {
namespace {

using Value = Undefined::Value;

const Value* find(const Warp& warp, Cell cell) {
  const auto& registers = warp.undefined->registers;
  if (cell < 0) return nullptr;  // a constant
  const auto it = registers.find(warp.regs + cell);
  return it == registers.end() ? nullptr : &it->second;
}

void add(Value& sum, const Value* value, std::uint32_t lanes) {
  if (value == nullptr || (value->lanes & lanes) == 0) return;
  if (sum.load == nullptr) {
    sum.load = value->load;
    sum.text = value->text;
  }
  sum.lanes |= value->lanes & lanes;
}

void define(Warp& warp, Cell cell, const Value& value, std::uint32_t mask) {
  auto& registers = warp.undefined->registers;
  const auto it = registers.find(warp.regs + cell);
  if (it == registers.end()) {
    if (value.lanes != 0) registers.emplace(warp.regs + cell, value);
    return;
  }
  it->second.lanes &= ~mask;
  if (value.lanes != 0) {
    it->second.lanes |= value.lanes;
    it->second.load = value.load;
    it->second.text = value.text;
  }
  if (it->second.lanes == 0) registers.erase(it);
}

// Which lanes get the value of one of `lanes`: the flags are shuffled as the values will be.
std::uint32_t shuffled(const Op& op, Warp& warp, std::uint32_t mask, std::uint32_t lanes) {
  if (op.a < 0) return 0;
  auto* source = warp.cell<std::uint32_t>(op.a);
  auto* result = warp.cell<std::uint32_t>(op.dst);
  const Cell flag = warp.frame->function->args[op.args + 1];
  std::uint32_t sources[kLanes], results[kLanes];
  std::memcpy(sources, source, sizeof sources);
  std::memcpy(results, result, sizeof results);
  const std::uint32_t predicate = flag == kNoCell ? 0 : warp.predicate(flag);
  for (unsigned lane = 0; lane < kLanes; ++lane) source[lane] = lanes >> lane & 1;
  shuffle(op, warp, mask);
  std::uint32_t found = 0;
  for_lanes(mask, [&](unsigned lane) { found |= (result[lane] & 1) << lane; });
  std::memcpy(result, results, sizeof results);
  std::memcpy(source, sources, sizeof sources);
  if (flag != kNoCell) warp.set_predicate(flag, predicate, kFull);
  return found;
}

// Lanes all of whose stored elements are undefined: copies of structs have their padding among
// them.
const Value* find_stored(const Warp& warp, const Instruction& instruction, Value& stored) {
  stored.lanes = instruction.num_stored == 0 ? 0 : kFull;
  for (unsigned i = 0; i < instruction.num_stored; ++i) {
    const Value* one = find(warp, instruction.reads[instruction.reads.size() - 1 - i]);
    if (one == nullptr) return nullptr;
    stored = {stored.lanes & one->lanes, one->load, one->text};
  }
  return &stored;
}

}  // namespace

void mark_undefined(Warp& warp, const Op& load, Cell cell, std::uint32_t lanes,
                    const std::string& text) {
  if (!warp.undefined) warp.undefined = std::make_unique<Undefined>();
  Value value = {lanes, &load, text};
  if (const Value* old = find(warp, cell)) {
    value.lanes |= old->lanes;
    if (old->load == &load) value.text = old->text;  // of its first lane, which a finding names
  }
  define(warp, cell, value, lanes);
  warp.undefined->last = &load;
  warp.undefined->lanes = kFull;
}

void track_undefined(Warp& warp, const Op& op, std::uint32_t mask) {
  Undefined& state = *warp.undefined;
  // Once for an instruction of several operations.
  const bool same = state.last != nullptr && state.last->location == op.location;
  if (same) mask &= ~state.lanes;  // a join before it has the location, and fewer lanes
  if (mask == 0) return;
  const Instruction& instruction = warp.grid->program->instructions[op.location];
  if (instruction.how == Instruction::Reads::kSelects && op.dst != instruction.writes[0].cell)
    return;  // it prepares an operand
  state.last = &op;
  state.lanes = same ? state.lanes | mask : mask;
  if (state.registers.empty()) return;
  Value used, stored;
  if (instruction.how == Instruction::Reads::kSelects) {
    const std::uint32_t chosen = warp.predicate(op.c) ^ ((op.flags & 1) != 0 ? kFull : 0);
    add(used, find(warp, op.c), mask);
    add(used, find(warp, op.a), mask & chosen);
    add(used, find(warp, op.b), mask & ~chosen);
  } else {
    const std::size_t others = instruction.reads.size() - instruction.num_stored;
    for (std::size_t i = 0; i < others; ++i) add(used, find(warp, instruction.reads[i]), mask);
    add(used, find_stored(warp, instruction, stored), mask);
  }
  if (used.lanes != 0 && instruction.how == Instruction::Reads::kShuffles)
    used.lanes = shuffled(op, warp, mask, used.lanes);
  if (used.lanes != 0 && instruction.how == Instruction::Reads::kMixes) used.lanes = mask;
  if (used.lanes != 0 && instruction.how >= Instruction::Reads::kStores) {
    const int line = warp.grid->program->locations[op.location].ptx_line;
    warp.grid->report(warp, *used.load, static_cast<unsigned>(std::countr_zero(used.lanes)),
                      "uninitialised", used.text + ", and used on PTX line " + std::to_string(line),
                      false);
    used = {};  // once
  }
  for (const RegisterWrite& write : instruction.writes) define(warp, write.cell, used, mask);
}

}  // namespace gpk::sim

// Operands: registers, constants, special registers and addresses as cells.
#include <algorithm>
#include <bit>

#include "sim/control.h"
#include "sim/lower.h"
#include "sim/specials.h"

namespace gpk::sim {

const ast::Operand& Lowering::operand(std::size_t index) const {
  if (index >= inst_->operands.size()) fail("too few operands");
  return inst_->operands[index];
}

void Lowering::expect_operands(std::size_t least, std::size_t most) const {
  if (operands() < least || operands() > most)
    fail("has " + std::to_string(operands()) + " operands, expected " + std::to_string(least) +
         (most != least ? " to " + std::to_string(most) : ""));
}

unsigned Lowering::register_bytes(const Operand& operand) const {
  if (operand.kind != Kind::kRegister) return 0;
  const Type type = source_.registers[static_cast<std::size_t>(operand.reg)].type;
  if (type == Type::kPred) fail("a predicate where a value is expected");
  return std::max(2u, bytes_of(type));
}

std::uint64_t Lowering::immediate(const Operand& operand) const {
  if (operand.kind != Kind::kInteger) fail("expected an integer constant");
  return operand.bits;
}

Cell Lowering::source(const Operand& operand, Type type) {
  if (type == Type::kPred) fail("unexpected predicate");
  const unsigned bytes = std::max(2u, bytes_of(type));
  switch (operand.kind) {
    case Kind::kRegister: {
      if (operand.negated) fail("negated value");
      const unsigned have = register_bytes(operand);
      if (have != bytes)
        fail("register '" + source_.registers[static_cast<std::size_t>(operand.reg)].name +
             "' has " + std::to_string(have * 8) + " bits, expected " + std::to_string(bytes * 8));
      return register_cell(operand.reg);
    }
    case Kind::kInteger: return pool_.constant(operand.bits, bytes);
    case Kind::kFloat: {
      const double value = std::bit_cast<double>(operand.bits);
      if (bytes == 8) return pool_.constant(operand.bits, 8);
      if (bytes == 4)
        return pool_.constant(std::bit_cast<std::uint32_t>(static_cast<float>(value)), 4);
      return pool_.constant(round_to(type == Type::kBf16 ? kFormatBf16 : kFormatF16, value,
                                     Rounding::kNearestEven, false),
                            2);
    }
    case Kind::kSpecial: return special(operand.name, bytes);
    case Kind::kSymbol: return symbol_address(operand.name, operand.bits, bytes);
    default: fail("unexpected operand");
  }
}

Cell Lowering::destination(const Operand& operand, Type type) {
  const unsigned bytes = std::max(2u, bytes_of(type));
  if (operand.kind == Kind::kSink) return temporary(bytes);
  if (operand.kind != Kind::kRegister || operand.negated) fail("destination is no register");
  if (register_bytes(operand) != bytes)
    fail("register '" + source_.registers[static_cast<std::size_t>(operand.reg)].name + "' has " +
         std::to_string(register_bytes(operand) * 8) + " bits, expected " +
         std::to_string(bytes * 8));
  return register_cell(operand.reg);
}

Cell Lowering::predicate_source(const Operand& operand, bool& negated) {
  negated = operand.negated;
  if (operand.kind == Kind::kInteger) return pool_.predicate(operand.bits != 0);
  if (operand.kind == Kind::kSpecial && special_named(operand.name).bytes == 1)
    return special(operand.name, 0);
  if (operand.kind != Kind::kRegister ||
      source_.registers[static_cast<std::size_t>(operand.reg)].type != Type::kPred)
    fail("expected a predicate");
  return register_cell(operand.reg);
}

Cell Lowering::predicate_destination(const Operand& operand) {
  if (operand.kind == Kind::kSink) return kNoCell;
  bool negated = false;
  if (operand.kind != Kind::kRegister) fail("expected a predicate register");
  const Cell cell = predicate_source(operand, negated);
  if (negated) fail("negated destination");
  return cell;
}

Cell Lowering::temporary(unsigned bytes) {
  auto& cells = temporaries_[bytes];
  std::size_t& used = temporaries_used_[bytes];
  if (used == cells.size())
    cells.push_back(allocate_cell(std::size_t{std::max(bytes, 1u)} * kLanes));
  return cells[used++];
}

Cell Lowering::special(std::string_view name, unsigned bytes) {
  const SpecialInfo info = special_named(name);
  if (info.bytes == 0) fail("unknown special register '" + std::string(name) + "'");
  if (info.id >= kClock) {
    const Cell cell = temporary(bytes);
    Op& op = emit(read_clock);
    op.dst = cell;
    op.mode = static_cast<std::uint8_t>(info.id);
    op.cell_bytes = static_cast<std::uint8_t>(bytes);
    return cell;
  }
  const auto key = std::make_pair(static_cast<std::uint16_t>(info.id), bytes);
  const auto [it, added] = specials_.try_emplace(key, 0);
  if (added) {
    it->second = allocate_cell(bytes == 0 ? 4 : std::size_t{bytes} * kLanes);
    out_.specials.push_back({key.first, it->second, static_cast<std::uint8_t>(bytes)});
  }
  return it->second;
}

Cell Lowering::symbol_address(std::string_view name, std::uint64_t offset, unsigned bytes) {
  if (bytes < 4) fail("address in a register of 16 bits");
  if (const ast::Variable* variable = find_variable(name, inst_->scope)) {
    if (variable->space == ast::Variable::Space::kLocal) {
      const Cell cell = temporary(bytes);
      Op& op = emit(local_address);
      op.dst = cell;
      op.imm = locals_.at(variable) + offset;
      op.cell_bytes = static_cast<std::uint8_t>(bytes);
      return cell;
    }
    if (variable->space == ast::Variable::Space::kParam)
      fail("address of parameter '" + std::string(name) + "'");
  }
  if (const ast::Variable* param = find_param(name)) {
    if (!source_.entry) fail("address of parameter '" + std::string(name) + "'");
    for (std::size_t i = 0; i < source_.params.size(); ++i)
      if (&source_.params[i] == param)
        return pool_.relocated(Relocation::Kind::kParam, 0, out_.kernel_params[i].offset + offset,
                               bytes);
  }
  if (const auto it = symbols_.shared.find(name); it != symbols_.shared.end()) {
    if (std::find(out_.shared_used.begin(), out_.shared_used.end(), it->second) ==
        out_.shared_used.end())
      out_.shared_used.push_back(it->second);
    return pool_.relocated(program_.shared[it->second].dynamic ? Relocation::Kind::kDynamicShared
                                                               : Relocation::Kind::kShared,
                           it->second, offset, bytes);
  }
  if (const auto it = symbols_.globals.find(name); it != symbols_.globals.end())
    return pool_.relocated(Relocation::Kind::kGlobal, it->second, offset, bytes);
  if (const auto it = symbols_.functions.find(name); it != symbols_.functions.end())
    return pool_.constant(kFunctionWindow + it->second, bytes);
  if (name == "WARP_SZ") return pool_.constant(kLanes + offset, bytes);
  fail("unknown symbol '" + std::string(name) + "'");
}

void Lowering::address(Op& op, const Operand& operand) { address_in(op, operand, &Op::a); }

void Lowering::address_in(Op& op, const Operand& operand, Cell Op::* cell) {
  if (operand.kind != Kind::kAddress) fail("expected an address");
  unsigned bytes = 8;
  if (operand.reg >= 0) {
    Operand base;
    base.kind = Kind::kRegister;
    base.reg = operand.reg;
    bytes = register_bytes(base);
    if (bytes != 4 && bytes != 8)
      fail("address register has " + std::to_string(bytes * 8) + " bits");
    op.*cell = register_cell(operand.reg);
    op.imm = operand.bits;
  } else if (!operand.name.empty()) {
    op.*cell = symbol_address(operand.name, operand.bits, 8);
    op.imm = 0;
  } else {
    op.*cell = pool_.constant(operand.bits, 8);
    op.imm = 0;
  }
  op.flags = static_cast<std::uint8_t>((op.flags & ~kAddress64) | (bytes == 8 ? kAddress64 : 0));
}

}  // namespace gpk::sim

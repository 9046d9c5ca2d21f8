// Logic, comparisons, selections and moves.
#include "sim/lower.h"
#include "sim/machine.h"
#include "sim/register_ops.h"

namespace gpk::sim {

void Lowering::lower_logic(Alu alu) {
  const Type type = take_type();
  no_more_modifiers();
  const bool unary = alu == Alu::kNot;
  expect_operands(unary ? 2 : 3, unary ? 2 : 3);
  if (type == Type::kPred) {
    bool negate_a = false, negate_b = false;
    const Cell a = predicate_source(operand(1), negate_a);
    const Cell b = unary ? a : predicate_source(operand(2), negate_b);
    const Cell dst = predicate_destination(operand(0));
    if (dst == kNoCell) return;
    Op& op = emit(predicate_logic);
    op.a = a;
    op.b = b;
    op.dst = dst;
    op.mode = static_cast<std::uint8_t>(alu);
    op.flags = static_cast<std::uint8_t>((negate_a ? 1 : 0) | (negate_b ? 2 : 0));
    return;
  }
  if (is_float(type) || bytes_of(type) < 2 || bytes_of(type) > 8) unsupported();
  const Cell a = source(1, type), b = unary ? 0 : source(2, type);
  emit_alu(alu, type, destination(0, type), a, b);
}

void Lowering::lower_setp(bool set) {
  static constexpr std::pair<std::string_view, Compare> kCompares[] = {
      {"eq", Compare::kEq},   {"ne", Compare::kNe},   {"lt", Compare::kLt},
      {"le", Compare::kLe},   {"gt", Compare::kGt},   {"ge", Compare::kGe},
      {"lo", Compare::kLt},   {"ls", Compare::kLe},   {"hi", Compare::kGt},
      {"hs", Compare::kGe},   {"equ", Compare::kEqu}, {"neu", Compare::kNeu},
      {"ltu", Compare::kLtu}, {"leu", Compare::kLeu}, {"gtu", Compare::kGtu},
      {"geu", Compare::kGeu}, {"num", Compare::kNum}, {"nan", Compare::kNan}};
  int compare = -1;
  for (const auto& [name, value] : kCompares)
    if (compare < 0 && take(name)) compare = static_cast<int>(value);
  if (compare < 0) unsupported();
  const int combine = take_one_of({"and", "or", "xor"});
  const bool ftz = take("ftz");
  const Type to = set ? take_type() : Type::kPred;
  const Type type = take_type();
  no_more_modifiers();
  expect_operands(combine >= 0 ? 4 : 3, combine >= 0 ? 4 : 3);
  if (type == Type::kF16x2 || type == Type::kBf16x2) {
    if (set) unsupported();
    // Both halves at once: {p|q} = a <=> b, half by half.
    if (combine >= 0 || operand(0).kind != Kind::kPair) unsupported();
    const Cell a = source(1, type), b = source(2, type);
    const Type half = type == Type::kF16x2 ? Type::kF16 : Type::kBf16;
    for (unsigned k = 0; k < 2; ++k) {
      const Cell x = temporary(2), y = temporary(2);
      for (const auto& [from, to_cell] : {std::pair{a, x}, std::pair{b, y}}) {
        Op& op = emit(k == 0 ? low_half : high_half);
        op.a = from;
        op.dst = to_cell;
      }
      Op& op = emit(compare_handler(static_cast<Compare>(compare), half, ftz));
      op.a = x;
      op.b = y;
      op.dst = predicate_destination(operand(0).elements[k]);
      op.args = static_cast<std::uint32_t>(kNoCell);
    }
    return;
  }
  const Cell a = source(1, type), b = source(2, type);
  bool negated = false;
  const Cell other = combine >= 0 ? predicate_source(operand(3), negated) : 0;
  Cell first = kNoCell, second = kNoCell;
  if (set) {
    first = temporary(1);
  } else if (operand(0).kind == Kind::kPair) {
    first = predicate_destination(operand(0).elements[0]);
    second = predicate_destination(operand(0).elements[1]);
  } else {
    first = predicate_destination(operand(0));
  }
  Op& op = emit(compare_handler(static_cast<Compare>(compare), type, ftz));
  op.dst = first;
  op.a = a;
  op.b = b;
  op.c = other;
  op.mode2 = static_cast<std::uint8_t>(combine + 1);
  op.flags = negated ? 1 : 0;
  op.args = static_cast<std::uint32_t>(second);
  if (!set) return;
  if (to == Type::kPred) unsupported();
  const std::uint64_t yes = to == Type::kF32   ? 0x3f800000
                            : to == Type::kF16 ? 0x3c00
                                               : ~std::uint64_t{0};
  const unsigned bytes = bytes_of(to);
  Op& pick = emit(select_handler(bytes));
  pick.dst = destination(0, to);
  pick.a = pool_.constant(yes, bytes);
  pick.b = pool_.constant(0, bytes);
  pick.c = first;
}

void Lowering::lower_selp() {
  const Type type = take_type();
  no_more_modifiers();
  expect_operands(4, 4);
  bool negated = false;
  const Cell a = source(1, type), b = source(2, type), c = predicate_source(operand(3), negated);
  Op& op = emit(select_handler(bytes_of(type)));
  op.dst = destination(0, type);
  op.a = a;
  op.b = b;
  op.c = c;
  op.flags = negated ? 1 : 0;
}

void Lowering::lower_slct() {
  const bool ftz = take("ftz");
  const Type type = take_type();
  const Type by = take_type();
  no_more_modifiers();
  expect_operands(4, 4);
  if (by != Type::kS32 && by != Type::kF32) unsupported();
  const Cell a = source(1, type), b = source(2, type), c = source(3, by);
  const Cell flag = temporary(1);
  Op& compare = emit(compare_handler(Compare::kGe, by, ftz));
  compare.dst = flag;
  compare.a = c;
  compare.b = pool_.constant(0, 4);
  compare.args = static_cast<std::uint32_t>(kNoCell);
  Op& op = emit(select_handler(bytes_of(type)));
  op.dst = destination(0, type);
  op.a = a;
  op.b = b;
  op.c = flag;
}

void Lowering::lower_mov() {
  const Type type = take_type();
  no_more_modifiers();
  expect_operands(2, 2);
  const Operand& to = operand(0);
  const Operand& from = operand(1);
  if (type == Type::kPred) {
    bool negated = false;
    const Cell a = predicate_source(from, negated);
    const Cell dst = predicate_destination(to);
    if (dst == kNoCell) return;
    Op& op = emit(predicate_logic);
    op.a = op.b = a;
    op.dst = dst;
    op.mode = static_cast<std::uint8_t>(Alu::kMove);
    op.flags = negated ? 1 : 0;
    return;
  }
  const unsigned bytes = bytes_of(type);
  if (bytes < 2) unsupported();
  const auto part_type = [&](std::size_t count) {
    const unsigned part = count == 0 ? 0 : bytes / static_cast<unsigned>(count);
    if (part * count != bytes || (part != 1 && part != 2 && part != 4 && part != 8))
      fail("vector of the wrong size");
    return part;
  };
  const auto type_of_bytes = [](unsigned n) {
    return n == 2 ? Type::kB16 : n == 4 ? Type::kB32 : n == 8 ? Type::kB64 : Type::kB128;
  };
  if (from.kind == Kind::kVector) {
    const unsigned part = part_type(from.elements.size());
    if (part < 2) unsupported();
    std::vector<std::int32_t> cells;
    for (const Operand& element : from.elements)
      cells.push_back(source(element, type_of_bytes(part)));
    const Cell dst = destination(to, type);
    const std::uint32_t at = args(cells);
    Op& op = emit(pack_vector);
    op.dst = dst;
    op.args = at;
    op.count = static_cast<std::uint8_t>(cells.size());
    op.bytes = static_cast<std::uint8_t>(part);
    op.cell_bytes = static_cast<std::uint8_t>(bytes);
    return;
  }
  if (to.kind == Kind::kVector) {
    const unsigned part = part_type(to.elements.size());
    if (part < 2) unsupported();
    const Cell a = source(from, type);
    std::vector<std::int32_t> cells;
    for (const Operand& element : to.elements)
      cells.push_back(destination(element, type_of_bytes(part)));
    const std::uint32_t at = args(cells);
    Op& op = emit(unpack_vector);
    op.a = a;
    op.args = at;
    op.count = static_cast<std::uint8_t>(cells.size());
    op.bytes = static_cast<std::uint8_t>(part);
    op.cell_bytes = static_cast<std::uint8_t>(bytes);
    return;
  }
  const Cell a = source(from, type);
  const Cell dst = destination(to, type);
  if (bytes == 16) {
    Op& op = emit(move_wide);
    op.dst = dst;
    op.a = a;
    return;
  }
  emit_alu(Alu::kMove, type_of_bytes(bytes), dst, a);
}

}  // namespace gpk::sim

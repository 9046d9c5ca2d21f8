// Arithmetic, logic, comparisons, moves and conversions.
#include <algorithm>
#include <bit>

#include "sim/lower.h"
#include "sim/machine.h"
#include "sim/register_ops.h"

namespace gpk::sim {

bool Lowering::lower_alu() {
  if (root_ == "add") return lower_arithmetic(Alu::kAdd), true;
  if (root_ == "sub") return lower_arithmetic(Alu::kSub), true;
  if (root_ == "addc" || root_ == "subc")
    return lower_arithmetic(root_ == "addc" ? Alu::kAdd : Alu::kSub), true;
  if (root_ == "mul" || root_ == "mul24") return lower_mul_mad(false), true;
  if (root_ == "mad" || root_ == "madc" || root_ == "fma") return lower_mul_mad(true), true;
  if (root_ == "min" || root_ == "max") return lower_minmax(root_ == "max"), true;
  if (root_ == "and") return lower_logic(Alu::kAnd), true;
  if (root_ == "or") return lower_logic(Alu::kOr), true;
  if (root_ == "xor") return lower_logic(Alu::kXor), true;
  if (root_ == "not") return lower_logic(Alu::kNot), true;
  if (root_ == "setp") return lower_setp(false), true;
  if (root_ == "set") return lower_setp(true), true;
  if (root_ == "selp") return lower_selp(), true;
  if (root_ == "slct") return lower_slct(), true;
  if (root_ == "mov") return lower_mov(), true;
  static const std::pair<std::string_view, Alu> kTranscendental[] = {
      {"rcp", Alu::kRcp}, {"sqrt", Alu::kSqrt}, {"rsqrt", Alu::kRsqrt}, {"sin", Alu::kSin},
      {"cos", Alu::kCos}, {"lg2", Alu::kLg2},   {"ex2", Alu::kEx2},     {"tanh", Alu::kTanh}};
  for (const auto& [name, alu] : kTranscendental)
    if (root_ == name) return lower_transcendental(alu), true;

  const auto one_type = [&] {
    const Type type = take_type();
    no_more_modifiers();
    return type;
  };
  if (root_ == "div" || root_ == "rem") {
    const bool approximate = take("approx") || take("full");
    const bool ftz = take("ftz");
    const auto rounding = take_rounding();
    const Type type = one_type();
    if (is_float(type) && !approximate && !rounding) unsupported();
    if (root_ == "rem" && is_float(type)) unsupported();
    expect_operands(3, 3);
    const Cell a = source(1, type);
    const Cell b = source(2, type);
    emit_alu(root_ == "rem" ? Alu::kRem : Alu::kDiv, type, destination(0, type), a, b, 0,
             ftz ? kFtz : 0, rounding.value_or(Rounding::kNearestEven));
    return true;
  }
  if (root_ == "neg" || root_ == "abs" || root_ == "cnot" || root_ == "brev") {
    const bool ftz = take("ftz");
    const Type type = one_type();
    expect_operands(2, 2);
    const Cell a = source(1, type);
    emit_alu(root_ == "neg"    ? Alu::kNeg
             : root_ == "abs"  ? Alu::kAbs
             : root_ == "cnot" ? Alu::kCnot
                               : Alu::kBrev,
             type, destination(0, type), a, 0, 0, ftz ? kFtz : 0);
    return true;
  }
  if (root_ == "copysign") {
    const Type type = one_type();
    expect_operands(3, 3);
    const Cell a = source(1, type);
    const Cell b = source(2, type);
    emit_alu(Alu::kCopysign, type, destination(0, type), a, b);
    return true;
  }
  if (root_ == "clz" || root_ == "popc" || root_ == "bfind") {
    const bool shift = take("shiftamt");
    const Type type = one_type();
    expect_operands(2, 2);
    const Cell a = source(1, type);
    emit_alu(root_ == "clz"    ? Alu::kClz
             : root_ == "popc" ? Alu::kPopc
             : shift           ? Alu::kBfindShift
                               : Alu::kBfind,
             type, destination(0, Type::kU32), a);
    return true;
  }
  if (root_ == "shl" || root_ == "shr") {
    const Type type = one_type();
    expect_operands(3, 3);
    const Cell a = source(1, type);
    const Cell b = source(2, Type::kU32);
    emit_alu(root_ == "shl" ? Alu::kShl : Alu::kShr, type, destination(0, type), a, b);
    return true;
  }
  if (root_ == "shf") {
    const bool left = take("l");
    if (!left && !take("r")) unsupported();
    const bool clamp = take("clamp");
    if (!clamp && !take("wrap")) unsupported();
    const Type type = one_type();
    expect_operands(4, 4);
    const Cell a = source(1, type), b = source(2, type), c = source(3, Type::kU32);
    emit_alu(left ? (clamp ? Alu::kShfLClamp : Alu::kShfL) : (clamp ? Alu::kShfRClamp : Alu::kShfR),
             type, destination(0, type), a, b, c);
    return true;
  }
  if (root_ == "bfe") {
    const Type type = one_type();
    expect_operands(4, 4);
    const Cell a = source(1, type), b = source(2, Type::kU32), c = source(3, Type::kU32);
    emit_alu(Alu::kBfe, type, destination(0, type), a, b, c);
    return true;
  }
  if (root_ == "bfi") {
    const Type type = one_type();
    expect_operands(5, 5);
    const Cell a = source(1, type), b = source(2, type), c = source(3, Type::kU32);
    const Cell length = source(4, Type::kU32);
    emit_alu(Alu::kBfi, type, destination(0, type), a, b, c).args =
        static_cast<std::uint32_t>(length);
    return true;
  }
  if (root_ == "prmt") {
    const int mode = take_one_of({"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"});
    const Type type = one_type();
    expect_operands(4, 4);
    const Cell a = source(1, type), b = source(2, type), c = source(3, Type::kU32);
    emit_alu(Alu::kPrmt, type, destination(0, type), a, b, c).mode =
        static_cast<std::uint8_t>(mode + 1);
    return true;
  }
  if (root_ == "lop3") {
    const Type type = one_type();
    expect_operands(5, 5);
    const Cell a = source(1, type), b = source(2, type), c = source(3, type);
    emit_alu(Alu::kLop3, type, destination(0, type), a, b, c).imm = immediate(operand(4));
    return true;
  }
  if (root_ == "dp4a" || root_ == "dp2a") {
    const bool high = take("hi");
    if (root_ == "dp2a" && !high && !take("lo")) unsupported();
    const Type first = take_type();
    const Type second = one_type();
    expect_operands(4, 4);
    const Cell a = source(1, first), b = source(2, second), c = source(3, Type::kB32);
    Op& op = emit_alu(Alu::kDp4a, Type::kU32, destination(0, Type::kB32), a, b, c);
    op.mode = static_cast<std::uint8_t>((is_signed(first) ? 1 : 0) | (is_signed(second) ? 2 : 0));
    op.mode2 = static_cast<std::uint8_t>(root_ == "dp4a" ? 0 : high ? 2 : 1);
    return true;
  }
  if (root_ == "sad") {
    const Type type = one_type();
    expect_operands(4, 4);
    const Cell a = source(1, type), b = source(2, type), c = source(3, type);
    emit_alu(Alu::kSad, type, destination(0, type), a, b, c);
    return true;
  }
  if (root_ == "testp") {
    const int mode =
        take_one_of({"finite", "infinite", "number", "notanumber", "normal", "subnormal"});
    const Type type = one_type();
    if (mode < 0 || (type != Type::kF32 && type != Type::kF64)) unsupported();
    expect_operands(2, 2);
    const Cell a = source(1, type);
    Op& op = emit(test_float);
    op.a = a;
    op.dst = predicate_destination(operand(0));
    if (op.dst == kNoCell) fail("no destination");
    op.mode = static_cast<std::uint8_t>(mode);
    op.cell_bytes = static_cast<std::uint8_t>(bytes_of(type));
    return true;
  }
  if (root_ == "bmsk" || root_ == "szext" || root_ == "fns") {
    const bool clamp = take("clamp");
    if (!clamp && root_ != "fns" && !take("wrap")) unsupported();
    const Type type = one_type();
    expect_operands(root_ == "fns" ? 4 : 3, root_ == "fns" ? 4 : 3);
    const Cell a = source(1, type), b = source(2, Type::kU32);
    const Cell c = root_ == "fns" ? source(3, Type::kU32) : 0;
    Op& op = emit(root_ == "bmsk" ? make_mask : root_ == "szext" ? extend_bits : find_nth_set);
    op.dst = destination(0, type);
    op.a = a;
    op.b = b;
    op.c = c;
    op.mode = clamp ? 1 : 0;
    op.mode2 = is_signed(type) ? 1 : 0;
    return true;
  }
  return false;
}

void Lowering::lower_arithmetic(Alu alu) {
  const bool reads = root_ == "addc" || root_ == "subc";
  const bool writes = take("cc");
  const auto rounding = take_rounding();
  const bool ftz = take("ftz");
  const bool sat = take("sat");
  const Type type = take_type();
  no_more_modifiers();
  expect_operands(3, 3);
  const Cell a = source(1, type), b = source(2, type);
  if (reads || writes) {
    if (carry_ == kNoCell) carry_ = allocate_cell(4);
    Op& op = emit_alu(alu == Alu::kAdd ? Alu::kAddCarry : Alu::kSubCarry, type,
                      destination(0, type), a, b);
    op.args = static_cast<std::uint32_t>(carry_);
    op.mode = static_cast<std::uint8_t>((reads ? 1 : 0) | (writes ? 2 : 0));
    return;
  }
  if (is_integer(type) && (rounding || ftz)) unsupported();
  if (is_integer(type) && sat) alu = alu == Alu::kAdd ? Alu::kAddSat : Alu::kSubSat;
  emit_alu(alu, type, destination(0, type), a, b, 0, (ftz ? kFtz : 0) | (sat ? kSat : 0),
           rounding.value_or(Rounding::kNearestEven));
}

void Lowering::lower_mul_mad(bool mad) {
  const bool reads = root_ == "madc";
  const bool writes = take("cc");
  const auto rounding = take_rounding();
  const int part = take_one_of({"lo", "hi", "wide"});
  const bool ftz = take("ftz");
  const bool sat = take("sat");
  const bool relu = take("relu");
  const Type type = take_type();
  no_more_modifiers();
  expect_operands(mad ? 4 : 3, mad ? 4 : 3);
  if (is_float(type)) {
    if (part >= 0 || (root_ == "fma" && !rounding) || reads || writes) unsupported();
    const Cell a = source(1, type), b = source(2, type), c = mad ? source(3, type) : 0;
    emit_alu(mad ? (relu ? Alu::kFmaRelu : Alu::kFma) : Alu::kMul, type, destination(0, type), a, b,
             c, (ftz ? kFtz : 0) | (sat ? kSat : 0), rounding.value_or(Rounding::kNearestEven));
    return;
  }
  if (root_ == "fma" || rounding || ftz || relu || part < 0 || bytes_of(type) < 2) unsupported();
  if (root_ == "mul24") {
    if (part != 0) unsupported();
    const Cell a = source(1, type), b = source(2, type);
    emit_alu(Alu::kMul24, type, destination(0, type), a, b);
    return;
  }
  const Type wide = part != 2            ? type
                    : type == Type::kU16 ? Type::kU32
                    : type == Type::kS16 ? Type::kS32
                    : type == Type::kU32 ? Type::kU64
                    : type == Type::kS32 ? Type::kS64
                                         : Type::kNone;
  if (wide == Type::kNone) unsupported();
  const Cell a = source(1, type), b = source(2, type), c = mad ? source(3, wide) : 0;
  const Cell dst = destination(0, wide);
  if (reads || writes) {
    if (part == 2 || bytes_of(type) < 4) unsupported();
    if (carry_ == kNoCell) carry_ = allocate_cell(4);
    Op& op = emit_alu(part == 0 ? Alu::kMadLoCarry : Alu::kMadHiCarry, type, dst, a, b, c);
    op.args = static_cast<std::uint32_t>(carry_);
    op.mode = static_cast<std::uint8_t>((reads ? 1 : 0) | (writes ? 2 : 0));
    return;
  }
  if (sat && !(mad && part == 1)) unsupported();
  const Alu alu = part == 0   ? (mad ? Alu::kMad : Alu::kMul)
                  : part == 1 ? (mad ? (sat ? Alu::kMadHiSat : Alu::kMadHi) : Alu::kMulHi)
                              : (mad ? Alu::kMadWide : Alu::kMulWide);
  emit_alu(alu, type, dst, a, b, c);
}

void Lowering::lower_minmax(bool max) {
  const bool ftz = take("ftz");
  const bool nan = take("NaN");
  const bool xorsign = take("xorsign");
  if (xorsign && !take("abs")) unsupported();
  const bool relu = take("relu");
  const Type type = take_type();
  no_more_modifiers();
  expect_operands(3, 4);
  if ((nan || xorsign || ftz) && !is_float(type)) unsupported();
  const bool three = operands() == 4;
  const Cell a = source(1, type), b = source(2, type), c = three ? source(3, type) : 0;
  Alu alu = max ? Alu::kMax : Alu::kMin;
  if (nan) alu = max ? Alu::kMaxNan : Alu::kMinNan;
  if (xorsign) alu = max ? Alu::kMaxXorsign : Alu::kMinXorsign;
  if (three) alu = max ? Alu::kMax3 : Alu::kMin3;
  const Cell dst = destination(0, type);
  emit_alu(alu, type, dst, a, b, c, ftz ? kFtz : 0);
  if (relu) {
    if (type != Type::kS32) unsupported();
    emit_alu(Alu::kMax, type, dst, dst, pool_.constant(0, 4));
  }
}

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

void Lowering::lower_transcendental(Alu alu) {
  const bool approximate = take("approx");
  const auto rounding = take_rounding();
  const bool ftz = take("ftz");
  const Type type = take_type();
  no_more_modifiers();
  expect_operands(2, 2);
  if (!approximate && !rounding) unsupported();
  if (approximate && type == Type::kF64) {
    if (alu == Alu::kRcp)
      alu = Alu::kRcpCoarse;
    else if (alu == Alu::kRsqrt)
      alu = ftz ? Alu::kRsqrtCoarse : Alu::kRsqrt;
    else
      unsupported();
  }
  const Cell a = source(1, type);
  emit_alu(alu, type, destination(0, type), a, 0, 0, ftz ? kFtz : 0,
           rounding.value_or(Rounding::kNearestEven));
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

bool Lowering::lower_convert() {
  if (root_ != "cvt") return false;
  lower_cvt();
  return true;
}

void Lowering::lower_cvt() {
  static constexpr std::string_view kIntegral[] = {"rni", "rzi", "rmi", "rpi"};
  unsigned mode = 0;
  bool integral = false;
  for (unsigned i = 0; i < 4; ++i)
    if (take(kIntegral[i])) {
      mode = i;
      integral = true;
    }
  const auto rounding = take_rounding();
  const bool ftz = take("ftz");
  const bool sat = take("sat");
  const bool relu = take("relu");
  const bool satfinite = take("satfinite");
  if (take("pack")) {  // cvt.pack.sat.u8.s32.b32 d, a, b, c
    const Type to = take_type(), from = take_type();
    if (from != Type::kS32 || !sat || bytes_of(to) > 2) unsupported();
    const bool chained = operands() == 4;
    if (chained) take("b32");
    no_more_modifiers();
    expect_operands(3, 4);
    const Cell a = source(1, from), b = source(2, from);
    const Cell c = chained ? source(3, Type::kB32) : pool_.constant(0, 4);
    Op& op = emit(pack_saturated);
    op.dst = destination(0, Type::kB32);
    op.a = a;
    op.b = b;
    op.c = c;
    op.mode = static_cast<std::uint8_t>(to);
    return;
  }
  const Type to = take_type();
  Type from = take_type();
  no_more_modifiers();
  const unsigned flags = (ftz ? kConvertFtz : 0) | (sat ? kConvertSat : 0) |
                         (relu ? kConvertRelu : 0) | (satfinite ? kConvertSatfinite : 0);
  const bool pair =
      to == Type::kF16x2 || to == Type::kBf16x2 || to == Type::kE4m3x2 || to == Type::kE5m2x2;
  if (pair && from == Type::kF32) {
    expect_operands(3, 3);
    const Cell a = source(1, from), b = source(2, from);
    Op& op = emit(convert_pair);
    op.dst = destination(0, to);
    op.a = a;
    op.b = b;
    op.bytes = static_cast<std::uint8_t>(to);
    op.mode = static_cast<std::uint8_t>(rounding.value_or(Rounding::kNearestEven));
    op.flags = static_cast<std::uint8_t>(flags);
    return;
  }
  expect_operands(2, 2);
  if (pair || from == Type::kE4m3x2 || from == Type::kE5m2x2) {
    const bool widens = (from == Type::kE4m3x2 || from == Type::kE5m2x2) && to == Type::kF16x2;
    const bool narrows = (to == Type::kE4m3x2 || to == Type::kE5m2x2) &&
                         (from == Type::kF16x2 || from == Type::kBf16x2);
    if (!widens && !narrows) unsupported();
    const Cell a = source(1, from);
    Op& op = emit(unpack_pair);
    op.dst = destination(0, to);
    op.a = a;
    op.bytes = static_cast<std::uint8_t>(to);
    op.count = static_cast<std::uint8_t>(from);
    op.flags = static_cast<std::uint8_t>(flags);
    return;
  }
  if (is_float(from) && is_integer(to) && !integral) unsupported();
  if (integral)
    mode |= is_integer(to) ? kToInteger : kToIntegral;
  else
    mode = static_cast<unsigned>(rounding.value_or(Rounding::kNearestEven));
  if (is_integer(from) && integral) unsupported();
  // Sources and destinations may be registers wider than the type.
  const Operand& in = operand(1);
  Cell a = 0;
  const unsigned from_bytes = bytes_of(from);
  if (in.kind == Kind::kRegister && register_bytes(in) != std::max(2u, from_bytes)) {
    if (register_bytes(in) < from_bytes || is_float(from)) fail("source register too narrow");
    const unsigned have = register_bytes(in);
    a = temporary(std::max(2u, from_bytes));
    Op& op = emit(fast_convert_handler(from_bytes <= 2   ? Type::kB16
                                       : from_bytes == 4 ? Type::kB32
                                                         : Type::kB64,
                                       have == 2   ? Type::kB16
                                       : have == 4 ? Type::kB32
                                                   : Type::kB64,
                                       0, 0));
    op.dst = a;
    op.a = register_cell(in.reg);
  } else {
    a = source(in, from);
  }
  const Operand& out = operand(0);
  if (out.kind == Kind::kSink) return;
  const unsigned to_bytes = std::max(2u, bytes_of(to));
  const unsigned have = register_bytes(out);
  if (out.kind != Kind::kRegister || have < to_bytes || (have != to_bytes && is_float(to)))
    fail("destination register of the wrong size");
  const Cell dst = register_cell(out.reg);
  // A narrower integer result is extended to its register.
  const bool narrow = have != to_bytes;
  const Cell result = narrow ? temporary(to_bytes) : dst;
  Handler fast =
      bytes_of(to) < 2 || from_bytes < 2 ? nullptr : fast_convert_handler(to, from, mode, flags);
  if (is_integer(to) && is_integer(from) && flags == kConvertSat && bytes_of(to) >= from_bytes &&
      is_signed(to) == is_signed(from))
    fast = fast_convert_handler(to, from, mode, 0);
  Op& op = emit(fast != nullptr ? fast : convert_any);
  op.dst = result;
  op.a = a;
  op.bytes = static_cast<std::uint8_t>(to);
  op.count = static_cast<std::uint8_t>(from);
  op.mode = static_cast<std::uint8_t>(mode);
  op.flags = static_cast<std::uint8_t>(flags);
  if (narrow) {
    Op& widen = emit(fast_convert_handler(have == 4 ? Type::kB32 : Type::kB64,
                                          to_bytes == 2 ? (is_signed(to) ? Type::kS16 : Type::kU16)
                                                        : (is_signed(to) ? Type::kS32 : Type::kU32),
                                          0, 0));
    widen.dst = dst;
    widen.a = result;
  }
}

}  // namespace gpk::sim

// Arithmetic and logic: which instruction it is, and those of a single form.
#include "sim/lower.h"
#include "sim/machine.h"
#include "sim/register_ops.h"

namespace gpk::sim {
namespace {

// One type and no other modifier. Operands, the destination first: t of the type, u of u32.
struct Plain {
  std::string_view root;
  Alu alu;
  std::string_view operands;
};
constexpr Plain kPlain[] = {
    {"copysign", Alu::kCopysign, "ttt"}, {"sad", Alu::kSad, "tttt"}, {"cnot", Alu::kCnot, "tt"},
    {"brev", Alu::kBrev, "tt"},          {"clz", Alu::kClz, "ut"},   {"popc", Alu::kPopc, "ut"},
    {"shl", Alu::kShl, "ttu"},           {"shr", Alu::kShr, "ttu"},  {"bfe", Alu::kBfe, "ttuu"},
};

}  // namespace

// add, min and max of two 16-bit integers in a word.
bool Lowering::lower_half_words() {
  const Alu alu = root_ == "add" ? Alu::kAdd : root_ == "min" ? Alu::kMin : Alu::kMax;
  if (root_ != "add" && root_ != "min" && root_ != "max") return false;
  const bool is_signed = take("s16x2");
  if (!is_signed && !take("u16x2")) return false;
  const bool relu = is_signed && alu != Alu::kAdd && take("relu");
  no_more_modifiers();
  expect_operands(3, 3);
  const Cell a = source(1, Type::kB32), b = source(2, Type::kB32);
  Op& op = emit(half_words);
  op.a = a;
  op.b = b;
  op.dst = destination(0, Type::kB32);
  op.mode = static_cast<std::uint8_t>(alu);
  op.flags = static_cast<std::uint8_t>((is_signed ? 1 : 0) | (relu ? 2 : 0));
  return true;
}

bool Lowering::lower_alu() {
  if (lower_half_words()) return true;
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
  for (const auto& [name, alu, kinds] : kPlain)
    if (root_ == name) {
      const Type type = one_type();
      const auto type_of = [&](std::size_t i) { return kinds[i] == 't' ? type : Type::kU32; };
      expect_operands(kinds.size(), kinds.size());
      Cell in[3] = {};
      for (std::size_t i = 1; i < kinds.size(); ++i) in[i - 1] = source(i, type_of(i));
      emit_alu(alu, type, destination(0, type_of(0)), in[0], in[1], in[2]);
      return true;
    }
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
  if (root_ == "neg" || root_ == "abs") {
    const bool ftz = take("ftz");
    const Type type = one_type();
    expect_operands(2, 2);
    const Cell a = source(1, type);
    emit_alu(root_ == "neg" ? Alu::kNeg : Alu::kAbs, type, destination(0, type), a, 0, 0,
             ftz ? kFtz : 0);
    return true;
  }
  if (root_ == "bfind") {
    const bool shift = take("shiftamt");
    const Type type = one_type();
    expect_operands(2, 2);
    const Cell a = source(1, type);
    emit_alu(shift ? Alu::kBfindShift : Alu::kBfind, type, destination(0, Type::kU32), a);
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
  if (root_ == "vabsdiff4" || root_ == "vabsdiff2") {
    const bool sum = take("add");
    const Type result = take_type(), first = take_type(), second = one_type();
    if (result != Type::kU32 || bytes_of(first) != 4 || bytes_of(second) != 4) unsupported();
    expect_operands(4, 4);
    const Cell a = source(1, first), b = source(2, second), c = source(3, Type::kB32);
    Op& op = emit(absolute_differences);
    op.a = a;
    op.b = b;
    op.c = c;
    op.dst = destination(0, Type::kB32);
    op.mode = static_cast<std::uint8_t>((is_signed(first) ? 1 : 0) | (is_signed(second) ? 2 : 0));
    op.mode2 = sum ? 1 : 0;
    op.count = root_ == "vabsdiff4" ? 8 : 16;
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

}  // namespace gpk::sim

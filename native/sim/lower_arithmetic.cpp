// Sums, products, extremes and functions of numbers.
#include "sim/lower.h"
#include "sim/machine.h"

namespace gpk::sim {

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

}  // namespace gpk::sim

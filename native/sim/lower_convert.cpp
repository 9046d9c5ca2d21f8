// cvt.
#include <algorithm>

#include "sim/lower.h"
#include "sim/machine.h"
#include "sim/register_ops.h"

namespace gpk::sim {

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

// Handlers of register-to-register operations.
#pragma once

#include "sim/formats.h"
#include "sim/program.h"
#include "sim/types.h"

namespace gpk::sim {

enum class Alu : std::uint8_t {
  // dst, a
  kMove,
  kNot,
  kCnot,
  kNeg,
  kAbs,
  kClz,
  kPopc,
  kBrev,
  kBfind,
  kBfindShift,
  kRcp,
  kSqrt,
  kRsqrt,
  kSin,
  kCos,
  kLg2,
  kEx2,
  kTanh,
  kRcpCoarse,
  kRsqrtCoarse,
  // dst, a, b
  kAdd,
  kSub,
  kMul,
  kMulHi,
  kMulWide,
  kDiv,
  kRem,
  kMin,
  kMax,
  kMinNan,
  kMaxNan,
  kMinXorsign,
  kMaxXorsign,
  kAnd,
  kOr,
  kXor,
  kShl,
  kShr,
  kCopysign,
  kAddSat,
  kSubSat,
  kMul24,
  // dst, a, b, c
  kFma,
  kFmaRelu,
  kMad,
  kMadHi,
  kMadWide,
  kMadHiSat,
  kSad,
  kBfe,
  kBfi /* base in args */,
  kPrmt,
  kLop3,
  kShfL,
  kShfR,
  kShfLClamp,
  kShfRClamp,
  kDp4a,
  kDp2aLo,
  kDp2aHi,
  kSlct,
  kMin3,
  kMax3,
  // Carries; the cell of the carry is op.args. mode: 1 reads it, 2 writes it.
  kAddCarry,
  kSubCarry,
  kMadLoCarry,
  kMadHiCarry,
};

enum AluFlags : std::uint8_t { kFtz = 1, kSat = 2 };

// nullptr: no such operation on that type. Picked for the host's processor.
Handler alu_handler(Alu op, Type type, unsigned flags, Rounding rounding);

// setp: dst = a <=> b, or with a second predicate (mode2: 0 none, 1 and, 2 or, 3 xor; c: the
// predicate, flags 1: negated) and args: cell of the complement, or kNoCell.
enum class Compare : std::uint8_t {
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  kEqu,
  kNeu,
  kLtu,
  kLeu,
  kGtu,
  kGeu,
  kNum,
  kNan,
};
Handler compare_handler(Compare compare, Type type, bool ftz);

// selp: dst = c ? a : b.
Handler select_handler(unsigned bytes);

// nullptr: no fast twin; convert_handler() then does it, any type to any, by op.mode (Rounding of
// a float result, or 8 + rounding to an integer; 16: round to an integral float), op.flags.
Handler fast_convert_handler(Type to, Type from, unsigned mode, unsigned flags);
enum ConvertMode : std::uint8_t { kToInteger = 8, kToIntegral = 16 };
enum ConvertFlags : std::uint8_t {
  kConvertFtz = 1,
  kConvertSat = 2,
  kConvertRelu = 4,
  kConvertSatfinite = 8
};
void convert_any(const Op& op, Warp& warp, std::uint32_t mask);  // bytes: Type to, count: Type from
void convert_pair(const Op& op, Warp& warp, std::uint32_t mask);  // {a, b} to a packed pair
void unpack_pair(const Op& op, Warp& warp, std::uint32_t mask);   // packed fp8 to packed f16

// d[rows][columns] += a[rows][depth] b[depth][columns]; columns <= 256. Floats: products summed in
// double in order of depth, then d is added and the sum rounded once.
void multiply_floats(const float* a, const float* b, float* d, unsigned rows, unsigned columns,
                     unsigned depth);
void multiply_integers(const std::int32_t* a, const std::int32_t* b, std::int64_t* d, unsigned rows,
                       unsigned columns, unsigned depth);

}  // namespace gpk::sim

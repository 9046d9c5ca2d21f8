// What alu_base.cpp and alu_avx2.cpp include before the lane loops.
#pragma once

#include <bit>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "sim/alu.h"
#include "sim/machine.h"

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define GPK_SIM_AVX2 1
#endif

#if defined(__clang__)
#define GPK_LANES _Pragma("clang loop vectorize(assume_safety)")
#define GPK_NOINLINE __attribute__((noinline))
#elif defined(__GNUC__)
#pragma GCC optimize("O3", "no-strict-aliasing", "no-math-errno", "no-trapping-math")
#define GPK_LANES _Pragma("GCC ivdep")
#define GPK_NOINLINE __attribute__((noinline))
#else
#define GPK_LANES
#define GPK_NOINLINE
#endif

namespace gpk::sim {

// Combines the bits of a comparison as the operation asks and writes its predicates.
inline void finish_compare(const Op& op, Warp& warp, std::uint32_t mask, std::uint32_t result) {
  std::uint32_t complement = ~result;
  if (op.mode2 != 0) {
    const std::uint32_t other = warp.predicate(op.c) ^ ((op.flags & 1) != 0 ? kFull : 0);
    const auto combine = [&](std::uint32_t bits) {
      return op.mode2 == 1 ? bits & other : op.mode2 == 2 ? bits | other : bits ^ other;
    };
    complement = combine(complement);
    result = combine(result);
  }
  if (op.dst != kNoCell) warp.set_predicate(op.dst, result, mask);
  const auto second = static_cast<Cell>(op.args);
  if (second != kNoCell) warp.set_predicate(second, complement, mask);
}

#define GPK_SIM_ISA(name)                                                                         \
  namespace name {                                                                                \
  Handler alu_handler(Alu op, Type type, unsigned flags, Rounding rounding);                      \
  Handler compare_handler(Compare compare, Type type, bool ftz);                                  \
  Handler select_handler(unsigned bytes);                                                         \
  Handler fast_convert_handler(Type to, Type from, unsigned mode, unsigned flags);                \
  void multiply_floats(const float* a, const float* b, float* d, unsigned rows, unsigned columns, \
                       unsigned depth);                                                           \
  void multiply_integers(const std::int32_t* a, const std::int32_t* b, std::int64_t* d,           \
                         unsigned rows, unsigned columns, unsigned depth);                        \
  }
GPK_SIM_ISA(base_isa)
GPK_SIM_ISA(avx2_isa)
#undef GPK_SIM_ISA

}  // namespace gpk::sim

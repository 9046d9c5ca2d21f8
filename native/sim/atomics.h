// Atomic operations.
#pragma once

#include <optional>
#include <string_view>

#include "sim/program.h"
#include "sim/types.h"

namespace gpk::sim {

enum class Atomic : std::uint8_t { kAdd, kExch, kCas, kMin, kMax, kAnd, kOr, kXor, kInc, kDec };
std::optional<Atomic> atomic_named(std::string_view name);
bool has_atomic(Atomic op, Type type);

// mode: Atomic; mode2: Space; bytes: Type; a: address (+ imm); b, c: operands; dst: the old value,
// or kNoCell.
void atomic(const Op& op, Warp& warp, std::uint32_t mask);

// new = op(old, b, c), as bits.
std::uint64_t atomic_result(Atomic op, Type type, std::uint64_t old, std::uint64_t b,
                            std::uint64_t c);

}  // namespace gpk::sim

// Handlers of the rarer register operations.
#pragma once

#include "sim/program.h"

namespace gpk::sim {

void predicate_logic(const Op& op, Warp& warp, std::uint32_t mask);  // mode: Alu; flags: negations
void pack_vector(const Op& op, Warp& warp, std::uint32_t mask);      // dst = {args...}
void unpack_vector(const Op& op, Warp& warp, std::uint32_t mask);
void move_wide(const Op& op, Warp& warp, std::uint32_t mask);  // 16 bytes
void low_half(const Op& op, Warp& warp, std::uint32_t mask);
void high_half(const Op& op, Warp& warp, std::uint32_t mask);
void test_float(const Op& op, Warp& warp, std::uint32_t mask);
void make_mask(const Op& op, Warp& warp, std::uint32_t mask);
void extend_bits(const Op& op, Warp& warp, std::uint32_t mask);
void find_nth_set(const Op& op, Warp& warp, std::uint32_t mask);
// vabsdiff4, vabsdiff2: of parts of `count` bits. mode: 1 a is signed, 2 b is signed. mode2: 1 the
// sum of them, plus c
void absolute_differences(const Op& op, Warp& warp, std::uint32_t mask);
// Of two 16-bit integers in a word. mode: kAdd, kMin or kMax. flags: 1 signed, 2 none below 0
void half_words(const Op& op, Warp& warp, std::uint32_t mask);
void pack_saturated(const Op& op, Warp& warp, std::uint32_t mask);

}  // namespace gpk::sim

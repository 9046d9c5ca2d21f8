// Operations between the lanes of a warp. Run inside warp_sync (control.h): args[0] is the cell of
// the member mask.
#pragma once

#include "sim/program.h"

namespace gpk::sim {

enum class Shuffle : std::uint8_t { kUp, kDown, kBfly, kIdx };
void shuffle(const Op& op, Warp& warp, std::uint32_t mask);  // mode: Shuffle; args[1]: predicate
enum class Vote : std::uint8_t { kAll, kAny, kUni, kBallot };
void vote(const Op& op, Warp& warp, std::uint32_t mask);         // mode: Vote; flags: negated
void match_any(const Op& op, Warp& warp, std::uint32_t mask);    // cell_bytes: of a
void match_all(const Op& op, Warp& warp, std::uint32_t mask);    // args[1]: predicate
void reduce_warp(const Op& op, Warp& warp, std::uint32_t mask);  // mode: Atomic; bytes: Type
void elect(const Op& op, Warp& warp, std::uint32_t mask);        // args[1]: predicate
void active_mask(const Op& op, Warp& warp, std::uint32_t mask);

// Argument `index` of a call of a function that is not PTX, as an integer.
std::uint64_t call_argument(const Op& op, const Warp& warp, unsigned index, unsigned lane);
void print(const Op& op, Warp& warp, std::uint32_t mask);  // vprintf; args as call
void assert_fail(const Op& op, Warp& warp, std::uint32_t mask);

}  // namespace gpk::sim

// Handlers of control flow.
#pragma once

#include "sim/program.h"

namespace gpk::sim {

inline constexpr Cell kNoJoin = -1;

void branch(const Op& op, Warp& warp, std::uint32_t mask);  // imm: target; c: join, or kNoJoin
void branch_table(const Op& op, Warp& warp, std::uint32_t mask);  // a: index; args: count, targets
void join_here(const Op& op, Warp& warp, std::uint32_t mask);
void call(const Op& op, Warp& warp, std::uint32_t mask);  // imm: function; args: arguments, results
void call_indirect(const Op& op, Warp& warp, std::uint32_t mask);  // a: address
void return_from(const Op& op, Warp& warp, std::uint32_t mask);
void exit_lanes(const Op& op, Warp& warp, std::uint32_t mask);
void trap(const Op& op, Warp& warp, std::uint32_t mask);

void yield_warp(const Op& op, Warp& warp, std::uint32_t mask);  // nanosleep
void nothing(const Op& op, Warp& warp, std::uint32_t mask);

}  // namespace gpk::sim

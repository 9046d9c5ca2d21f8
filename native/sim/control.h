// Handlers of control flow and barriers.
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

// mode: BarrierMode; a: barrier, b: threads or kNoCell, c: predicate (flags 1: negated), dst.
enum BarrierMode : std::uint8_t { kSync, kArrive, kRedPopc, kRedAnd, kRedOr };
void barrier(const Op& op, Warp& warp, std::uint32_t mask);
void cluster_arrive(const Op& op, Warp& warp, std::uint32_t mask);
void cluster_wait(const Op& op, Warp& warp, std::uint32_t mask);

// An operation of all lanes of a member mask (cell args[0]): waits for them, then runs the handler
// in op.imm for all at once.
void warp_sync(const Op& op, Warp& warp, std::uint32_t mask);
void yield_warp(const Op& op, Warp& warp, std::uint32_t mask);  // nanosleep
void nothing(const Op& op, Warp& warp, std::uint32_t mask);

}  // namespace gpk::sim

// mbarrier objects. The 64-bit word in shared memory: pending arrivals (20 bits), expected arrivals
// (20), transaction bytes (22, biased), the phase in the top bit.
#pragma once

#include <string>

#include "sim/program.h"

namespace gpk::sim {

enum class MbarrierOp : std::uint8_t {
  kInit,
  kInvalidate,
  kArrive,
  kArriveExpect,
  kArriveDrop,
  kExpect,
  kComplete,
  kTest,
  kTestParity,
  kPendingCount,
};
// mode: MbarrierOp; mode2: Space; a (+ imm): address; b: count, bytes, state or parity, or kNoCell;
// dst: state or predicate, or kNoCell. flags: kAddress64. count 1: a failed wait lets others run.
void mbarrier(const Op& op, Warp& warp, std::uint32_t mask);

void mbarrier_arrive(Warp& warp, std::uint32_t address, std::uint32_t count, unsigned lane);
void mbarrier_complete(Warp& warp, std::uint32_t address, std::uint64_t bytes, unsigned lane);

// Of the wait that failed last: which phase, and what the mbarrier lacks.
std::string mbarrier_waiting_text(Warp& warp);

}  // namespace gpk::sim

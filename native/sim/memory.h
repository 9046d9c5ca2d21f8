// Handlers of loads, stores and address conversions.
#pragma once

#include "sim/program.h"

namespace gpk::sim {

enum class Space : std::uint8_t {
  kGeneric,
  kGlobal,
  kShared,
  kSharedCluster,
  kLocal,
  kKernelParam
};

enum MemoryFlags : std::uint8_t {
  kAddress64 = 1,  // op.a is a cell of 64-bit addresses, else of 32-bit ones
  kVolatile = 2,   // volatile, relaxed, acquire or release: single copy, and a warp may poll it
  kAcquire = 4,
  kRelease = 8,
};

// ld: dst cells in args[0..count), element bytes in op.bytes, cell bytes in op.cell_bytes;
// address = a + imm. st: the same with source cells. kKernelParam: imm is the offset.
Handler load_handler(Space space);
Handler store_handler(Space space);

// .param of a function: a blob of op.c bytes per lane at op.a, element at imm.
void load_blob(const Op& op, Warp& warp, std::uint32_t mask);
void store_blob(const Op& op, Warp& warp, std::uint32_t mask);

// The bytes behind an address of any space.
std::byte* bytes_at(Space space, Warp& warp, std::uint64_t address, std::size_t bytes,
                    unsigned lane);
// Address of a lane of an op with kAddress64 in its flags.
std::uint64_t lane_address(const Op& op, const Warp& warp, Cell cell, unsigned lane);

void local_address(const Op& op, Warp& warp, std::uint32_t mask);  // dst = frame's locals + imm
void read_clock(const Op& op, Warp& warp, std::uint32_t mask);     // mode: SpecialRegister
void is_space(const Op& op, Warp& warp, std::uint32_t mask);       // mode: Space
void map_shared(const Op& op, Warp& warp, std::uint32_t mask);     // mapa; a, b: rank
void shared_rank(const Op& op, Warp& warp, std::uint32_t mask);    // getctarank

}  // namespace gpk::sim

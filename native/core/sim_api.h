// What libpygpukit_sim.so (native/sim/driver) exports beside the driver's functions, declared here
// as driver_api.h declares those: options of launches, and reports. Found by name.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/driver_api.h"

namespace gpk::inline core::cu {

struct SimOptions {
  int check;           // memory that was never written, misuse of barriers
  int check_races;     // races in shared memory
  int counts;          // per PTX line
  int record;          // for gpkSimTakeReport; a fault ends its launch only, not the context
  int log;             // print findings to stderr (default)
  unsigned threads;    // host threads of a launch; 0: all
  std::uint64_t seed;  // of the schedule; 0: in order
  // A trace of one warp of every launch, up to so many steps; 0: none.
  std::uint64_t trace_steps;
  unsigned trace_block[3], trace_warp;
};

struct SimApi {
  // Of all later launches.
  void (*gpkSimGetOptions)(SimOptions* options) = nullptr;
  void (*gpkSimSetOptions)(const SimOptions* options) = nullptr;

  // The launches recorded since the last call, as JSON: [{"kernel", "grid", "block", "ok",
  // "lane_ops", "findings": [...], "counts": [...], "trace": {...}}]. Valid until the calling
  // thread asks again.
  const char* (*gpkSimTakeReport)() = nullptr;

  // The text of the finding that lost a context; empty: none. Valid until the thread asks again.
  const char* (*gpkSimFault)() = nullptr;
  // Makes lost contexts usable again; memory is as the kernel left it.
  void (*gpkSimClearFault)() = nullptr;

  // A name for reports of the allocation that starts at `address`.
  void (*gpkSimNameMemory)(std::uint64_t address, const char* name) = nullptr;
  // Whether anybody has written the range: known at once.
  void (*gpkSimMarkMemory)(std::uint64_t address, std::size_t bytes, int written) = nullptr;
  // A pool hands out an array at the start of a block of `room` bytes: from here on in the stream's
  // order nobody has written it, and the rest of the block is out of bounds.
  void (*gpkSimHandOut)(std::uint64_t address, std::size_t bytes, std::size_t room,
                        Stream stream) = nullptr;
};

}  // namespace gpk::inline core::cu

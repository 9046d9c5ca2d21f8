// Runs kernels of a module on the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/dim3.h"
#include "sim/module.h"

namespace gpk::sim {

struct LaunchShape {
  Dim3 grid, block, cluster;
  std::size_t dynamic_shared_bytes = 0;
};

// Which global addresses a kernel may touch; the driver implements it over its allocations.
// Addresses are host pointers. Called from several threads at once.
class GlobalMemory {
 public:
  virtual ~GlobalMemory() = default;
  struct Allocation {
    std::uint64_t base;
    std::size_t bytes;
    std::string name;
    std::size_t padding = 0;  // behind it: an aligned vector that begins inside may end there
  };
  // The allocation that contains `address`.
  virtual std::optional<Allocation> find(std::uint64_t address) const = 0;
  // The allocation whose nearest byte is closest to `address`; for reports.
  virtual std::optional<Allocation> nearest(std::uint64_t address) const = 0;

  // A range that nobody had written when it was handed out.
  struct Fresh {
    std::uint64_t base;
    std::size_t bytes;
    std::size_t offset;     // of the range in what was handed out
    std::uint8_t* written;  // by byte: not 0 where somebody has since
    std::string name;       // of what was handed out; empty: the allocation's is
  };
  // The one that contains `address`; nullptr: everything around it counts as written.
  virtual const Fresh* fresh(std::uint64_t /*address*/) const { return nullptr; }
};

struct Finding {
  std::string kind;  // "out of bounds", "misaligned", "race", "uninitialised",
                     // "divergent barrier", "deadlock", "trap", "assert", "invalid"
  std::string kernel;
  Dim3 block, thread;
  int ptx_line = 0;
  std::string source_file;  // of -lineinfo; empty: unknown
  int source_line = 0;
  std::string text;
};

// Asks for what one warp did.
struct TraceRequest {
  Dim3 block;
  unsigned warp = 0;
  std::size_t max_steps = 0;  // 0: no trace
};

struct TraceInstruction {
  std::string text;  // PTX
  int ptx_line = 0;
  std::string source_file;
  int source_line = 0;
  std::vector<std::pair<std::string, std::string>> registers;  // written: name, type
};

struct TraceStep {
  std::uint32_t instruction = 0;  // in Trace::instructions
  std::uint32_t mask = 0;         // lanes that executed it
  // Registers written, one after another: 32 lanes of at least 2 bytes, or a word of predicates.
  // Empty where the instruction did not end.
  std::vector<std::byte> values;
};

struct Trace {
  bool complete = true;  // false: there were more steps than asked for
  std::vector<TraceInstruction> instructions;
  std::vector<TraceStep> steps;
};

struct LaunchOptions {
  bool check = false;        // uninitialised reads, misuse of barriers
  bool check_races = false;  // races, stale reads, missing fences; on one host thread
  std::uint64_t seed = 0;    // 0: warps and blocks in order; else a shuffled schedule
  unsigned threads = 0;      // host threads, 0: all
  bool counts = false;
  TraceRequest trace;
  std::size_t max_findings = 16;
  std::uint64_t max_warp_ops =
      0;  // a warp that executes more ends the grid ("timeout"); 0: no limit
  std::function<void(std::string_view)> print;  // what a kernel prints; unset: stdout
};

// What one PTX line did, summed over the grid.
struct LineCounts {
  int ptx_line = 0;
  std::string source_file;
  int source_line = 0;
  std::uint64_t warp_ops = 0;        // times a warp issued it
  std::uint64_t lane_ops = 0;        // active lanes of those
  std::uint64_t sectors = 0;         // 32-byte sectors of global memory touched
  std::uint64_t ideal_sectors = 0;   // as few as the bytes asked for would need
  std::uint64_t bank_conflicts = 0;  // extra passes over shared memory
};

struct LaunchResult {
  bool ok = true;  // false: the kernel faulted, as on a device
  std::vector<Finding> findings;
  std::uint64_t lane_ops = 0;
  std::vector<LineCounts> counts;  // by PTX line, if asked for
  Trace trace;                     // if asked for
};

// Runs a grid to its end on the calling thread and helpers. params: one pointer per kernel
// parameter (as cuLaunchKernel). global_addresses: where each of the module's globals() lies. A
// kernel that faults ends its grid with a finding; throws only std::invalid_argument, for a shape
// the kernel cannot have, and std::bad_alloc.
LaunchResult run(const Kernel& kernel, const LaunchShape& shape, const void* const* params,
                 std::span<const std::uint64_t> global_addresses, const GlobalMemory& memory,
                 const LaunchOptions& options);

}  // namespace gpk::sim

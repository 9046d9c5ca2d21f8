// Lowered PTX: micro-operations over register cells.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sim/module.h"
#include "sim/types.h"

namespace gpk::sim {

struct Warp;
struct Op;

inline constexpr unsigned kLanes = 32;
inline constexpr std::uint32_t kFull = 0xffffffffu;

// Where a register lies: byte offset in its frame, or (negative) from the end of the constants.
// A cell has 32 lanes of 2, 4, 8 or 16 bytes; a predicate's is one 32-bit word, a bit per lane.
using Cell = std::int32_t;
inline constexpr Cell kNoCell = INT32_MIN;

// Runs one operation for the lanes of `mask`. Throws Fault (machine.h).
using Handler = void (*)(const Op& op, Warp& warp, std::uint32_t mask);

struct Op {
  Handler run = nullptr;
  std::uint64_t imm = 0;
  Cell dst = 0, a = 0, b = 0, c = 0;
  Cell guard = kNoCell;
  std::uint32_t args = 0;      // first of its further operands in Function::args
  std::uint32_t location = 0;  // in Program::locations
  bool control = false;        // may change the warp's pc, mask or frame
  bool guard_negated = false;
  std::uint8_t bytes = 0;  // of a memory element
  std::uint8_t count = 1;  // of vector elements
  std::uint8_t cell_bytes = 4;
  std::uint8_t flags = 0;
  std::uint8_t mode = 0, mode2 = 0;
};

struct Location {
  int ptx_line, file, source_line;
};

struct RegisterWrite {
  std::string name;
  Type type;  // of the register, kPred: a bit per lane
  Cell cell;
};

// An instruction of the text, which may be several operations.
struct Instruction {
  enum class Reads : std::uint8_t {
    kComputes,  // results depend on all operands, and nothing else does
    kSelects,   // of the first two operands one, by the third
    kShuffles,  // of other lanes
    kMixes,     // results depend on the operands of all lanes
    kStores,    // the last num_stored of them go to memory
    kActs,      // memory, control and other threads depend on them
  };
  std::string text;
  std::vector<RegisterWrite> writes;
  std::vector<Cell> reads;
  Reads how = Reads::kActs;
  unsigned num_stored = 0;
};

// A constant that is known at launch.
struct Relocation {
  enum class Kind : std::uint8_t { kGlobal, kShared, kDynamicShared, kParam };
  std::size_t at;  // byte offset of the cell from the start of the constants
  Kind kind;
  std::uint32_t index;  // of the variable
  std::uint64_t offset;
  std::uint8_t bytes;  // per lane
};

struct SharedVariable {
  std::string name;
  std::size_t bytes, align;
  bool dynamic;
};

// A parameter or result of a function in its frame: 32 lanes of `bytes` each.
struct ParamBlob {
  Cell cell;
  std::uint32_t bytes;
};

struct Special {
  std::uint16_t id;  // SpecialRegister
  Cell cell;
  std::uint8_t bytes;
};

struct Function {
  std::string name;
  bool entry = false;
  std::vector<Op> code;
  std::vector<std::int32_t> args;
  std::size_t frame_bytes = 0;
  std::size_t local_bytes = 0;
  std::size_t stack_bytes = 0;  // its own locals and those of everything it may call
  std::vector<Special> specials;
  std::vector<ParamBlob> params, results;
  std::vector<std::uint32_t> callees, shared_used;  // indices in the program
  bool calls_indirectly = false;
  // Entries only.
  std::vector<KernelParam> kernel_params;
  std::size_t param_bytes = 0;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> shared_layout;  // variable, address
  std::size_t shared_end = 0;  // address after the static variables
  unsigned max_threads = 1024;
  Dim3 required_block{0, 0, 0}, cluster{0, 0, 0};
};

struct GlobalAddress {  // in the initialiser of a variable
  std::uint32_t variable;
  std::size_t at;
  bool function;
  std::uint32_t target;
  std::uint64_t offset;
  unsigned bytes, shift;
};

struct Program {
  std::vector<std::unique_ptr<Function>> functions;
  std::vector<GlobalVariable> globals;
  std::vector<GlobalAddress> global_addresses;
  std::vector<SharedVariable> shared;
  std::vector<std::byte> constants;
  std::vector<Relocation> relocations;
  std::vector<Location> locations;
  std::vector<Instruction> instructions;  // of each location
  std::map<int, std::string> files;
  int sm = 0;
};

// Addresses. Global and constant memory and the parameters of a kernel are host addresses.
inline constexpr std::uint64_t kSharedWindow = std::uint64_t{0x01} << 56;
inline constexpr std::uint64_t kLocalWindow = std::uint64_t{0x02} << 56;
inline constexpr std::uint64_t kFunctionWindow = std::uint64_t{0x03} << 56;
inline constexpr std::uint64_t kWindowMask = std::uint64_t{0xff} << 56;
// A shared address: bits 0-23 the offset, above them 0 (the own block) or 1 + rank in the cluster.
inline constexpr std::uint32_t kSharedOffsetBits = 24;
inline constexpr std::uint32_t kSharedReserved = 1024;  // nothing lies at the null address

enum SpecialRegister : std::uint16_t {
  kTidX,
  kTidY,
  kTidZ,
  kNtidX,
  kNtidY,
  kNtidZ,
  kCtaidX,
  kCtaidY,
  kCtaidZ,
  kNctaidX,
  kNctaidY,
  kNctaidZ,
  kLaneid,
  kWarpid,
  kNwarpid,
  kSmid,
  kNsmid,
  kGridid,
  kLanemaskEq,
  kLanemaskLt,
  kLanemaskLe,
  kLanemaskGt,
  kLanemaskGe,
  kClusteridX,
  kClusteridY,
  kClusteridZ,
  kNclusteridX,
  kNclusteridY,
  kNclusteridZ,
  kClusterCtaidX,
  kClusterCtaidY,
  kClusterCtaidZ,
  kClusterNctaidX,
  kClusterNctaidY,
  kClusterNctaidZ,
  kClusterCtarank,
  kClusterNctarank,
  kIsExplicitCluster,
  kDynamicSmemSize,
  kTotalSmemSize,
  kAggrSmemSize,
  kZero,
  kClock,
  kClock64,
  kClockHi,
  kGlobaltimer,
  kGlobaltimerLo,
  kGlobaltimerHi,  // read when executed
};

}  // namespace gpk::sim

// Arguments of kernels/chain: a chain of launches that one kernel runs.
#pragma once

namespace gpk::kernels {

enum class ChainKind : int { kGemv, kKvWrite, kAttention };

enum ChainFlags : unsigned {
  kChainGated = 1,            // kGemv: as gemv_mma's kGated
  kChainNormed = 2,           // kGemv: as its kNorm
  kChainWrites = 4,           // kAttention of one row: the cache write before it is part of it
  kChainAttentionTables = 8,  // the attention reads ChainTables
  kChainWriteTables = 16,     // the cache write reads them, of either kind of phase
};

// A launch of the chain. Its work is cut into units, which are assigned to the blocks round-robin
// across phases of a kind: each phase goes on where the one before it stopped.
struct alignas(16) ChainPhase {
  static constexpr int kSecond = 352;  // where KvWriteArgs are in the work of attention
  static constexpr int kWorkBytes = 672;
  ChainKind kind;
  unsigned flags;
  int num_units;
  int first_unit_offset;  // units of the phases of its kind before it
  int next_gemv;          // the next phase of that kind
  int blocks;             // kAttention: groups of splits, grid x of its own launch
  int tiles;              // kAttention: grid y
  int unused;
  unsigned char work[kWorkBytes];  // GemvArgs, EpilogueArgs; KvWriteArgs; AttentionArgs
};
static_assert(sizeof(ChainPhase) == 704 && __is_trivially_copyable(ChainPhase));

enum : int {
  kChainWarps = 8,  // that compute; one more, in a warpgroup of its own, loads weights
  kChainThreads = 32 * kChainWarps + 128,
  kChainRows = 8,         // most rows of x
  kChainCounters = 2,     // of the grid barrier; those of attention follow
  kChainSumPitch = 20,    // floats: 16 rows of w, free of bank conflicts
  kChainRowPadding = 32,  // elements behind a row of x in shared memory
  kChainTableWords = 2048,
};

// What most attention and cache writes of a chain read of the sequences, in shared memory from the
// start on: lengths, slots, positions [rows], then the block tables [rows, blocks_row]. Each
// sequence has one token. Phases without the flags have other arrays, and read them from memory.
struct ChainTables {
  const int* lengths;  // nullptr: there are none
  const int* slots;
  const int* positions;
  const int* blocks;
  int rows;
  int blocks_row;
};

// Shared memory: the ring of stages, then rows of x or what attention needs, then sums, then three
// phases, then the tables, then the barriers of the ring.
struct ChainArgs {
  const ChainPhase* phases;
  unsigned* counters;  // zero before and after
  float* parts;        // attention: results of the splits
  ChainTables tables;
  int num_phases;
  int stages;
  int stage_bytes;  // a multiple of 128
  int row_bytes;    // rows of x, or attention: a multiple of 128
  int table_bytes;  // a multiple of 128
  int first_gemv;
};
static_assert(sizeof(ChainArgs) == 88 && __is_trivially_copyable(ChainArgs));

}  // namespace gpk::kernels

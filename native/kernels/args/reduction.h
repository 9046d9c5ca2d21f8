// Arguments of the kernels in kernels/reduction. Fields named `code` hold a DType.
#pragma once

namespace gpk::kernels {

// Final step applied to the accumulator.
enum class FinishMode : int { kResult, kMean, kAny, kAll, kVariance, kDeviation };

struct Finish {
  long long length;   // elements of one reduction
  double correction;  // of a variance
  int code;           // of the result
  FinishMode mode;
};
static_assert(sizeof(Finish) == 24 && __is_trivially_copyable(Finish));

// Kept dimensions (one result per index) and reduced ones, slowest first, strides in elements.
struct ReduceLayout {
  static constexpr int kMaxDims = 6;
  long long kept_size[kMaxDims] = {};
  long long kept_in[kMaxDims] = {};
  long long kept_out[kMaxDims] = {};
  long long reduced_size[kMaxDims] = {};
  long long reduced_in[kMaxDims] = {};
  long long kept = 1;     // number of results
  long long reduced = 1;  // elements of each
  int num_kept = 0;
  int num_reduced = 0;
};
static_assert(sizeof(ReduceLayout) == 264 && __is_trivially_copyable(ReduceLayout));

struct ReduceArgs {
  static constexpr int kBlock = 256;  // threads
  const void* in;
  void* out;
  void* partials;      // [split][result], with several splits
  unsigned* counters;  // one per block column; zero before and after
  ReduceLayout layout;
  Finish finish;
  long long per_split;  // general, columns: reduced elements per split
  long long segments;   // rows: contiguous segments of a row
  int in_code;
  int skip_nan;
  int group;       // rows: threads per row
  int lanes;       // rows: threads of them per segment
  int short_rows;  // rows: one access per thread and row
  int unused;
};
static_assert(sizeof(ReduceArgs) == 360 && __is_trivially_copyable(ReduceArgs));

// --- scans --------------------------------------------------------------------------------------

// Elements per access (kAligned: 16 bytes of input) and accesses per thread, for elements of kItem
// bytes.
template <int kItem, bool kAligned>
struct ScanTile {
  static constexpr int kVec = kAligned ? 16 / kItem : 1;
  static constexpr int kUnroll = !kAligned ? 8 : kItem == 1 ? 1 : kItem == 8 ? 4 : 2;
};

// Contiguous rows.
struct ScanArgs {
  static constexpr int kBlock = 256;  // threads
  const void* in = nullptr;
  void* out = nullptr;
  void* totals = nullptr;  // chunks: one Acc each
  long long in_row = 0;    // row pitch, in elements
  long long out_row = 0;
  long long rows = 1;
  long long n = 0;           // elements per row
  long long chunk = 0;       // elements per chunk, whole tiles
  long long num_chunks = 1;  // per row
  int skip_nan = 0;
  int initial = 0;  // write the neutral element at the start of each row
};
static_assert(sizeof(ScanArgs) == 80 && __is_trivially_copyable(ScanArgs));

// Lines of any stride.
struct LineArgs {
  const void* in = nullptr;
  void* out = nullptr;
  void* totals = nullptr;
  ReduceLayout layout;  // kept: the lines; no reduced dimensions
  long long n = 0;
  long long in_step = 0;  // along a line, in elements
  long long out_step = 0;
  long long chunk = 0;  // elements per chunk
  long long num_chunks = 1;
  int in_code = 0;
  int out_code = 0;
  int skip_nan = 0;
  int initial = 0;  // write the neutral element at the start of each line
  int only_totals = 0;
  int unused = 0;
};
static_assert(sizeof(LineArgs) == 352 && __is_trivially_copyable(LineArgs));

}  // namespace gpk::kernels

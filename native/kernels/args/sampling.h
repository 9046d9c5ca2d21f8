// What the kernels of kernels/sampling take. Strides are in elements.
#pragma once

namespace gpk::kernels {

inline constexpr int kSampleThreads = 1024;
// Bins of a histogram of distances; a search takes two of them.
inline constexpr int kSampleBins = 2048;
// Tokens that one block of a cluster finishes alone, and the bytes of shared memory they take.
inline constexpr int kShortlist = 4096;
inline constexpr int kShortlistBytes = 8 * kShortlist;

// A value for all rows, or one for each of them.
struct RowFloat {
  const float* values;  // nullptr: `value`
  float value;
  int unused;
};
struct RowInt {
  const int* values;
  int value;
  int unused;
};
struct RowLong {
  const long long* values;
  long long value;
};

enum class TokenMask : int { kNone, kBools, kBits };

// How rows of logits are dealt out: `blocks` thread blocks share one, with `slice` elements each.
struct SampleRows {
  const void* logits;
  float* cache;  // [rows, width], where a slice does not fit shared memory; else nullptr
  long long logits_row;
  int width;
  int blocks;
  int slice;
  int unused;
};
static_assert(sizeof(SampleRows) == 40 && __is_trivially_copyable(SampleRows));

struct SampleArgs {
  SampleRows rows;
  int* tokens;   // nullptr: none
  float* probs;  // [rows, width]; nullptr: none
  const int* counts;
  const float* bias;
  const void* mask;  // bool, or 32 tokens per unsigned
  long long* steps;  // counted up; nullptr: `step`
  long long counts_row;
  long long bias_row;
  long long mask_row;
  long long step;
  RowLong seed;
  const float* uniforms;  // instead of seeds and steps; nullptr: none
  RowFloat temperature;
  RowFloat top_p;
  RowFloat min_p;
  RowFloat typical_p;
  RowFloat repetition;
  RowFloat presence;
  RowFloat frequency;
  RowInt top_k;
  TokenMask mask_kind;
  int unused;
};
static_assert(sizeof(SampleArgs) == 280 && __is_trivially_copyable(SampleArgs));

struct LogprobArgs {
  SampleRows rows;
  const int* tokens;
  float* chosen;  // [rows]
  int* top_ids;   // [rows, count]
  float* top;     // [rows, count]
  int count;
  int unused;
};
static_assert(sizeof(LogprobArgs) == 80 && __is_trivially_copyable(LogprobArgs));

struct TokenCountArgs {
  const int* ids;  // [rows, per_row]
  int* counts;     // [rows, width]
  long long num_ids;
  long long per_row;
  long long counts_row;
  long long width;
};
static_assert(sizeof(TokenCountArgs) == 48 && __is_trivially_copyable(TokenCountArgs));

inline constexpr int kTimestampThreads = 1024;

struct TimestampArgs {
  const void* logits;
  void* out;
  const int* tokens;
  int* history;                    // count, last, before, newest timestamp
  const unsigned* suppress;        // bits
  const unsigned* begin_suppress;  // bits
  long long logits_row;
  long long out_row;
  long long history_field;
  long long history_row;
  int width;
  int eos;
  int first_timestamp;  // width: no timestamps
  int max_initial;      // -1: any
};
static_assert(sizeof(TimestampArgs) == 96 && __is_trivially_copyable(TimestampArgs));

}  // namespace gpk::kernels

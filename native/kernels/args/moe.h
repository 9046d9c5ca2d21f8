// What the kernels of kernels/moe take. Strides are in elements.
#pragma once

namespace gpk::kernels {

inline constexpr int kMaxExperts = 1024;
inline constexpr int kMaxTopK = 32;  // experts of a token: a lane each
inline constexpr int kMaxExpertGroups = 32;

// --- route --------------------------------------------------------------------------------------

inline constexpr int kRouteBlock = 128;  // threads: a warp per token

enum MoeScoring : int {
  kScoreSoftmax,
  kScoreSigmoid,
  kScoreLogits,  // the logits themselves
};

struct MoeRouteArgs {
  const void* logits;
  const float* bias;  // of experts, in the selection only; nullptr: none
  float* weights;     // [tokens, top_k]
  int* experts;       // [tokens, top_k]
  long long logits_row;
  long long tokens;
  int num_experts;
  int top_k;
  int scoring;  // MoeScoring
  int renormalize;
  int num_groups;  // of consecutive experts
  int top_groups;  // that a token may choose from
  float scale;
  int unused;
};
static_assert(sizeof(MoeRouteArgs) == 80 && __is_trivially_copyable(MoeRouteArgs));

// --- permute ------------------------------------------------------------------------------------

inline constexpr int kPermuteBlock = 256;  // threads, and slots of a tile

// Slot t * top_k + j is choice j of token t. Slots without an expert come last.
struct MoePermuteArgs {
  const void* experts;  // [tokens, top_k]
  int* sizes;           // [num_experts]
  int* row_map;         // [tokens, top_k]: the place of a slot
  int* slots;           // the slot of a place; nullptr: not wanted
  int* counts;          // [num_experts + 1, tiles]: slots per tile, then those of earlier tiles
  int* totals;          // [num_experts + 1]
  const void* x;        // [tokens, words]
  void* rows;           // [tokens * top_k, words]
  long long x_row;      // in words
  long long tokens;
  long long num_slots;
  long long words;  // of a row
  int num_experts;
  int top_k;
  int num_tiles;
  int lanes;  // threads that copy one row: a power of two
};
static_assert(sizeof(MoePermuteArgs) == 112 && __is_trivially_copyable(MoePermuteArgs));

// --- unpermute ----------------------------------------------------------------------------------

struct MoeUnpermuteArgs {
  const void* rows;      // [num_rows, width]
  const int* row_map;    // [tokens, top_k]
  const float* weights;  // [tokens, top_k]; nullptr: 1
  void* out;             // [tokens, width]
  long long rows_row;
  long long out_row;
  long long num_rows;
  long long tokens;
  long long width;
  int top_k;
  int lanes;  // threads of one token: a power of two
};
static_assert(sizeof(MoeUnpermuteArgs) == 80 && __is_trivially_copyable(MoeUnpermuteArgs));

}  // namespace gpk::kernels

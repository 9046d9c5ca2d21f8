// What the kernels of kernels/kv_cache take. Strides are in elements.
#pragma once

namespace gpk::kernels {

// --- writes: kernels/kv_cache/write.cuh ---------------------------------------------------------

// [tokens, heads, dim], contiguous along the last axis.
struct TokenHeads {
  const void* data;
  long long token;
  long long head;
};

// [blocks, page, heads, dim]; slot s is (s / page, s % page).
struct CacheSlots {
  void* data;
  const float* scale;  // nullptr: `scale_value`
  long long block;
  long long slot;
  long long head;
  float scale_value;
  int unused;
};

// Whether arrays of either dtype are the wider one.
inline constexpr unsigned kWideTables = 1;     // float32, else as x
inline constexpr unsigned kWideQWeight = 2;    // float32, else as x
inline constexpr unsigned kWideKWeight = 4;    // float32, else as x
inline constexpr unsigned kWidePositions = 8;  // int64, else int32
inline constexpr unsigned kWideSlots = 16;     // int64, else int32

struct KvWriteArgs {
  TokenHeads q;
  TokenHeads k;
  TokenHeads v;
  void* q_out;
  long long q_out_token;
  long long q_out_head;
  CacheSlots k_cache;
  CacheSlots v_cache;
  const void* slots;
  const void* positions;
  const void* cos;  // [table_rows, half]
  const void* sin;
  const void* q_weight;  // nullptr: no norm
  const void* k_weight;
  long long num_rows;  // heads of all tokens, of q, k and v
  long long num_slots;
  long long table_rows;
  long long cos_row;
  long long sin_row;
  float eps;
  float offset;  // added to the weights
  int q_heads;
  int kv_heads;
  int dim;
  int half;  // pairs that are rotated; 0: none
  int page;
  int group;  // threads of a head, a power of two up to 32
  unsigned wide;
  int unused;
};
static_assert(sizeof(KvWriteArgs) == 320 && __is_trivially_copyable(KvWriteArgs));

// --- pages: kernels/kv_cache/pages.cuh. Sizes and strides in words of the kernel
// ------------------

struct PageCopyArgs {
  void* caches[2];
  const int* pairs;  // [num_pairs, 2]: from, to
  long long block[2];
  long long words;  // of a page
  long long num_blocks;
  int chunks;  // thread blocks per page
  int unused;
};
static_assert(sizeof(PageCopyArgs) == 64 && __is_trivially_copyable(PageCopyArgs));

struct PageGatherArgs {
  const void* cache;
  const int* tables;   // [sequences, max_blocks]
  const int* lengths;  // of sequences; nullptr: `length`
  void* out;           // [sequences, length, words]
  long long block;
  long long slot;
  long long words;  // of a token
  long long num_tokens;
  long long num_blocks;
  long long length;
  int max_blocks;
  int page;
};
static_assert(sizeof(PageGatherArgs) == 88 && __is_trivially_copyable(PageGatherArgs));

struct SlotMappingArgs {
  const int* tables;     // [num_sequences, max_blocks]
  const int* positions;  // [num_tokens]
  const int* sequences;  // of tokens; nullptr: token i is of sequence i
  int* slots;
  long long num_tokens;
  int num_sequences;
  int max_blocks;
  int page;
  int unused;
};
static_assert(sizeof(SlotMappingArgs) == 56 && __is_trivially_copyable(SlotMappingArgs));

}  // namespace gpk::kernels
